"""What the Progressing condition says of a stage's pod."""

from typing import Any

import pytest

from paceline.api.drafttrainingjob import Stage
from paceline.planning import conditions, plan
from paceline.training import observe, waits
from training import builders


def said(job: plan.Manifest | None, *pods: plan.Manifest, **spec: Any) -> conditions.Said:
    """Return what is said of a run in Extract."""
    record = builders.record(*builders.before(Stage.EXTRACT), started_at=builders.at(-600))
    owner = builders.started(**spec)
    objects = [one for one in (owner, builders.remembered(record), job, *pods) if one]
    return waits.progressing(observe.observe(builders.FakeView(*objects), owner), record, None)


JOB = builders.job(Stage.EXTRACT)
BLOCKED = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}


@pytest.mark.parametrize(
    ("pod", "status", "reason", "words"),
    [
        (None, True, "Extracting", "waits for its pod"),
        (builders.pod(of=JOB, node="", phase="Pending"), False, "Scheduling", "waits for a node"),
        (
            builders.pod(of=JOB, node="", phase="Pending", told=[builders.unscheduled("claim work not found")]),
            False,
            "Scheduling",
            "claim work not found",
        ),
        (builders.pod(of=JOB, main=BLOCKED), True, "Extracting", "cannot start on node node-1: container stage: Image"),
        (builders.pod(of=JOB, engine={"state": {}}), True, "Extracting", "for its engine to load the target"),
        (builders.pod(of=JOB), True, "Extracting", "starts on node node-1"),
        (builders.pod(of=JOB, main=builders.running()), True, "Extracting", "runs on node node-1"),
        (builders.pod(of=JOB, told=[builders.preempted()]), False, "Disrupted", "not charged to spec.stageRetries"),
    ],
)
def test_pod_is_told_in_words(pod: plan.Manifest | None, *, status: bool, reason: str, words: str) -> None:
    """Each state of a pod has its reason and its sentence."""
    found = said(JOB, *([pod] if pod else []))
    assert (found.status, found.reason) == (status, reason)
    assert words in found.message


def test_job_held_by_a_queue_names_it() -> None:
    """Kueue suspends a Job until it is admitted."""
    held = builders.job(Stage.EXTRACT)
    held["spec"]["suspend"] = True
    found = said(held, queue={"localQueue": "research"})
    assert (found.status, found.reason) == (False, "Scheduling")
    assert "waits for admission by queue research" in found.message


def test_replacement_that_runs_is_no_longer_disrupted() -> None:
    """The preemption is over once the next pod has a node."""
    gone = builders.pod("pod-1", of=JOB, phase="Failed", told=[builders.preempted()])
    found = said(JOB, gone, builders.pod("pod-2", of=JOB, main=builders.running()))
    assert (found.status, found.reason) == (True, "Extracting")


def test_kubelet_is_believed_over_an_older_word_of_the_scheduler() -> None:
    """A pod that a node has started is not waiting for one."""
    pod = builders.pod(of=JOB, main=builders.running(), told=[builders.unscheduled("no nodes available")])
    assert said(JOB, pod).status is True
