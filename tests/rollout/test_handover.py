"""More than one replica and no spare node: one replica after the other, and never fewer than all but one serve."""

from typing import Any

import pytest

from paceline.api import names
from paceline.api.measurement import Decision, Seating
from paceline.planning import kinds
from paceline.planning.plan import Delete, Plan
from rollout import builders
from rollout.gpus import GpuCluster, resource, sizes
from rollout.reading import history

HEAD, BASE = "EAGLE3 k=3", "None"


def full(replicas: int, *, spare: int = 0, **policy: Any) -> GpuCluster:
    """Return a cluster that serves its baseline with so many replicas, on as many nodes and some spare ones."""
    nodes = {f"gpu-{at}": 8 for at in range(1, replicas + spare + 1)}
    spec = resource(speculation=builders.none(), replicas=replicas, policy=policy)
    cluster = GpuCluster(spec, nodes)
    cluster.settle(passes=100)
    cluster.least_ready = None
    cluster.speeds[HEAD] = 1.6
    return cluster


def roll(cluster: GpuCluster) -> Any:
    """Ask for the head, let things come to rest, and return its record."""
    cluster.edit(speculation=builders.eagle3())
    cluster.settle(seconds=30.0, quiet_s=200.0)
    return history(cluster).stored[-1].record


@pytest.mark.parametrize("replicas", [2, 3, 4])
def test_winner_takes_over_one_replica_after_the_other(replicas: int) -> None:
    """All but one of the replicas serve all along, both revisions behind the front Service in between."""
    cluster = full(replicas)
    record = roll(cluster)
    assert (record.seating, record.decision, record.rolls) == (Seating.TAKEN, Decision.PROMOTED, True)
    assert sizes(cluster) == {HEAD: replicas}
    assert cluster.serving() == HEAD
    assert cluster.least_ready == replicas - 1


def test_loser_gives_back_the_replica_it_was_lent() -> None:
    """Stable has all its replicas again."""
    cluster = full(3)
    cluster.speeds[HEAD] = 0.7
    assert roll(cluster).decision is Decision.REJECTED
    assert sizes(cluster) == {BASE: 3}
    assert cluster.least_ready == 2


def test_room_for_one_more_is_used_before_stable_gives_anything_up() -> None:
    """The candidate is measured on the spare node, and a replica only makes way for one that is ready."""
    cluster = full(3, spare=1)
    record = roll(cluster)
    assert (record.seating, record.rolls) == (Seating.BESIDE, True)
    assert sizes(cluster) == {HEAD: 3}
    assert cluster.least_ready == 3


def test_room_for_all_is_a_plain_surge() -> None:
    """Nothing rolls where both revisions have room at once."""
    cluster = full(2, spare=2)
    record = roll(cluster)
    assert (record.seating, record.rolls) == (Seating.BESIDE, False)
    assert cluster.least_ready == 2


def test_replace_takes_stables_places_even_beside_a_spare_node() -> None:
    """Where the spare node has room, stable still loses nothing for it."""
    cluster = full(2, spare=1, strategy="Replace")
    record = roll(cluster)
    assert (record.seating, record.rolls) == (Seating.TAKEN, True)
    assert cluster.least_ready == 2


def test_both_revisions_are_selected_only_when_the_control_is_gone() -> None:
    """The pool never leads users to an arm that was only there to be measured."""
    cluster = full(3)
    cluster.edit(speculation=builders.eagle3())
    pools = 0
    for _ in range(200):
        cluster.operate()
        selector = cluster.store["Service", builders.NAME]["spec"]["selector"]
        pooled = names.LABEL_REVISION not in selector
        pools += pooled
        living = {one["metadata"]["labels"].get(names.LABEL_REVISION) for one in cluster.objects(kinds.POD)} - {None}
        decided = history(cluster).last
        allowed = {names.short(decided.serving), names.short(decided.stable)} if decided else set()
        assert not pooled or living <= allowed
        cluster.play()
    assert pools
    assert cluster.serving() == HEAD


def test_node_lost_in_a_handover_costs_no_more_than_the_replica_that_was_lent() -> None:
    """The others serve on, both revisions together, until there is a node again."""
    cluster = full(3)
    cluster.edit(speculation=builders.eagle3())
    cluster.until(lambda: bool(history(cluster).last and history(cluster).last.rolls))
    cluster.thief = True
    cluster.settle(seconds=60.0, quiet_s=8000.0)
    assert len(cluster.endpoints(cluster.store["Service", builders.NAME])) == 2
    assert sizes(cluster) == {BASE: 1, HEAD: 2}
    cluster.others.clear()
    cluster.settle(seconds=60.0, quiet_s=400.0)
    assert sizes(cluster) == {HEAD: 3}


def test_revision_that_has_given_up_all_it_had_goes() -> None:
    """Its last node went to somebody else, so the new revision never gets all its replicas; nothing waits for that."""
    cluster = full(2)
    cluster.edit(speculation=builders.eagle3())
    cluster.until(lambda: bool(history(cluster).last and history(cluster).last.rolls))
    cluster.thief = True
    cluster.settle(seconds=60.0, quiet_s=8000.0)
    assert not cluster.thief
    assert sizes(cluster) == {HEAD: 2}
    assert cluster.serving() == HEAD
    assert len(cluster.endpoints(cluster.store["Service", builders.NAME])) == 1


def test_undo_rolls_back_the_same_way() -> None:
    """A person's undo on a full cluster takes one replica at a time too."""
    cluster = full(2)
    roll(cluster)
    cluster.least_ready = None
    cluster.annotate(undo=names.short(history(cluster).stable))
    cluster.settle(seconds=30.0, quiet_s=200.0)
    assert cluster.serving() == BASE
    assert sizes(cluster) == {BASE: 2}
    assert cluster.least_ready == 1


def before_the_service(planned: Plan) -> int | None:
    """Return how many of a plan's writes come before the front Service's; None when it is not written."""
    kinds_written = [one.manifest["kind"] for one in planned.actions if not isinstance(one, Delete)]
    return kinds_written.index("Service") if "Service" in kinds_written else None


def test_old_revision_keeps_its_last_replica_while_users_reach_it_alone() -> None:
    """Whatever keeps the Service from being written, pod by pod ready behind it: no pass may count on that write."""
    cluster = full(2)
    cluster.edit(speculation=builders.eagle3())
    cluster.until(lambda: bool(history(cluster).last and history(cluster).last.rolls))
    for _ in range(20):
        planned = cluster.plan()
        cluster.run(planned, crash_after=before_the_service(planned))
        cluster.play()
    assert cluster.least_ready == 1
    cluster.settle(seconds=30.0, quiet_s=200.0)
    assert sizes(cluster) == {HEAD: 2}


def test_handover_that_outlasts_its_deadline_says_so_and_goes_on() -> None:
    """A reason of its own, and what to change; a node that comes free later is still used."""
    cluster = full(3)
    cluster.edit(speculation=builders.eagle3())
    cluster.until(lambda: bool(history(cluster).last and history(cluster).last.rolls))
    cluster.thief = True
    cluster.settle(seconds=60.0, quiet_s=8000.0)
    told = cluster.condition("Progressing")
    assert (told["status"], told["reason"]) == ("False", "HandoverDeadlineExceeded")
    assert "has 1 of 3 replicas" in told["message"]
    assert "rollout.deadlines.scheduling (10m)" in told["message"]
    cluster.others.clear()
    cluster.settle(seconds=60.0, quiet_s=400.0)
    assert sizes(cluster) == {HEAD: 3}
    assert cluster.condition("Progressing")["reason"] == "Promoted"
