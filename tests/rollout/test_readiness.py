"""What pods wait for, and when the wait has been too long."""

import dataclasses

import pytest

from paceline.api.conditions import RolloutReason
from paceline.api.speculativedeployment import DeadlineSpec
from paceline.rollout import observe, readiness
from rollout.builders import NOW

DEADLINES = DeadlineSpec(scheduling="10m", loading="30m")
NO_GPU = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."

POD = observe.Pod(
    name="pod",
    uid="uid",
    created_at=NOW,
    ip="10.0.0.1",
    node="node",
    phase="Running",
    ready=True,
    scheduled_at=NOW,
    unschedulable="",
    restarts=0,
    waiting="",
    last_exit="",
    message="",
)
LOADING = dataclasses.replace(POD, ready=False)
PENDING = dataclasses.replace(LOADING, scheduled_at=None, phase="Pending", unschedulable="0/2 nodes: taint")
NO_ROOM = dataclasses.replace(PENDING, unschedulable=NO_GPU)
RESTARTED = dataclasses.replace(LOADING, restarts=1, last_exit="OOMKilled, exit code 137")
CRASHING = dataclasses.replace(LOADING, restarts=2, waiting="CrashLoopBackOff", last_exit="Error, exit code 1: boom")
UNPULLED = dataclasses.replace(LOADING, waiting="ImagePullBackOff")


def server(*pods: observe.Pod, trouble: str = "") -> observe.Server:
    """Return a Deployment with these pods."""
    return observe.Server(
        name="server",
        uid="uid",
        resource_version="1",
        revision="12345678",
        replicas=1,
        created_at=NOW,
        stirred_at=NOW,
        trouble=trouble,
        pods=pods,
    )


def assess(*pods: observe.Pod, after: float = 60.0, wanted: int = 1, speculates: bool = True, trouble: str = ""):
    """Return the verdict ``after`` seconds."""
    arm = readiness.Arm(short="12345678", server=server(*pods, trouble=trouble), wanted=wanted, speculates=speculates)
    return readiness.assess(arm, DEADLINES, NOW + after)


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        pytest.param([], RolloutReason.SCHEDULING, id="no pod was made yet"),
        pytest.param([PENDING], RolloutReason.SCHEDULING, id="no node suits"),
        pytest.param([NO_ROOM], RolloutReason.INSUFFICIENT_GPU, id="no node has free GPUs"),
        pytest.param([LOADING], RolloutReason.LOADING, id="the model is loaded"),
        pytest.param([RESTARTED], RolloutReason.LOADING, id="one crash may be the memory of a pod that still ends"),
        pytest.param([UNPULLED], RolloutReason.LOADING, id="the image cannot be pulled"),
    ],
)
def test_wait_has_its_own_reason(pods: list[observe.Pod], reason: RolloutReason) -> None:
    """People see what is waited for."""
    found = assess(*pods)
    assert isinstance(found, readiness.Waiting)
    assert found.reason is reason


@pytest.mark.parametrize(
    ("pods", "limit_s", "reason"),
    [
        pytest.param([], 600, RolloutReason.SCHEDULING, id="no pod was made"),
        pytest.param([PENDING], 600, RolloutReason.SCHEDULING, id="no node suits"),
        pytest.param([NO_ROOM], 600, RolloutReason.INSUFFICIENT_GPU, id="no node has free GPUs"),
        pytest.param([LOADING], 1800, RolloutReason.LOADING, id="the model is not loaded"),
        pytest.param([RESTARTED], 1800, RolloutReason.LOADING, id="a restart begins no new wait"),
    ],
)
def test_every_wait_ends(pods: list[observe.Pod], limit_s: float, reason: RolloutReason) -> None:
    """A wait is over at its deadline, with the same reason, and not a second before."""
    assert isinstance(assess(*pods, after=limit_s - 1), readiness.Waiting)
    found = assess(*pods, after=limit_s)
    assert isinstance(found, readiness.Failed)
    assert found.reason is reason


@pytest.mark.parametrize(
    ("speculates", "reason"), [(True, RolloutReason.HEAD_LOAD_FAILED), (False, RolloutReason.ENGINE_FAILED)]
)
def test_second_crash_ends_the_wait(speculates: bool, reason: RolloutReason) -> None:  # noqa: FBT001 - a table's column
    """A crash loop is not waited for, and the message tells how the engine ended."""
    found = assess(CRASHING, speculates=speculates)
    assert isinstance(found, readiness.Failed)
    assert found.reason is reason
    assert "boom" in found.message


def test_ready_pods_are_enough() -> None:
    """What is not wanted cannot hold anything up."""
    found = assess(POD, CRASHING)
    assert found == readiness.Ready(pods=(POD,))


def test_all_replicas_are_waited_for() -> None:
    """Two of three are not ready."""
    assert isinstance(assess(POD, POD, LOADING, wanted=3), readiness.Waiting)


def test_no_replicas_are_ready_at_once() -> None:
    """Scaled to zero there is nothing to wait for."""
    assert isinstance(assess(wanted=0), readiness.Ready)


def test_quota_is_told() -> None:
    """A Deployment that may make no pod says why."""
    found = assess(trouble="exceeded quota: requests.nvidia.com/gpu=8")
    assert isinstance(found, readiness.Waiting)
    assert "exceeded quota" in found.message


def test_missing_deployment_is_waited_for() -> None:
    """It is our own next write."""
    arm = readiness.Arm(short="12345678", server=None, wanted=1, speculates=False)
    assert isinstance(readiness.assess(arm, DEADLINES, NOW), readiness.Waiting)
