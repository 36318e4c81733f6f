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
from machine import fields, sizes, trouble, worlds
from machine.kubelet import NODES
from machine.stage_programs import Luck, StagePrograms
from paceline.api.checkpoint import TargetCheckpoint
from paceline.api.drafttrainingjob import DraftTrainingJobSpec, Stage
from paceline.checkpoints import target as targets
from paceline.planning import kinds, plan

CHILDREN = (kinds.JOB, kinds.POD, kinds.CONFIG_MAP)
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
DAY_S = 86_400.0


class Runs(trouble.Trouble):
    """One DraftTrainingJob."""

    def __init__(self) -> None:
        super().__init__()
        self.sim, self.rules = worlds.training_job()
        self.programs: StagePrograms = self.sim.programs
        self.is_lucky = True

    def spoil(self) -> None:
        """Note that the run may fail: work is lost with a pod that vanishes."""
        self.is_lucky = False

    @stateful.initialize(facts=st.sampled_from(TARGETS))
    def lie_on_the_volume(self, *, facts: TargetCheckpoint | None) -> None:
        """Let the target be one that a head is trained for, one with MTP of its own, or one that cannot be divided."""
        self.programs.checkpoint = facts

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
        if self.programs.luck.get(Stage.INSPECT) is Luck.HANGS:
            # The deadline does not count over Inspect, which spends nothing; any other stage that hangs is ended by it.
            self.programs.luck[Stage.INSPECT] = Luck.GOOD
        hangs = Luck.HANGS in self.programs.luck.values()
        self.sim.kubelet.stir()
        self.edit(change={"suspend": False, "activeDeadline": "5h" if hangs else "1000h"})
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
TestRuns.settings = sizes.sized(60, steps=30)
TestRuns.pytestmark = [pytest.mark.timeout(900)]
