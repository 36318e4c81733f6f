"""A SpeculativeDeployment or a DraftTrainingJob in a cluster of its own, every write looked at by the rules."""

from collections.abc import Mapping
from typing import Any

from machine import rollout_rules, training_rules
from machine.engines import Engines
from machine.simulation import Simulation
from machine.stage_programs import StagePrograms
from paceline.planning import plan
from paceline.rollout.room import Rollout
from paceline.training.room import Training
from rollout import builders
from training import builders as training


def spec(**changes: Any) -> dict[str, Any]:
    """Return a spec whose engines take a whole node."""
    template = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    made = builders.spec(**changes)
    return {**made, "engine": {**made["engine"], "podTemplate": template}}


def deployment(
    resource: Mapping[str, Any] | None = None, *, speeds: Mapping[str, float]
) -> tuple[Simulation, rollout_rules.Rules]:
    """Return a resource, by default a new one with an EAGLE-3 head, whose engines are so fast by title."""

    def look(action: plan.Action) -> None:
        rules.wrote(action, sees_all=sim.operator.sees_all)

    sim = Simulation(
        Rollout(stage_image="paceline/stages:1"),
        resource or builders.deployment(),
        now=builders.NOW,
        programs=Engines,
        look=look,
    )
    rules = rollout_rules.Rules(sim.server)
    sim.programs.speeds |= speeds
    return sim, rules


def training_job() -> tuple[Simulation, training_rules.Rules]:
    """Return a new run."""

    def look(action: plan.Action) -> None:
        rules.wrote(action)

    sim = Simulation(Training(), training.resource(), now=training.NOW, programs=StagePrograms, look=look)
    rules = training_rules.Rules(sim.server)
    return sim, rules
