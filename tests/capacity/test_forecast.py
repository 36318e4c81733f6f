"""How many pods would find their GPUs: by node, and after what was promised before."""

import hypothesis
import pytest
from hypothesis import strategies as st

from capacity import builders
from capacity.builders import GPU
from paceline.capacity import forecast, placement
from paceline.capacity.forecast import Claim
from paceline.planning import fleet


def claim(gpus: int, count: int = 1, **template: object) -> Claim:
    """Return a claim of pods of ``gpus`` each."""
    return Claim(count=count, requests={GPU: gpus}, template=template)


def test_four_and_four_free_are_not_eight() -> None:
    """GPUs of two nodes do not make one server."""
    world = builders.world(
        [builders.node("gpu-1"), builders.node("gpu-2")],
        [builders.pod("a", 4, on="gpu-1"), builders.pod("b", 4, on="gpu-2")],
    )
    found = forecast.forecast(world, [], claim(8))
    assert (found.fits, found.largest, found.each) == (0, 4, 8)
    assert forecast.forecast(world, [], claim(4, count=2)).is_enough


def test_pod_that_waits_comes_first() -> None:
    """It is in the scheduler's queue already."""
    waiting = builders.pod("waiting", phase="Pending")
    world = builders.world([builders.node("gpu-1")], [waiting])
    assert not forecast.forecast(world, [], claim(8)).is_enough


def test_pod_that_waits_for_another_node_takes_nothing_here() -> None:
    """Where it may run counts."""
    waiting = builders.pod("waiting", phase="Pending", nodeSelector={"pool": "other"})
    world = builders.world([builders.node("gpu-1")], [waiting])
    assert forecast.forecast(world, [], claim(8)).is_enough


def test_promise_that_fits_nowhere_takes_nothing() -> None:
    """A waiting giant does not keep small ones waiting."""
    world = builders.world([builders.node("gpu-1", 4)])
    assert forecast.forecast(world, [claim(8)], claim(4)).is_enough
    assert not forecast.forecast(world, [claim(2)], claim(4)).is_enough


def test_promise_goes_where_least_is_left() -> None:
    """A pod of two GPUs is expected on the node that has just two left, so that eight stay whole."""
    world = builders.world([builders.node("gpu-1"), builders.node("gpu-2")], [builders.pod("a", 6, on="gpu-2")])
    assert forecast.forecast(world, [claim(2)], claim(8)).is_enough


def test_cordoned_and_tainted_nodes_are_no_room() -> None:
    """Nor are they the largest free block that a message names."""
    taint = [{"key": "maintenance", "effect": "NoExecute"}]
    world = builders.world([builders.node("gpu-1", unschedulable=True), builders.node("gpu-2", taints=taint)])
    found = forecast.forecast(world, [], claim(8))
    assert (found.fits, found.largest) == (0, 0)
    tolerating = claim(8, tolerations=[{"operator": "Exists"}])
    assert forecast.forecast(world, [], tolerating).fits == 1


def test_pod_without_devices_always_fits() -> None:
    """Of cpu and memory no forecast is made."""
    assert forecast.forecast(builders.world([]), [], Claim(count=3, requests={}, template={})).is_enough


SIZES = st.sampled_from([1, 2, 4, 8])


@hypothesis.given(
    nodes=st.lists(st.integers(0, 8), max_size=4),
    held=st.lists(st.tuples(SIZES, st.integers(0, 3)), max_size=4),
    promised=st.lists(SIZES, max_size=4),
    wanted=st.tuples(SIZES, st.integers(1, 4)),
)
def test_more_promises_never_leave_more_room(
    nodes: list[int], held: list[tuple[int, int]], promised: list[int], wanted: tuple[int, int]
) -> None:
    """Each claim only takes; and what fits is at most what one node after the other has free."""
    pods = [builders.pod(f"p{at}", size, on=f"gpu-{node}") for at, (size, node) in enumerate(held) if node < len(nodes)]
    world = builders.world([builders.node(f"gpu-{at}", count) for at, count in enumerate(nodes)], pods)
    size, count = wanted
    before = forecast.forecast(world, [], claim(size, count))
    after = forecast.forecast(world, [claim(one) for one in promised], claim(size, count))
    assert after.largest <= before.largest
    assert 0 <= before.fits <= count
    if before.largest < size:
        assert before.fits == 0


POOLS = st.sampled_from([{}, {"nodeSelector": {"pool": "a"}}, {"nodeSelector": {"pool": "b"}}])
CLAIMS = st.builds(
    lambda size, count, template: Claim(count=count, requests={GPU: size}, template=template),
    SIZES,
    st.integers(1, 3),
    POOLS,
)


def laid(world: fleet.Fleet, claims: list[Claim]) -> list[int]:
    """Return how many pods of each claim find a node, looking at every node for every pod."""
    free = {name: node.allocatable[GPU] for name, node in world.nodes.items()}
    for one in world.holdings.values():
        if one.node in free:
            free[one.node] -= one.requests[GPU]
    found = []
    for one in claims:
        found.append(0)
        for _ in range(one.count):
            size = one.requests[GPU]
            fitting = [
                name
                for name, node in world.nodes.items()
                if free[name] >= size and placement.admits(node, one.template)
            ]
            if fitting:
                free[min(fitting, key=lambda name: (free[name], name))] -= size
                found[-1] += 1
    return found


@hypothesis.given(
    nodes=st.lists(st.tuples(st.integers(1, 8), st.sampled_from("ab")), max_size=4),
    queued=st.lists(SIZES, max_size=3),
    promised=st.lists(CLAIMS, max_size=6),
    wanted=CLAIMS,
)
def test_shortcuts_find_what_looking_everywhere_finds(
    nodes: list[tuple[int, str]], queued: list[int], promised: list[Claim], wanted: Claim
) -> None:
    """A shape that found no node finds none later, and what waiting pods leave is the same for all who ask."""
    made = [builders.node(f"gpu-{at}", gpus, labels={"pool": pool}) for at, (gpus, pool) in enumerate(nodes)]
    world = builders.world(made, [builders.pod(f"p{at}", gpus) for at, gpus in enumerate(queued)])
    before = [Claim(count=1, requests={GPU: gpus}, template={}) for gpus in queued]
    for claims in (promised, [], promised):
        expected = laid(world, [*before, *claims, wanted])[-1]
        assert forecast.forecast(world, claims, wanted).fits == expected


def test_full_cluster_is_looked_through_once_for_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand rollouts that wait for a thousand nodes would else be a million looks in every pass."""
    looks = 0

    def fits(*_: object) -> bool:
        nonlocal looks
        looks += 1
        return False

    monkeypatch.setattr(forecast._Room, "_fits", fits)
    world = builders.world([builders.node(f"gpu-{at}") for at in range(10)])
    forecast.forecast(world, [claim(8)] * 100, claim(8))
    assert looks == 10
