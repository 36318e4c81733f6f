"""Anything at any time to a DraftTrainingJob: what holds after every write, and that every wait ends.

Edits, suspension, crashes, faults on every call, late and lost events, a clock that jumps, Jobs, pods and evidence
deleted by others, preemption, stages that fail in every way. Then people keep still, and the run ends.
"""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import stateful
from hypothesis import strategies as st

from checkpoints import builders as checkpoints
from machine import fields, jobs, sizes
from machine.kubelet import NODES
from machine.server import Fault
from machine.simulation import Simulation
from machine.stage_programs import Luck, StagePrograms
from machine.training_rules import Rules
from paceline.api.checkpoint import TargetCheckpoint
from paceline.api.drafttrainingjob import DraftTrainingJobSpec, Stage
from paceline.checkpoints import target as targets
from paceline.planning import kinds, plan
from paceline.training.room import Training
from training import builders

CHILDREN = (kinds.JOB, kinds.POD, kinds.CONFIG_MAP)
WATCHED = [kind.kind for kind in (*CHILDREN, kinds.DRAFT_TRAINING_JOB)]
# What the CRD's rules let people change at any time; all else only before the start.
ALWAYS = ("suspend", "activeDeadline", "stageRetries")
LATER = fields.variants(
    DraftTrainingJobSpec,
    leave=frozenset(DraftTrainingJobSpec.model_fields) - {"suspend", "active_deadline", "stage_retries"},
)
FIRST = fields.variants(
    DraftTrainingJobSpec,
    leave=frozenset({"target", "engine", "trainer", "workspace", "output", "ttl_after_finished", "queue"}),
)
TARGETS = (
    None,
    targets.read(checkpoints.config("moonshotai--Kimi-K2.5"), weights=checkpoints.index("kimi-k2.5-no-mtp")),
    targets.read(checkpoints.config("Qwen--Qwen3.5-397B-A17B"), weights=checkpoints.index("qwen3.5-with-mtp")),
    targets.read(checkpoints.config("zai-org--GLM-4.7-Flash")),
)
FAULTS = st.dictionaries(st.integers(0, 4), st.sampled_from(list(Fault)), min_size=1, max_size=3)
JUMPS_S = (-7200.0, -90.0, 90.0, 7200.0)
DAY_S = 86_400.0


class Runs(stateful.RuleBasedStateMachine):
    """One DraftTrainingJob."""

    def __init__(self) -> None:
        super().__init__()
        self.sim = Simulation(
            Training(),
            builders.resource(),
            now=builders.NOW,
            programs=StagePrograms,
            look=self.look,
        )
        self.programs: StagePrograms = self.sim.programs
        self.rules = Rules(self.sim.server)
        self.is_lucky = True

    def look(self, action: plan.Action) -> None:
        """Check what one write of the operator's may break."""
        self.rules.wrote(action)

    @stateful.initialize(facts=st.sampled_from(TARGETS))
    def lie_on_the_volume(self, *, facts: TargetCheckpoint | None) -> None:
        """Let the target be one that a head is trained for, one with MTP of its own, or one that cannot be divided."""
        self.programs.checkpoint = facts

    # -- the operator

    @stateful.rule(seconds=st.sampled_from([30.0, 400.0, 1500.0]))
    def go_on(self, *, seconds: float) -> None:
        """Let everything take its course."""
        self.sim.go_on(seconds)

    @stateful.rule(times=st.integers(1, 4), heard=st.booleans())
    def work(self, *, times: int, heard: bool) -> None:
        """Run a few passes, with or without the news."""
        for _ in range(times):
            if heard:
                self.sim.hear()
            self.sim.operate()

    @stateful.rule(after=st.integers(0, 4))
    def crash(self, *, after: int) -> None:
        """Kill the operator after some writes of a pass; its successor lists everything."""
        self.sim.hear()
        self.sim.operate(crash_after=after)

    @stateful.rule(after=st.integers(0, 5), seconds=st.sampled_from([100.0, 1000.0]))
    def crash_all_along(self, *, after: int, seconds: float) -> None:
        """Kill the operator again and again, each time after as many writes."""
        self.sim.go_on(seconds, crash_after=after)

    @stateful.rule(faults=FAULTS, seconds=st.sampled_from([100.0, 1000.0]))
    def meet_faults_all_along(self, *, faults: Mapping[int, Fault], seconds: float) -> None:
        """Let the same calls fail again and again."""
        self.sim.go_on(seconds, faults=faults)

    @stateful.rule(faults=FAULTS)
    def meet_faults(self, *, faults: Mapping[int, Fault]) -> None:
        """Let calls of a pass fail."""
        self.sim.hear()
        self.sim.operate(faults=faults)

    @stateful.rule(kind=st.sampled_from(WATCHED), seconds=st.floats(0, 45))
    def hear_of_one_kind(self, *, kind: str, seconds: float) -> None:
        """Let one watch be ahead of all others."""
        self.sim.pass_time(seconds)
        self.sim.watches.deliver([kind])
        self.sim.operate()

    @stateful.rule(seconds=st.sampled_from([1.0, 20.0, 400.0]))
    def miss_events(self, *, seconds: float) -> None:
        """Let things happen of which nobody is told."""
        self.sim.pass_time(seconds)
        self.sim.watches.deliver()

    @stateful.rule(seconds=st.sampled_from(JUMPS_S))
    def clock_jumps(self, *, seconds: float) -> None:
        """Let the operator's clock be wrong, or right again."""
        self.sim.operator.skew_s = 0.0 if self.sim.operator.skew_s else seconds

    # -- people

    @stateful.rule(change=LATER)
    def edit(self, *, change: Mapping[str, Any]) -> None:
        """Suspend, resume, change the deadline or the retries."""
        self.sim.edit(copy.deepcopy(fields.overlay(self.sim.resource["spec"], change)))

    @stateful.rule(change=FIRST, folder=st.sampled_from(["kimi", "kimi-k2"]))
    def edit_before_the_start(self, *, change: Mapping[str, Any], folder: str) -> None:
        """Change anything, which the API server allows until the start time is written."""
        begun = any(stage is not Stage.INSPECT for stage in self.rules.runs)
        if begun or "startTime" in (self.sim.resource.get("status") or {}):
            return
        made = fields.overlay(self.sim.resource["spec"], {**change, "target": {"uri": f"pvc://models/{folder}"}})
        if made["data"].get("sequenceLength", 4096) <= made.get("training", {}).get("totalSequenceLength", 8192):
            self.sim.edit(copy.deepcopy(made))

    @stateful.rule(kind=st.sampled_from(CHILDREN), which=st.integers(0, 9))
    def delete_by_hand(self, *, kind: kinds.Kind, which: int) -> None:
        """Delete some child, memory included; a Job's pods end with it."""
        found = self.sim.server.all(kind)
        if not found:
            return
        one = found[which % len(found)]
        if kind is kinds.POD:
            self.sim.kubelet.end(one)
        else:
            self.sim.server.drop(kind.kind, one["metadata"]["name"])
        self.rules.forgotten |= kind is kinds.CONFIG_MAP
        self.is_lucky = False

    @stateful.rule()
    def empty_status(self) -> None:
        """Empty the status by hand."""
        self.sim.server.put({key: one for key, one in self.sim.resource.items() if key != "status"})

    @stateful.rule(lost=st.sampled_from(["conditions", "stages", "phase", "progress"]))
    def prune_status(self, *, lost: str) -> None:
        """Let the schema drop a field of the status, or keep it again."""
        self.sim.server.pruned = frozenset() if self.sim.server.pruned else frozenset({lost})

    # -- the world

    @stateful.rule(stage=st.sampled_from(list(Stage)), luck=st.sampled_from(list(Luck)))
    def change_luck(self, *, stage: Stage, luck: Luck) -> None:
        """Let a stage's pods end in another way."""
        self.programs.luck[stage] = luck
        self.is_lucky = self.is_lucky and luck is Luck.GOOD
        self.sim.kubelet.stir()

    @stateful.rule()
    def preempt(self) -> None:
        """Take every running pod away."""
        for pod in self.sim.server.all(kinds.POD):
            if jobs.is_living(pod) and pod["spec"].get("nodeName"):
                jobs.disrupt(self.sim.server, pod)

    @stateful.rule(count=st.integers(0, 4))
    def change_nodes(self, *, count: int) -> None:
        """Take nodes' GPUs for others' pods, or give them back; what runs goes on."""
        self.sim.kubelet.nodes = {name: gpus * (place < count) for place, (name, gpus) in enumerate(NODES.items())}

    # -- what always holds

    @stateful.invariant()
    def one_writer(self) -> None:
        """Two pods never share the workspace."""
        self.rules.check_workspace()

    def teardown(self) -> None:
        """Keep still: the run ends in bounded time, writes nothing more, and ends well if nothing was in its way."""
        self.sim.operator.skew_s = 0.0
        self.sim.server.pruned = frozenset()
        self.sim.kubelet.nodes = dict(NODES)
        hanging = [stage for stage, luck in self.programs.luck.items() if luck is Luck.HANGS]
        # Nothing but the deadline ends a stage that hangs, and it does not count over Inspect, which spends nothing.
        self.programs.luck |= dict.fromkeys(hanging, Luck.GOOD)
        self.sim.kubelet.stir()
        self.edit(change={"suspend": False, "activeDeadline": "1000h"})
        self.sim.settle(within_s=2 * DAY_S, quiet_s=4 * 3600.0)
        planned = self.sim.operator.decide(self.sim.watches.picture())
        assert isinstance(planned, plan.Plan)
        self.rules.check_rest(planned, self.sim.resource)
        if self.is_lucky:
            assert self.sim.resource["status"]["phase"] in self.good_ends()

    def good_ends(self) -> set[str]:
        """Return how a run for this target ends when nothing is in its way; one that is refused waits for an edit."""
        target = self.programs.checkpoint
        if target is None or target.model_type == "kimi_k25":
            return {"Complete"}
        return {"Skipped", "Complete"} if target.mtp.weights == "present" else {"Pending"}


TestRuns = Runs.TestCase
TestRuns.settings = sizes.sized(20, steps=30)
TestRuns.pytestmark = [pytest.mark.timeout(900)]
