"""From changes to keys."""

from controller import builders
from paceline.controller import triggers
from paceline.planning import kinds
from paceline.planning.plan import Key


class Room:
    """Runs training jobs; its dependents are told by a test."""

    kind = kinds.DRAFT_TRAINING_JOB

    def __init__(self, dependents=()):
        self.found = dependents

    def dependents(self, _view, _changed):
        """Return what the test said."""
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def keys(kind, before, after, *, dependents=(), earlier=()):
    """Return the names enqueued for one change."""
    told = []
    trigger = triggers.Triggers(rooms={"DraftTrainingJob": Room(dependents)}, look=lambda: None, enqueue=told.append)
    for manifest in earlier:
        trigger.changed(kinds.DRAFT_TRAINING_JOB, None, manifest)
    told.clear()
    trigger.changed(kind, before, after)
    return [key.name for key in told]


def pod(**labels):
    """Return a pod."""
    return {"kind": "Pod", "metadata": {"name": "p", "namespace": builders.NAMESPACE, "labels": labels}}


def test_resource_concerns_itself():
    """Also when it is gone, so that what is known of it is dropped."""
    assert keys(kinds.DRAFT_TRAINING_JOB, None, builders.resource()) == ["run"]
    assert keys(kinds.DRAFT_TRAINING_JOB, builders.resource(), None) == ["run"]


def test_child_concerns_its_controller():
    """By owner reference, once, though its label says the same."""
    assert keys(kinds.CONFIG_MAP, None, builders.config_map(version="1")) == ["run"]


def test_pod_concerns_the_resource_its_label_names():
    """A pod's own controller is a Job."""
    assert keys(kinds.POD, None, pod(**{"paceline.dev/training-job": "run"})) == ["run"]


def test_pod_of_a_resource_with_a_long_name_is_found():
    """Label values are cut; the resource's own watch told its name before."""
    long = builders.resource()
    long["metadata"] = {**long["metadata"], "name": "n" * 80}
    value = triggers.names.label_value("n" * 80)
    assert keys(kinds.POD, None, pod(**{"paceline.dev/training-job": value}), earlier=[long]) == ["n" * 80]


def test_child_that_moved_concerns_both_owners():
    """The one that lost it must look again, too."""
    moved = builders.config_map(version="2")
    moved["metadata"] = {**moved["metadata"], "labels": {}, "ownerReferences": []}
    assert keys(kinds.CONFIG_MAP, builders.config_map(version="1"), moved) == ["run"]


def test_kind_without_a_room_gets_no_pass():
    """Nobody could reconcile it."""
    assert keys(kinds.POD, None, pod(**{"paceline.dev/deployment": "served"})) == []


def test_dependents_are_added():
    """A rollout that waits for a training job."""
    waiting = Key(kind=kinds.DRAFT_TRAINING_JOB, namespace="shop", name="waiting")
    assert keys(kinds.DRAFT_TRAINING_JOB, None, builders.resource(), dependents=[waiting]) == ["run", "waiting"]


def test_rooms_bug_in_dependents_ends_no_watch():
    """All rooms live on the same watches."""
    assert keys(kinds.DRAFT_TRAINING_JOB, None, builders.resource(), dependents=RuntimeError("bug")) == ["run"]
