"""What pods wait for, and when the wait has been too long."""

import dataclasses

import pytest

from paceline.api.conditions import RolloutReason
from paceline.api.speculativedeployment import DeadlineSpec
from paceline.rollout.view import endings, parts, podview, readiness, symptoms
from rollout.builders import NOW

DEADLINES = DeadlineSpec(scheduling="10m", loading="30m")
NO_GPU = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."

POD = podview.Pod(
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


def server(*pods: podview.Pod, trouble: str = "") -> parts.Server:
    """Return a Deployment with these pods."""
    return parts.Server(
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


def assess(*pods: podview.Pod, after: float = 60.0, wanted: int = 1, speculates: bool = True, trouble: str = ""):
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
        pytest.param([UNPULLED], RolloutReason.STARTING, id="the image cannot be pulled"),
    ],
)
def test_wait_has_its_own_reason(pods: list[podview.Pod], reason: RolloutReason) -> None:
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
        pytest.param([UNPULLED], 1200, RolloutReason.STARTING, id="the image is not there"),
        pytest.param([LOADING], 1800, RolloutReason.LOADING, id="the model is not loaded"),
        pytest.param([RESTARTED], 1800, RolloutReason.LOADING, id="a restart begins no new wait"),
    ],
)
def test_every_wait_ends(pods: list[podview.Pod], limit_s: float, reason: RolloutReason) -> None:
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


def ended(message: str, *, restarts: int = 1, at: float = NOW + 30, served: bool = False, reason: str = "Error"):
    """Return a pod whose engine has ended with these last words."""
    ending = endings.Ending(reason=reason, exit_code=1, message=message, at=at, served=served)
    return dataclasses.replace(LOADING, restarts=restarts, waiting="CrashLoopBackOff", ending=ending)


def beside(pod: podview.Pod, *, draining: bool = False, drained_at: float | None = None):
    """Return the verdict on a pod beside one that ends, or has ended."""
    around = symptoms.Surroundings(draining_nodes=frozenset({"node"} if draining else ()), drained_at=drained_at)
    arm = readiness.Arm(short="12345678", server=server(pod), wanted=1, speculates=True, around=around)
    return readiness.assess(arm, DEADLINES, NOW + 60)


VOCABULARY = "ValueError: Target and draft model should have the same vocabulary size."
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def test_permanent_fault_is_not_tried_twice() -> None:
    """No restart mends a head of another vocabulary: the first end is the last, and says what to change."""
    found = assess(ended(VOCABULARY, restarts=0))
    assert isinstance(found, readiness.Failed)
    assert found.reason is RolloutReason.HEAD_LOAD_FAILED
    assert "VocabularyMismatch" in found.message
    assert "Use a head that was trained for this target" in found.message


def test_transient_fault_is_tried_once_more() -> None:
    """A failed collective may have been chance; its remedy is told meanwhile."""
    found = assess(ended("RuntimeError: NCCL error: unhandled system error", restarts=1))
    assert isinstance(found, readiness.Waiting)
    assert "NCCL_DEBUG" in found.message
    assert isinstance(assess(ended("RuntimeError: NCCL error", restarts=2)), readiness.Failed)


def test_memory_of_a_pod_that_still_ends_is_waited_for() -> None:
    """While the old pod drains, and at the tries that failed until it was gone, the new one is not to blame."""
    pod = ended(OUT_OF_MEMORY, restarts=4, at=NOW + 30)
    assert isinstance(beside(pod, draining=True), readiness.Waiting)
    assert isinstance(beside(pod, drained_at=NOW + 40), readiness.Waiting)


def test_memory_of_nobody_else_is_its_own_fault() -> None:
    """Once the old pod is gone one more end tells; without any beside it two do; and no drain is borne for ever."""
    for found in (
        beside(ended(OUT_OF_MEMORY, restarts=1, at=NOW + 50), drained_at=NOW + 40),
        beside(ended(OUT_OF_MEMORY, restarts=2)),
        beside(ended(OUT_OF_MEMORY, restarts=8), draining=True),
    ):
        assert isinstance(found, readiness.Failed)
        assert found.reason is RolloutReason.OUT_OF_MEMORY
        assert "--gpu-memory-utilization" in found.message


def test_first_end_of_a_server_that_has_served_is_no_crash_loop() -> None:
    """Restarts of a long life do not add up, and its load begins a new wait."""
    pod = ended("RuntimeError: boom", restarts=5, served=True)
    assert isinstance(assess(dataclasses.replace(pod, unready_since=NOW + 7200), after=7260), readiness.Waiting)


def test_refused_container_does_not_blame_the_head() -> None:
    """An image without a valid name fails with every head."""
    found = assess(dataclasses.replace(LOADING, waiting="InvalidImageName", waiting_message="couldn't parse image"))
    assert isinstance(found, readiness.Failed)
    assert found.reason is RolloutReason.ENGINE_FAILED
    assert "Correct engine.image" in found.message


def test_crash_loop_does_not_move_the_deadline() -> None:
    """flagger#1578: each restart began the wait anew, and a canary waited for hours."""
    pod = ended("RuntimeError: NCCL error", restarts=1, at=NOW + 1790)
    assert isinstance(assess(dataclasses.replace(pod, unready_since=NOW), after=1799), readiness.Waiting)
    assert isinstance(assess(dataclasses.replace(pod, unready_since=NOW), after=1800), readiness.Failed)
