"""Whatever the watches dropped, merged or brought late, and wherever the process died: the same end, step for step."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from machine import sizes, worlds
from machine.rollout_rules import Rules
from machine.server import Fault
from machine.simulation import Simulation
from paceline.planning import kinds
from rollout import builders

pytestmark = [pytest.mark.timeout(900)]  # as the machines: it hangs no sooner on a busy computer

WATCHED = [kind.kind for kind in (*kinds.OURS, *kinds.CHILDREN)]
LONG_S = 100_000.0
QUIET_S = 5_000.0


@dataclass(frozen=True, kw_only=True)
class Mishap:
    """What goes wrong with one pass."""

    seconds: float
    """Time that goes by before it; together less than any deadline."""
    heard: frozenset[str]
    """The kinds whose watch has brought anything since."""
    crash_after: int | None
    faults: Mapping[int, Fault]


MISHAPS = st.lists(
    st.builds(
        Mishap,
        seconds=st.floats(0.0, 25.0),
        heard=st.frozensets(st.sampled_from(WATCHED)),
        crash_after=st.none() | st.integers(0, 5),
        faults=st.dictionaries(st.integers(0, 5), st.sampled_from(list(Fault)), max_size=2),
    ),
    max_size=20,
)


def suffer(sim: Simulation, mishaps: list[Mishap]) -> Simulation:
    """Run passes to which the mishaps happen, then all others well."""
    for one in mishaps:
        sim.pass_time(one.seconds)
        sim.watches.deliver(one.heard)
        sim.operate(faults=one.faults, crash_after=one.crash_after)
    sim.settle(within_s=LONG_S, quiet_s=QUIET_S)
    return sim


def rollout(speed: float, *, replicas: int = 1) -> Simulation:
    """Return a new SpeculativeDeployment whose candidate is of this speed; with several replicas each fills a node."""
    resource = {**builders.deployment(), "spec": worlds.spec(replicas=replicas)} if replicas > 1 else None
    sim, _ = worlds.deployment(resource, speeds={"EAGLE3 k=3": speed})
    sim.watches.nodes = lambda: sim.kubelet.nodes
    return sim


def conditions(sim: Simulation) -> dict[str, tuple[str, str]]:
    """Return status and reason of every condition."""
    return {one["type"]: (one["status"], one["reason"]) for one in sim.resource["status"]["conditions"]}


def rollout_end(sim: Simulation) -> dict[str, Any]:
    """Return how a rollout ended and what is left of it."""
    history = Rules(sim.server).history()
    told = [(sim.programs.title(one.candidate[7:15]), one.decision, one.reason, one.rounds) for one in history.decided]
    left = {kind.kind: len(sim.server.all(kind)) for kind in kinds.CHILDREN}
    return {
        "decided": told,
        "serves": sim.resource["status"]["speculation"],
        "conditions": conditions(sim),
        "left": left,
    }


@pytest.mark.parametrize(
    ("speed", "replicas"), [(1.5, 1), (0.7, 1), (1.5, 2)], ids=["faster", "slower", "faster and grows"]
)
@sizes.sized(8, steps=1)
@hypothesis.given(mishaps=MISHAPS)
def test_rollout_ends_alike(speed, replicas, mishaps):
    """The same records with as many rounds each, the same revision in service, the same conditions, as little left."""
    troubled, smooth = (rollout(speed, replicas=replicas) for _ in range(2))
    assert rollout_end(suffer(troubled, mishaps)) == rollout_end(suffer(smooth, []))


def training_end(sim: Simulation) -> dict[str, Any]:
    """Return how a run ended, and how often each stage was tried."""
    status = sim.resource["status"]
    tried = {one["name"]: (one["state"], one["attempts"]) for one in status["stages"]}
    return {"conditions": conditions(sim), "output": status["output"], "stages": tried, "phase": status["phase"]}


@sizes.sized(15, steps=1)
@hypothesis.given(mishaps=MISHAPS)
def test_training_run_ends_alike(mishaps):
    """Every stage was tried once, and the same head is published."""
    troubled, smooth = (worlds.training_job()[0] for _ in range(2))
    assert training_end(suffer(troubled, mishaps)) == training_end(suffer(smooth, []))
