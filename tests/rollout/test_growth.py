"""More replicas, for users' share or for all: asked for as an arm is, and never on what others were promised."""

from collections.abc import Callable
from typing import Any

import pytest

from paceline.api import names
from paceline.api.measurement import Decision, Purpose, RolloutRecord, Seating
from paceline.capacity import ledger
from paceline.planning import kinds
from rollout import builders
from rollout.gpus import ANOTHER, GpuCluster, resource, sizes
from rollout.reading import history

HEAD, BASE = "EAGLE3 k=3", "None"
STEPS = [{"weight": 50, "pause": "1m"}]


def serving(nodes: int, *, replicas: int = 2, visible: bool = True, **policy: Any) -> GpuCluster:
    """Return a cluster that serves its baseline on some of its nodes, in which a winning head is then asked for."""
    spec = resource(speculation=builders.none(), replicas=replicas, policy=policy)
    cluster = GpuCluster(spec, {f"gpu-{at}": 8 for at in range(1, nodes + 1)}, visible=visible)
    cluster.speeds[HEAD] = 1.6
    cluster.settle(passes=100)
    assert sizes(cluster) == {BASE: replicas}
    cluster.edit(speculation=builders.eagle3())
    return cluster


def newest(cluster: GpuCluster) -> RolloutRecord:
    """Return the newest record."""
    return history(cluster).stored[-1].record


def claims(cluster: GpuCluster) -> dict[str, tuple[int, bool]]:
    """Return count, and whether it is only asked, of what the newest record claims, by the mark of each entry."""
    found = ledger.read(history(cluster).stored[-1].claims or {"metadata": {}})
    return {name.partition("/")[2]: (one["count"], bool(one.get("asked"))) for name, one in found.items()}


def replicas_of(cluster: GpuCluster, title: str) -> int:
    """Return the wanted replicas of a revision, 0 where it has no Deployment."""
    return sizes(cluster).get(title, 0)


def watched(cluster: GpuCluster, rule: Callable[[], bool], *, passes: int) -> None:
    """Run some passes, with a rule that holds after each."""
    for _ in range(passes):
        cluster.operate()
        assert rule(), cluster.condition("Progressing")
        cluster.play()


def measured(cluster: GpuCluster) -> GpuCluster:
    """Run until the candidate is being measured, so that it has its own place."""
    cluster.until(lambda: bool(history(cluster).open and newest(cluster).measuring_since))
    return cluster


def pods_of(cluster: GpuCluster, title: str) -> int:
    """Return how many pods there are of a revision's servers."""
    labels = [one["metadata"]["labels"] for one in cluster.objects(kinds.POD)]
    servers = [one for one in labels if one[names.LABEL_PART] == "server"]
    return sum(cluster.title(one[names.LABEL_REVISION]) == title for one in servers)


def free(cluster: GpuCluster) -> int:
    """Return the GPUs that nobody holds, of all nodes."""
    return sum(map(cluster.free, cluster.nodes))


def told(cluster: GpuCluster) -> tuple[str, str]:
    """Return reason and message of condition Progressing."""
    found = cluster.condition("Progressing")
    return found["reason"], found["message"]


def test_winner_asks_before_any_replica_of_it_is_made() -> None:
    """The record that asks is written first, and only a later pass grants what it holds."""
    cluster = measured(serving(4, strategy="Surge"))
    cluster.until(lambda: newest(cluster).asked_replicas == 2)
    assert claims(cluster) == {"": (1, False), "more": (1, True)}
    assert sizes(cluster) == {BASE: 2, HEAD: 1}
    cluster.operate()
    assert (newest(cluster).asked_replicas, newest(cluster).granted_replicas) == (0, 2)
    assert claims(cluster) == {"": (2, False)}
    assert sizes(cluster) == {BASE: 2, HEAD: 2}
    cluster.settle(seconds=30.0, quiet_s=200.0)
    assert sizes(cluster) == {HEAD: 2}


def test_winner_waits_for_what_others_were_promised_before() -> None:
    """The one free node is another's; when that one has done without, the winner grows into it."""
    cluster = measured(serving(4, strategy="Surge"))
    cluster.promise()
    cluster.until(lambda: newest(cluster).asked_replicas == 2)
    watched(cluster, lambda: sizes(cluster) == {BASE: 2, HEAD: 1}, passes=6)
    reason, message = told(cluster)
    assert reason == "InsufficientGPU"
    assert "asks for the devices of one more replica, and what is free was promised to others before" in message
    cluster.withdraw()
    cluster.settle(seconds=30.0, quiet_s=200.0)
    assert sizes(cluster) == {HEAD: 2}


def test_what_asked_later_is_not_waited_for() -> None:
    """Its own pass will see that it comes after."""
    cluster = measured(serving(4, strategy="Surge"))
    cluster.until(lambda: newest(cluster).asked_replicas == 2)
    cluster.promise()
    another = cluster.store["ConfigMap", ANOTHER]
    another["metadata"]["labels"] = {names.LABEL_CLAIM: ledger.ASKED}
    cluster.operate()
    assert newest(cluster).granted_replicas == 2


def test_wait_for_others_ends_at_its_deadline() -> None:
    """With Surge the winner is then given up: its reason says what it waited for, and what to change."""
    cluster = measured(serving(4, strategy="Surge"))
    cluster.promise()
    cluster.settle(seconds=60.0, quiet_s=900.0)
    assert (newest(cluster).decision, newest(cluster).reason) == (Decision.REJECTED, "InsufficientGPU")
    assert "promised to others before" in newest(cluster).message
    assert "rollout.deadlines.scheduling" in newest(cluster).message
    assert sizes(cluster) == {BASE: 2}


@pytest.mark.parametrize("replicas", [2, 3])
def test_winner_that_may_take_stables_places_does_so_instead_of_waiting(replicas: int) -> None:
    """With Auto one replica after the other comes in the place of stable's, and the free node is left to its owner."""
    cluster = measured(serving(replicas + 2, replicas=replicas))
    cluster.promise()
    # Pods that are to go hold their node for a while.
    watched(cluster, lambda: replicas_of(cluster, HEAD) + pods_of(cluster, BASE) <= replicas + 1, passes=60)
    assert (newest(cluster).decision, newest(cluster).rolls) == (Decision.PROMOTED, True)
    assert sizes(cluster) == {HEAD: replicas}


def test_full_cluster_is_not_waited_for() -> None:
    """Without anybody's promise in the way the pods wait in the scheduler's queue, where an autoscaler finds them."""
    cluster = measured(serving(3, strategy="Surge"))
    cluster.until(lambda: replicas_of(cluster, HEAD) == 2)
    assert told(cluster)[0] in {"Scheduling", "InsufficientGPU"}
    cluster.nodes["gpu-4"] = 8
    cluster.settle(seconds=30.0, quiet_s=200.0)
    assert sizes(cluster) == {HEAD: 2}


def test_share_of_users_traffic_asks_too() -> None:
    """Half of the traffic takes as many replicas as stable has."""
    cluster = serving(5, strategy="Surge", steps=STEPS)
    cluster.users = builders.Users()
    measured(cluster).promise(2)  # the measuring copy has its node
    cluster.until(lambda: newest(cluster).asked_replicas == 2)
    assert newest(cluster).weight == 50
    watched(cluster, lambda: replicas_of(cluster, HEAD) == 1, passes=6)
    assert "promised to others before" in told(cluster)[1]
    cluster.withdraw()
    cluster.settle(seconds=30.0, quiet_s=200.0)
    assert sizes(cluster) == {HEAD: 2}


@pytest.mark.parametrize("steps", [[], STEPS], ids=["all replicas", "share"])
def test_pause_lets_go_of_what_was_asked(steps: list[dict[str, Any]]) -> None:
    """While a person is waited for nothing is kept from others; afterwards it goes to the end of the queue."""
    cluster = serving(5, strategy="Surge", steps=steps)
    cluster.users = builders.Users()
    measured(cluster).promise(2)
    cluster.until(lambda: newest(cluster).asked_replicas == 2)
    assert claims(cluster)["more"] == (1, True)
    cluster.annotate(pause=names.short(newest(cluster).candidate))
    watched(cluster, lambda: replicas_of(cluster, HEAD) == 1, passes=3)
    assert claims(cluster) == {"": (1, False)}
    cluster.withdraw()
    cluster.annotate()
    cluster.settle(seconds=30.0, quiet_s=200.0)
    assert sizes(cluster) == {HEAD: 2}


def test_without_sight_of_nodes_nothing_is_asked() -> None:
    """A role in one namespace: scheduling deadlines alone decide."""
    cluster = serving(4, visible=False)
    cluster.promise()
    cluster.settle(seconds=30.0, quiet_s=200.0)
    assert sizes(cluster) == {HEAD: 2}
    assert newest(cluster).granted_replicas == 0


def test_replicas_that_an_older_version_made_unasked_stay() -> None:
    """Its record knows of no asking, and they may serve users already."""
    cluster = serving(4, strategy="Surge", steps=STEPS)
    cluster.users = builders.Users()
    cluster.until(lambda: newest(cluster).weight == 50 and newest(cluster).granted_replicas == 2)
    cluster.operate()
    kept = {"asked_replicas": 0, "granted_replicas": 0}
    rewrite(cluster, newest(cluster).model_copy(update=kept))
    cluster.promise(2)
    watched(cluster, lambda: replicas_of(cluster, HEAD) == 2, passes=6)
    cluster.settle(seconds=30.0, quiet_s=200.0)
    assert sizes(cluster) == {HEAD: 2}


def rewrite(cluster: GpuCluster, record: RolloutRecord) -> None:
    """Put another record in the place of the newest."""
    name = history(cluster).stored[-1].name
    kept = cluster.store["ConfigMap", name]
    text = record.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True)
    cluster._put({**kept, "data": {"record.json": text}})


def test_first_deployment_leaves_to_others_what_they_were_promised() -> None:
    """It has nothing to measure, and yet its pods take nodes; on a node that is nobody's it begins at once."""
    cluster = GpuCluster(resource(speculation=builders.none()), {"gpu-1": 8})
    cluster.promise()
    for _ in range(8):
        cluster.operate()
        assert sizes(cluster) == {}
        cluster.play()
    reason, message = told(cluster)
    assert reason == "InsufficientGPU"
    assert "waits for GPUs: what is free was promised to others before" in message
    cluster.nodes["gpu-2"] = 8
    cluster.settle(passes=100)
    assert sizes(cluster) == {BASE: 1}


def test_first_deployment_waits_in_the_queue_of_a_full_cluster() -> None:
    """Nobody was promised anything there, so the scheduler, and an autoscaler, are to see what is missing."""
    cluster = GpuCluster(resource(speculation=builders.none()), {"gpu-1": 4})
    cluster.until(lambda: sizes(cluster) == {BASE: 1})
    assert newest(cluster).seating is Seating.BESIDE


def test_newcomer_in_stables_place_leaves_the_free_node_to_its_owner() -> None:
    """A pod that waits for stable's place takes whatever comes free first, so others' pods have to exist before."""
    cluster = serving(3, strategy="Replace")
    cluster.promise()
    watched(cluster, lambda: replicas_of(cluster, HEAD) == 0, passes=8)
    assert told(cluster)[0] == "InsufficientGPU"
    cluster.withdraw()
    cluster.others["gpu-3"] = 8
    cluster.settle(seconds=30.0, quiet_s=200.0)
    assert sizes(cluster) == {HEAD: 2}


@pytest.mark.parametrize("purpose", [Purpose.GUARD, Purpose.UNDO])
def test_way_back_asks_like_the_way_forward(purpose: Purpose) -> None:
    """The control that takes over, and what a person asks back: no replica of theirs lands on another's node."""
    cluster = serving(4, strategy="Surge")
    cluster.settle(seconds=30.0, quiet_s=200.0)
    assert sizes(cluster) == {HEAD: 2}
    cluster.promise()
    if purpose is Purpose.UNDO:
        cluster.annotate(undo=names.short(history(cluster).stable))
    else:
        cluster.users = builders.Users(accepted_a_draft=0.2)
    cluster.until(lambda: newest(cluster).purpose is purpose)
    watched(cluster, lambda: free(cluster) >= 8, passes=12)
