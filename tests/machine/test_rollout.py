"""Anything at any time to a SpeculativeDeployment: what holds after every write, and that every wait ends.

Edits, verbs, crashes, faults on every call, late and lost events, a clock that jumps, objects deleted by others, full
nodes, engines that break. Then people keep still, and from wherever it stands the resource reaches a decided state
within bounded time and writes no more.
"""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import stateful
from hypothesis import strategies as st

from machine import fields, sizes, trouble, worlds
from machine.engines import LAST_WORDS, Engines
from machine.kubelet import NODES
from paceline.api import base, names
from paceline.api.speculativedeployment import GuardSpec, RolloutSpec, TrafficSpec
from paceline.planning import kinds
from rollout import builders, gateway

TITLES = ("None", "EAGLE3 k=3", "EAGLE3 k=5", "Ngram k=4", "Suffix k=8")
SPECULATIONS = (
    builders.none(),
    builders.eagle3(k=3),
    builders.eagle3(k=5),
    builders.eagle3(uri="pvc://models/other-head"),
    builders.from_job(),
    {"method": "Ngram", "numSpeculativeTokens": 4},
    {"method": "Ngram", "numSpeculativeTokens": 4, "schedule": [{"upToConcurrency": 8, "tokens": 4}]},
    {"method": "Suffix", "numSpeculativeTokens": 8},
    {"method": "MLPSpeculator", "numSpeculativeTokens": 3, "draft": {"uri": "pvc://models/mlp"}},  # refused
)
NEVER_S = 1e9
LAST_WISH = {"method": "Ngram", "numSpeculativeTokens": 9}
IMAGES = ("vllm/vllm-openai:v0.33.0", "vllm/vllm-openai:v0.34.0")
TARGETS = ("pvc://models/target", "pvc://models/new-target", "pvc://models/broken")
CHILDREN = (kinds.DEPLOYMENT, kinds.JOB, kinds.POD, kinds.SERVICE, kinds.CONFIG_MAP, kinds.CONTROLLER_REVISION)
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "rollout": fields.variants(RolloutSpec, leave=frozenset({"steps"})),
        "guard": fields.variants(GuardSpec),
        "traffic": fields.variants(TrafficSpec),
        "revisionHistoryLimit": st.integers(1, 3),
    },
)
STEPS: tuple[list[dict[str, Any]], ...] = (
    [],
    [{"weight": 20, "pause": "5m"}],
    [{"weight": 30, "pause": "1m"}, {"weight": 60, "pause": "10m"}],
)
# What stands in the way of the last thing that is asked for, so that it has to end by a deadline of its own.
LAST_TROUBLES = ("", "no room", "unseen nodes", "slow engine", "silent probe", "pause")
# Longer than the pause before a source is read again, and than the guard's window; a wait of the spec comes on top.
QUIET_S = 2000.0


class Rollouts(trouble.Trouble):
    """One SpeculativeDeployment."""

    def __init__(self) -> None:
        super().__init__()
        self.last_trouble = ""
        resource = {**builders.deployment(), "spec": worlds.spec()}
        self.sim, self.rules = worlds.deployment(
            resource, speeds={"EAGLE3 k=3": 1.5, "EAGLE3 k=5": 0.8, "Ngram k=4": 1.3}
        )
        self.engines: Engines = self.sim.programs

    @stateful.initialize(
        served=st.booleans(),
        speculation=st.sampled_from(SPECULATIONS),
        policy=POLICIES,
        sees_nodes=st.booleans(),
        steps=st.sampled_from(STEPS),
        routed=st.booleans(),
        last_trouble=st.sampled_from(LAST_TROUBLES),
    )
    def begin(
        self,
        *,
        served: bool,
        speculation: dict,
        policy: Mapping[str, Any],
        sees_nodes: bool,
        steps: list[dict[str, Any]],
        routed: bool,
        last_trouble: str,
    ) -> None:
        """Start with a new resource or a promoted head; with sight of nodes or without; with a route, or without."""
        self.last_trouble = last_trouble
        self.sim.watches.nodes = lambda: self.sim.kubelet.nodes if sees_nodes else None
        if served:
            self.come_to_rest()
            assert self.sim.resource["status"]["speculation"] == "EAGLE3 k=3"
        self.edit(speculation=speculation)
        self.edit(**policy)
        if steps:
            # Behind the front Service alone a share takes two replicas and somebody who asks.
            self.engines.users = builders.Users()
            self.edit(rollout={"steps": steps}, replicas=2)
            if routed:
                self.write_route()
                self.edit(traffic={"httpRoute": {"name": gateway.NAME}})

    # -- the operator

    # A Service that somebody has deleted carries no number that could tell old records from new ones.
    @stateful.precondition(lambda self: self.sim.server.all(kinds.SERVICE) and not self.rules.forgotten)
    @stateful.rule(age=st.integers(1, 25))
    def act_on_an_old_picture(self, *, age: int) -> None:
        """Let a leader that was cut off carry out what it had decided some writes ago."""
        self.rules.cut_off = True
        self.sim.operator.act(self.sim.watches.old(age), faults={})
        self.rules.cut_off = False
        self.sim.operator.wake()

    # -- people

    def edit(self, **changes: Any) -> None:
        """Change some fields of the spec."""
        made = fields.overlay(self.sim.resource["spec"], changes)
        analysis = made["rollout"]["analysis"]
        if analysis.get("minRounds", 2) > analysis.get("maxRounds", 6):
            analysis["minRounds"] = analysis["maxRounds"] = analysis.get("maxRounds", 6)
        self.sim.edit(copy.deepcopy(made))

    @stateful.rule(speculation=st.sampled_from(SPECULATIONS))
    def edit_speculation(self, *, speculation: dict) -> None:
        """Ask for another draft."""
        self.sim.edit({**self.sim.resource["spec"], "speculation": speculation})

    @stateful.rule(image=st.sampled_from(IMAGES))
    def edit_engine(self, *, image: str) -> None:
        """Ask for another engine."""
        self.edit(engine={"image": image})

    @stateful.rule(uri=st.sampled_from(TARGETS))
    def edit_target(self, *, uri: str) -> None:
        """Ask for another target."""
        self.edit(target={"uri": uri})

    @stateful.rule(policy=POLICIES)
    def edit_policies(self, *, policy: Mapping[str, Any]) -> None:
        """Ask for other rules."""
        self.edit(**policy)

    @stateful.rule(steps=st.sampled_from(STEPS))
    def edit_steps(self, *, steps: list[dict[str, Any]]) -> None:
        """Ask for shares of users' traffic before a promotion, or for none."""
        self.edit(rollout={"steps": steps})

    @stateful.rule()
    def write_route(self) -> None:
        """Write the user's route as it is meant to be, whatever stands in it."""
        self.sim.server.put(gateway.answer(gateway.route()))

    @stateful.rule()
    def take_route_away(self) -> None:
        """Delete the route."""
        self.sim.server.drop(kinds.HTTP_ROUTE.kind, gateway.NAME)

    @stateful.rule()
    def revert(self) -> None:
        """Go back to what was asked for at first."""
        self.sim.edit(worlds.spec())

    @stateful.rule(replicas=st.integers(0, 3))
    def scale(self, *, replicas: int) -> None:
        """Scale."""
        self.edit(replicas=replicas)

    @stateful.rule(
        verb=st.sampled_from(["promote", "abort", "retry", "undo", "pause"]),
        which=st.integers(0, 9),
        again=st.sampled_from(["", "-2"]),
        beside=st.booleans(),
    )
    def annotate(self, *, verb: str, which: int, again: str, beside: bool) -> None:
        """Ask for a verb on some revision, also once more, and also beside what was asked for before."""
        known = [one["metadata"]["labels"][names.LABEL_REVISION] for one in self.all(kinds.CONTROLLER_REVISION)]
        asked = {f"paceline.dev/{verb}": known[which % len(known)] + again} if known else {}
        before = self.sim.resource["metadata"].get("annotations") or {}
        self.sim.annotate({**(before if beside else {}), **asked})

    @stateful.rule()
    def take_annotations_away(self) -> None:
        """Take all verbs away."""
        self.sim.annotate({})

    @stateful.rule(kind=st.sampled_from(CHILDREN), which=st.integers(0, 9))
    def delete_by_hand(self, *, kind: kinds.Kind, which: int) -> None:
        """Delete some child, evidence included."""
        found = self.all(kind)
        if found:
            self.sim.server.drop(kind.kind, found[which % len(found)]["metadata"]["name"])
            self.rules.forgotten |= kind in {kinds.CONFIG_MAP, kinds.CONTROLLER_REVISION}

    @stateful.rule(lost=st.sampled_from(["conditions", "rollout", "stable", "observedGeneration"]))
    def prune_status(self, *, lost: str) -> None:
        """Let the schema drop a field of the status, or keep it again."""
        self.sim.server.pruned = frozenset() if self.sim.server.pruned else frozenset({lost})

    @stateful.rule(published=st.booleans())
    def train(self, *, published: bool) -> None:
        """Let a training job be under way, or publish."""
        self.sim.server.put(builders.training_job(published=published))

    # -- the world

    @stateful.rule(title=st.sampled_from(TITLES), speed=st.sampled_from([0.7, 1.0, 1.5]))
    def change_speed(self, *, title: str, speed: float) -> None:
        """Make a revision's servers faster or slower."""
        self.engines.speeds[title] = speed

    @stateful.rule(title=st.sampled_from(TITLES), crashes=st.booleans(), words=st.sampled_from(LAST_WORDS))
    def break_engine(self, *, title: str, crashes: bool, words: str) -> None:
        """Break or mend an engine."""
        self.engines.last_words = words
        (self.engines.crashing.add if crashes else self.engines.crashing.discard)(title)
        self.sim.kubelet.stir()

    @stateful.rule(accepted=st.sampled_from([None, 0.05, 1.2]))
    def change_traffic(self, *, accepted: float | None) -> None:
        """Let users ask for what the head knows, for what it does not, or for nothing."""
        self.engines.users = None if accepted is None else builders.Users(accepted_a_draft=accepted)

    @stateful.rule(away=st.booleans())
    def lose_the_hub(self, *, away: bool) -> None:
        """Let no source be reached, or all again."""
        self.engines.hub_is_away = away

    @stateful.rule(error=st.sampled_from(["", "no prompts"]), hangs=st.booleans())
    def break_probe(self, *, error: str, hangs: bool) -> None:
        """Break or mend the probe."""
        self.engines.probe_error, self.engines.probe_hangs = error, hangs
        self.sim.kubelet.stir()

    # -- the end

    def waits_s(self) -> list[float]:
        """Return how long each wait of a rollout may last, as the spec has it, a wrong clock's error added."""
        told = RolloutSpec.model_validate(self.sim.resource["spec"]["rollout"]).deadlines
        return [base.parse_duration(one).total_seconds() + self.jumped_s for one in told.model_dump().values()]

    def come_to_rest(self) -> None:
        """Go on until nothing more happens, within a few times what all waits of a rollout last together."""
        waits = self.waits_s()
        self.sim.settle(within_s=8 * sum(waits) + 20_000.0, quiet_s=max(waits) + self.jumped_s + QUIET_S)

    def ask_in_vain(self) -> None:
        """Ask for one more revision, with something in its way that nobody takes away again."""
        # Whatever serves works: the guard replaces what does not, and where it cannot it asks again for ever.
        self.engines.crashing.clear()
        self.change_nodes(count=len(NODES))
        self.sim.kubelet.stir()
        self.sim.annotate({})
        self.come_to_rest()
        self.edit(target={"uri": TARGETS[0]}, replicas=1, speculation=LAST_WISH)
        match self.last_trouble:
            case "no room":
                self.change_nodes(count=0)
            case "unseen nodes":
                self.sim.watches.nodes = lambda: None
                self.change_nodes(count=0)
            case "slow engine":
                self.engines.loads_s = NEVER_S
            case "silent probe":
                self.engines.probe_hangs = True
            case "pause":
                self.sim.go_on(30.0)
                found = self.rules.history().open
                asked = names.short(found.record.candidate) if found else ""
                self.sim.annotate({"paceline.dev/pause": asked} if asked else {})

    def teardown(self) -> None:
        """Keep still: it comes to rest in bounded time, writes nothing more, and says why it stands where it stands."""
        self.sim.operator.skew_s = 0.0
        self.sim.server.pruned = frozenset()
        if self.engines.crashing - {"None"}:
            # The guard replaces a broken stable by its control, and while that fails tries again, ever more seldom.
            self.engines.crashing.discard("None")
            self.sim.kubelet.stir()
        self.engines.users, self.engines.hub_is_away = None, False
        if self.last_trouble:
            self.ask_in_vain()
        self.come_to_rest()
        planned = self.sim.operator.decide(self.sim.watches.picture())
        assert planned is not None
        self.rules.check_rest(planned, self.sim.resource)


TestRollouts = Rollouts.TestCase
TestRollouts.settings = sizes.sized(20, steps=30)
TestRollouts.pytestmark = [pytest.mark.timeout(900)]
