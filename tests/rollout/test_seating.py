"""Where a candidate gets its GPUs: known before a pod is made, and what happens when there are none."""

from typing import Any

import pytest

from paceline.api.measurement import Decision, Purpose, Seating
from paceline.planning import kinds
from rollout import builders
from rollout.gpus import FIRST, GpuCluster, engine, resource, sizes
from rollout.reading import history

HEAD = "EAGLE3 k=3"


def baseline(nodes: dict[str, int], *, visible: bool = True, **spec: Any) -> GpuCluster:
    """Return a cluster that serves its baseline, in which a winning head is then asked for."""
    cluster = GpuCluster(resource(speculation=builders.none(), **spec), nodes, visible=visible)
    cluster.speeds[HEAD] = 1.6
    cluster.settle(passes=60)
    assert cluster.serving() == "None"
    cluster.least_ready = None
    cluster.edit(speculation=builders.eagle3())
    return cluster


def opened(cluster: GpuCluster) -> Any:
    """Return the newest record."""
    return history(cluster).stored[-1].record


def reason(cluster: GpuCluster) -> str:
    """Return the reason of condition Progressing."""
    return str(cluster.condition("Progressing")["reason"])


def settled(cluster: GpuCluster) -> GpuCluster:
    """Let things come to rest."""
    cluster.settle(seconds=30.0, quiet_s=200.0)
    return cluster


def asked(cluster: GpuCluster) -> GpuCluster:
    """Run until the rollout has asked for its GPUs and was answered."""
    cluster.until(lambda: len(history(cluster).stored) > 1)
    for _ in range(3):
        cluster.operate()
        cluster.play()
    return cluster


def test_candidate_with_a_free_node_is_measured_beside_stable() -> None:
    """Stable loses nothing, and the evidence is the strong one."""
    cluster = settled(baseline({"gpu-1": 8, "gpu-2": 8}))
    assert cluster.serving() == HEAD
    assert opened(cluster).seating is Seating.BESIDE
    assert cluster.resource["status"]["rollout"]["strategy"] == "Surge"
    assert cluster.resource["status"]["rollout"]["evidenceMode"] == "SideBySide"
    assert cluster.least_ready == 1


@pytest.mark.parametrize("nodes", [{"gpu-1": 8}, {"gpu-1": 12, "gpu-2": 4}], ids=["full", "4 + 4 free"])
def test_no_pod_is_made_where_no_node_has_room(nodes: dict[str, int]) -> None:
    """Public report 38: a surge pod that waits for ever. "8 free" as 4 + 4 is not 8."""
    cluster = asked(baseline(nodes, policy={"strategy": "Surge"}))
    assert sizes(cluster) == {"None": 1}
    assert reason(cluster) == "InsufficientGPU"
    message = cluster.condition("Progressing")["message"]
    assert "needs 8 free nvidia.com/gpu on one node; the largest free block is" in message
    assert "Stable serves on" in message


def test_waiting_candidate_goes_on_when_a_node_is_free() -> None:
    """Nobody has to ask again."""
    cluster = asked(baseline({"gpu-1": 8}, policy={"strategy": "Surge"}))
    cluster.nodes["gpu-2"] = 8
    assert settled(cluster).serving() == HEAD


def test_wait_for_gpus_ends_at_its_deadline() -> None:
    """The digest is then remembered as refused for want of GPUs."""
    deadlines = {"capacity": "30m"}
    cluster = settled(baseline({"gpu-1": 8}, policy={"strategy": "Surge", "deadlines": deadlines}))
    cluster.settle(seconds=300.0, quiet_s=4000.0)
    assert (opened(cluster).decision, opened(cluster).reason) == (Decision.REJECTED, "NoFreeGPU")
    assert cluster.serving() == "None"


def test_hold_waits_for_a_person_and_makes_nothing() -> None:
    """A free node alone does not start it again; the annotation does."""
    cluster = asked(baseline({"gpu-1": 8}, policy={"strategy": "Surge", "onInsufficientGPU": "Hold"}))
    cluster.nodes["gpu-2"] = 8
    settled(cluster)
    assert reason(cluster) == "Held"
    assert sizes(cluster) == {"None": 1}
    cluster.annotate(retry=opened(cluster).candidate[7:15])
    assert settled(cluster).serving() == HEAD


def test_reject_is_at_once_and_retry_asks_again() -> None:
    """The refused digest is tried again only when asked for."""
    cluster = settled(baseline({"gpu-1": 8}, policy={"strategy": "Surge", "onInsufficientGPU": "Reject"}))
    record = opened(cluster)
    assert (record.decision, record.reason) == (Decision.REJECTED, "NoFreeGPU")
    cluster.nodes["gpu-2"] = 8
    assert settled(cluster).serving() == "None"
    cluster.annotate(retry=record.candidate[7:15])
    assert settled(cluster).serving() == HEAD


def test_held_rollout_can_be_called_off() -> None:
    """Abort works as for any other."""
    cluster = asked(baseline({"gpu-1": 8}, policy={"strategy": "Surge", "onInsufficientGPU": "Hold"}))
    cluster.annotate(abort=opened(cluster).candidate[7:15])
    settled(cluster)
    assert opened(cluster).decision is Decision.ABORTED


def test_single_replica_is_not_stopped_without_consent() -> None:
    """The status names the minutes it would cost, and what to set."""
    cluster = asked(baseline({"gpu-1": 8}))
    assert reason(cluster) == "ConsentNeeded"
    message = cluster.condition("Progressing")["message"]
    assert "rollout.replace.allowDowntime: true" in message
    assert "no service for about" in message
    assert sizes(cluster) == {"None": 1}


def test_gpus_are_not_released_where_another_could_take_them() -> None:
    """Without a priority the spec has to consent to losing the node."""
    cluster = asked(baseline({"gpu-1": 8}, template={}, policy={"replace": {"allowDowntime": True}}))
    assert reason(cluster) == "ConsentNeeded"
    assert "priorityClassName" in cluster.condition("Progressing")["message"]


def test_without_sight_of_nodes_deadlines_alone_decide() -> None:
    """A role in one namespace: the candidate is made, waits for its deadline, and only then takes stable's place."""
    cluster = baseline({"gpu-1": 8}, visible=False, policy={"replace": {"allowDowntime": True}})
    cluster.until(lambda: len(history(cluster).stored) > 1)
    for _ in range(4):
        cluster.operate()
        cluster.play()
    assert sizes(cluster) == {"None": 1, HEAD: 1}
    assert opened(cluster).seating is Seating.BESIDE
    cluster.settle(seconds=60.0, quiet_s=900.0)
    assert opened(cluster).candidate == history(cluster).stable
    assert cluster.serving() == HEAD


def test_rejected_candidate_frees_its_gpus() -> None:
    """What it held may be another's at once."""
    cluster = baseline({"gpu-1": 8, "gpu-2": 8})
    cluster.speeds[HEAD] = 0.8
    settled(cluster)
    assert opened(cluster).decision is Decision.REJECTED
    assert cluster.free("gpu-2") == 8


def test_rollout_without_devices_asks_nobody() -> None:
    """Servers on CPUs are made at once."""
    cluster = GpuCluster(builders.deployment(), {"gpu-1": 8})
    cluster.speeds[HEAD] = 1.6
    settled(cluster)
    assert cluster.serving() == HEAD


def test_edit_while_waiting_starts_on_the_new_candidate() -> None:
    """The one that waited leaves nothing behind."""
    cluster = asked(baseline({"gpu-1": 8}, policy={"strategy": "Surge"}))
    cluster.nodes["gpu-2"] = 8
    cluster.edit(engine={**engine(8, **FIRST), "image": "vllm/vllm-openai:v0.34.0"}, speculation=builders.none())
    settled(cluster)
    decisions = [one.record.decision for one in history(cluster).stored]
    assert Decision.ABORTED in decisions
    assert not cluster.objects(kinds.JOB)


def test_guard_on_a_full_node_says_in_its_condition_why_it_confirms_nothing() -> None:
    """Users are not stopped on a suspicion; what a person can do about it is said where the suspicion stands."""
    cluster = settled(baseline({"gpu-1": 8, "gpu-2": 8}))
    assert cluster.serving() == HEAD
    cluster.others[next(name for name in cluster.nodes if cluster.free(name))] = 8
    cluster.users = builders.Users(accepted_a_draft=0.2)
    cluster.until(lambda: history(cluster).stored[-1].record.purpose is Purpose.GUARD)
    cluster.until(lambda: history(cluster).open is None)
    cluster.until(lambda: cluster.condition("Suspect")["reason"] == "AcceptanceFell")
    told = cluster.condition("Suspect")
    assert told["status"] == "True"
    assert "Its last confirmation ended without a verdict" in told["message"]
    assert "Free a node for the control, or annotate paceline.dev/undo" in told["message"]
    assert cluster.serving() == HEAD
    assert cluster.least_ready == 1


def test_nothing_is_granted_before_all_namespaces_have_told() -> None:
    """Each may have a watch of its own: a claim that was made earlier elsewhere may still be on its way."""
    cluster = baseline({"gpu-1": 8, "gpu-2": 8})
    cluster.told[kinds.CONFIG_MAP] = 1
    asked(cluster)
    assert sizes(cluster) == {"None": 1}
    assert "waits until the claims of all namespaces have been read" in cluster.condition("Progressing")["message"]
    cluster.told.clear()
    assert settled(cluster).serving() == HEAD
