"""A volume that one node has alone: an arm that would wait for it in vain is refused before any pod is made."""

from typing import Any

from paceline.api.measurement import Decision, Seating
from paceline.planning import fleet
from rollout import builders
from rollout.gpus import GpuCluster, resource, sizes
from rollout.reading import history

HEAD, BASE = "EAGLE3 k=3", "None"
CLAIM = (builders.NAMESPACE, "models")
DOWNTIME = {"allowDowntime": True, "allowNodeLoss": True}


def asked(nodes: dict[str, int], mode: str = fleet.ONE_NODE, **policy: Any) -> GpuCluster:
    """Return a cluster whose model lies on such a claim, after a winning head was asked for and things came to rest."""
    cluster = GpuCluster(resource(speculation=builders.none(), policy=policy), nodes)
    cluster.claims[CLAIM] = mode
    cluster.speeds[HEAD] = 1.6
    cluster.settle(passes=60)
    assert cluster.serving() == BASE
    cluster.edit(speculation=builders.eagle3())
    cluster.settle(seconds=30.0, quiet_s=200.0)
    return cluster


def refusal(cluster: GpuCluster) -> str:
    """Return what condition Progressing says of the volume."""
    told = cluster.condition("Progressing")
    assert (told["status"], told["reason"]) == ("False", "VolumeExclusive")
    return str(told["message"])


def test_room_on_another_node_only_is_refused_with_what_to_change() -> None:
    """The scheduler would place it there, and its kubelet would wait for the volume until a deadline."""
    cluster = asked({"gpu-1": 8, "gpu-2": 8})
    said = refusal(cluster)
    assert "Claim models is ReadWriteOnce, and mounted on gpu-1" in said
    assert "Use a claim with access mode ReadOnlyMany or ReadWriteMany, or free nvidia.com/gpu on gpu-1." in said
    last = history(cluster).last
    assert last is not None
    assert last.decision is Decision.REJECTED
    assert sizes(cluster) == {BASE: 1}


def test_room_on_the_node_that_has_the_volume_is_used() -> None:
    """One node may mount it for any number of pods."""
    assert asked({"gpu-1": 16}).serving() == HEAD


def test_arm_in_stables_own_place_finds_the_volume_there() -> None:
    """Nothing is free elsewhere, so it comes where stable was."""
    cluster = asked({"gpu-1": 8}, replace=DOWNTIME)
    assert cluster.serving() == HEAD
    last = history(cluster).last
    assert last is not None
    assert last.seating is Seating.STOPPED


def test_claim_for_one_pod_lets_no_arm_stand_beside_stable() -> None:
    """Not even on its node; in its place it may."""
    assert "Claim models is ReadWriteOncePod, and a pod of stable has it" in refusal(
        asked({"gpu-1": 16}, fleet.ONE_POD)
    )
    assert asked({"gpu-1": 8}, fleet.ONE_POD, replace=DOWNTIME).serving() == HEAD


def test_volume_that_many_may_mount_is_in_nobodys_way() -> None:
    """No claim is remembered of which that is so."""
    assert asked({"gpu-1": 8, "gpu-2": 8}, "").serving() == HEAD
