"""The room as the controller drives it."""

import copy

import pytest

from paceline.planning import kinds, plan
from paceline.rollout.room import Rollout
from rollout import builders
from rollout.cluster import Cluster, Picture


def test_missing_resource_has_no_plan() -> None:
    """Its children go by owner references."""
    cluster = Cluster()
    cluster.remove(kinds.SPECULATIVE_DEPLOYMENT, builders.NAME)
    assert cluster.room.reconcile(cluster.picture(), cluster.key, cluster.now) is None


def test_resource_on_its_way_out_has_no_plan() -> None:
    """Nothing is made for what is being deleted."""
    resource = builders.deployment()
    resource["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    cluster = Cluster(resource)
    assert cluster.room.reconcile(cluster.picture(), cluster.key, cluster.now) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"target": {"uri": "file:///etc/passwd"}}, "target.uri"),
        ({"rollout": {}}, "rollout.analysis"),
    ],
)
def test_unreadable_spec_names_the_field(change: dict, said: str) -> None:
    """What another version stored is told, and what runs stays."""
    cluster = Cluster()
    cluster.edit(**change)
    planned = cluster.plan()
    assert planned.actions == ()
    assert planned.status is not None
    told = planned.status["conditions"][0]
    assert (told["reason"], said in told["message"]) == ("InvalidSpec", True)


def test_missing_stage_image_is_told() -> None:
    """Without an image no inspection can run."""
    cluster = Cluster()
    cluster.room = Rollout()
    planned = cluster.plan()
    assert planned.status is not None
    assert "spec.proberImage" in planned.status["conditions"][0]["message"]


def test_damaged_record_stops_everything() -> None:
    """When it is not known what was decided, nothing is decided."""
    cluster = Cluster()
    cluster.settle()
    damaged = copy.deepcopy(next(one for one in cluster.objects(kinds.CONFIG_MAP) if "record.json" in one["data"]))
    damaged["data"]["record.json"] = "{"
    cluster.put(damaged)
    planned = cluster.plan()
    assert planned.actions == ()
    assert cluster.serving() == "None"
    cluster.run(planned)
    assert cluster.condition("Accepted")["reason"] == "DamagedRecord"


def test_training_job_wakes_those_that_refer_to_it() -> None:
    """A published head is noticed at once."""
    cluster = Cluster(builders.deployment(speculation=builders.from_job()))
    assert cluster.room.dependents(cluster.picture(), builders.training_job()) == [cluster.key]
    cluster.edit(speculation=builders.eagle3())
    assert cluster.room.dependents(cluster.picture(), builders.training_job()) == []


def test_pod_wakes_its_resource() -> None:
    """A server's pod is owned by a ReplicaSet, so its annotation names the resource."""
    cluster = Cluster()
    cluster.until(lambda: bool(cluster.objects(kinds.POD)))
    pod = cluster.objects(kinds.POD)[0]
    assert cluster.room.dependents(cluster.picture(), pod) == [cluster.key]
    stray: plan.Manifest = {**pod, "metadata": {"name": "x", "namespace": builders.NAMESPACE}}
    assert cluster.room.dependents(cluster.picture(), stray) == []


def test_probe_is_asked_for_progress_and_stable_for_metrics() -> None:
    """Only what says something is polled."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.settle()
    polls = cluster.room.polled(cluster.picture(), cluster.key)
    assert [(one.url, one.wants) for one in polls] == [("http://10.0.0.1:8000/metrics", "metrics")]
    cluster.edit(guard={"enabled": False})
    assert cluster.room.polled(cluster.picture(), cluster.key) == []


def test_head_that_is_published_later_is_taken_up() -> None:
    """From a training job under way to a served head."""
    cluster = Cluster(builders.deployment(speculation=builders.from_job()))
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.put(builders.training_job(published=False))
    cluster.settle()
    assert cluster.serving() == "None"
    assert cluster.condition("Progressing")["reason"] == "AwaitingHead"
    cluster.put(builders.training_job())
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"
    cluster.remove(kinds.DRAFT_TRAINING_JOB, "train")
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"
    assert cluster.condition("Accepted")["status"] == "True"


def test_picture_without_anything_is_a_first_pass() -> None:
    """A new resource in an empty cluster begins with its inspection."""
    resource = builders.deployment()
    picture = Picture(store={("SpeculativeDeployment", builders.NAME): resource})
    cluster = Cluster()
    planned = cluster.room.reconcile(picture, cluster.key, cluster.now)
    assert planned is not None
    assert [one.manifest["kind"] for one in planned.actions] == ["ConfigMap", "Job"]
