"""SpeculativeDeployment: a served model, with the draft that has proved itself."""

from enum import StrEnum
from typing import Annotated, ClassVar

import pydantic

from paceline.api import asked
from paceline.api.base import (
    ApiModel,
    Cel,
    Digest,
    Duration,
    list_field,
    text,
)
from paceline.api.checkpoint import CheckpointStatus
from paceline.api.conditions import Condition
from paceline.api.engine import EngineSpec
from paceline.api.rolloutstatus import GuardStatus, RevisionStatus, RolloutStatus
from paceline.api.sources import ModelSource, ProbePromptSource
from paceline.api.speculation import SpeculationSpec
from paceline.api.traffic import ROUTE_RULES, STEP_RULES, DisruptionBudgetSpec, TrafficSpec, TrafficStep


class Strategy(StrEnum):
    """Where a candidate gets its GPUs."""

    AUTO = "Auto"  # beside stable where there is room, else in its place
    SURGE = "Surge"  # beside stable
    REPLACE = "Replace"  # in stable's place, one replica after the other


class OnInconclusive(StrEnum):
    """What becomes of a candidate that could not be judged."""

    ROLLBACK = "Rollback"
    HOLD = "Hold"


class OnInsufficientGPU(StrEnum):
    """What becomes of a candidate for which no node has room; stable serves on in every case."""

    WAIT = "Wait"  # until a node has room, up to deadlines.capacity
    HOLD = "Hold"  # until a person asks for another try
    REJECT = "Reject"  # at once


class MeasuringCopy(StrEnum):
    """Whether stable is measured on a replica of its own that no user reaches."""

    AUTO = "Auto"  # when users are seen on stable's pods, or a band exceeds maxProbeConcurrency
    ALWAYS = "Always"
    NEVER = "Never"


class AnalysisSpec(ApiModel):
    """How a candidate is measured: the same prompts at the same concurrency on every arm, in blocks A B B A."""

    cel: ClassVar[tuple[Cel, ...]] = (
        *asked.WEIGHT_RULES,
        Cel(
            rule="!has(self.promptBounds) || (self.promptBounds.size() + 1) * self.concurrencies.size() <= 8",
            message="analysis.promptBounds makes more than 8 bands of concurrency and length; name fewer bounds or "
            "fewer concurrencies",
        ),
    )

    prompts: ProbePromptSource
    prompt_bounds: (
        Annotated[
            list[Annotated[int, pydantic.Field(ge=1, le=100_000_000)]],
            list_field(max_items=3, min_items=1, distinct=True),
        ]
        | None
    ) = None
    """Lengths of prompts that divide them into bands, in characters; about four make a token of English. Each band is
    measured at every concurrency and held to the floor, so a draft that gains on short prompts alone cannot hide what
    it loses on long ones. Left out, lengths are not told apart."""
    concurrencies: Annotated[
        list[Annotated[int, pydantic.Field(ge=1, le=4096)]],
        list_field(max_items=6, min_items=1, distinct=True),
    ] = [1, 8]
    """Bands of requests in flight. The candidate is judged on their weighted whole. Six at most, since a round of three
    arms at six bands is what a probe's termination message of 4 KiB holds."""
    max_tokens: Annotated[int, pydantic.Field(ge=8, le=131072)] = 256
    """Length of an answer, in tokens."""
    requests_per_slot: Annotated[int, pydantic.Field(ge=2, le=10_000)] = 6
    """Requests that each of the ``concurrency`` slots answers in a block; the ramp and the tail of a block, about one
    of them, are not counted."""
    min_rounds: Annotated[int, pydantic.Field(ge=1, le=50)] = 2
    """A round is one A B B A at every concurrency; no verdict is taken from fewer."""
    max_rounds: Annotated[int, pydantic.Field(ge=1, le=50)] = 10
    """Without a verdict by then the candidate is inconclusive. 50 rounds of the largest size fill a ConfigMap."""
    min_gain_percent: Annotated[int, pydantic.Field(ge=0, le=500)] = 3
    """Throughput the candidate must gain over the control."""
    max_regression_percent: Annotated[int, pydantic.Field(ge=0, le=50)] = 3
    """Throughput it may lose against the stable revision."""
    confidence_percent: Annotated[int, pydantic.Field(ge=50, le=99)] = 95
    weights: Annotated[list[asked.BandWeight], list_field(max_items=6, min_items=1, keys=("concurrency",))] | None = (
        None
    )
    """The traffic mix: how much each concurrency counts in the whole. Left out, all count the same."""
    band_floor_percent: Annotated[int, pydantic.Field(ge=0, le=100)] = 80
    """Share of each rival's throughput that the candidate must keep at every single concurrency, whatever the whole
    says; 0 asks for nothing."""
    limits: asked.LimitsSpec | None = None
    node_spread_percent: Annotated[int, pydantic.Field(ge=0, le=50)] = 0
    """Standard deviation of throughput between nodes of the same kind, which bounds hold where arms live on different
    ones. Measure it by one revision on several nodes; 0 takes all nodes as alike."""
    answer_tolerance_percent: Annotated[int, pydantic.Field(ge=0, le=100)] = 30
    """Percentage points by which the candidate's greedy answers may be the control's less often than the control's own
    are when asked again. Numerics differ by batch, and a long answer has many places to part ways; 100 asks for
    nothing."""
    measuring_copy: MeasuringCopy = MeasuringCopy.AUTO
    """Whether stable's arm is a copy of its revision that serves nobody, while a rollout measures. It takes the place
    of one more replica for that time; where there is none, a serving pod is driven within maxProbeConcurrency."""
    max_probe_concurrency: Annotated[int, pydantic.Field(ge=1, le=4096)] = 8
    """Requests that the probe has in flight at most on a pod that serves users. Bands above it are measured on a
    measuring copy, or left out where there is none."""
    users_ttft_limit_ms: Annotated[int, pydantic.Field(ge=1, le=3_600_000)] | None = None
    """Mean time to first token of users' requests, above which the probe leaves a serving pod alone until it is below
    again, and a candidate with a share of the traffic is rolled back. Left out, there is no such limit."""


class DeadlineSpec(ApiModel):
    """How long each wait may take, counted from the moment it began."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            # The others may be none at all: not to wait for room, for a person, or for streams to end.
            rule="[self.scheduling, self.starting, self.loading, self.warmUp, self.analysis]"
            ".all(span, duration(span) > duration('0s'))",
            message="scheduling, starting, loading, warmUp and analysis of rollout.deadlines must be longer than 0s; "
            "leave one out for its default",
        ),
    )

    scheduling: Duration = "10m"
    """From a pod until it has a node."""
    starting: Duration = "20m"
    """From a node until the engine's container runs: its image is pulled and its volumes are attached."""
    loading: Duration = "30m"
    """From a node until the engine answers a completion. 600 GB of weights take 20 to 40 minutes."""
    warm_up: Duration = "10m"
    """From the first probe's node until every arm has answered its first requests."""
    analysis: Duration = "60m"
    held: Duration = "24h"
    """How long a paused rollout, or a candidate that could not be judged, keeps its GPUs for a person to decide."""
    capacity: Duration = "24h"
    """How long a rollout may wait for free GPUs before any pod is made, counted from its start."""
    draining: Duration = "2m"
    """Time the old revision keeps its pods after promotion, for streams to end."""


class ReplaceSpec(ApiModel):
    """What a candidate may cost that takes stable's place. Strategy Auto goes by it where there is no room beside."""

    allow_downtime: bool = False
    """Whether the only replica may be stopped: users have no service while the candidate loads and is measured, and
    while stable loads again if the candidate loses. ``status.rollout`` states the minutes beforehand."""
    allow_node_loss: bool = False
    """Whether stable may release its GPUs although another pod could take them. Not needed where
    ``engine.podTemplate.priorityClassName`` puts the candidate first in the scheduler's queue; choose a class with
    ``preemptionPolicy: Never``, since others evict stable on their own."""
    baseline_max_age: Duration = "168h"
    """How old a recorded measurement of an arm may be to stand in for one that cannot live beside the candidate."""


class RolloutSpec(ApiModel):
    """How a candidate becomes the served revision."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            rule="self.strategy != 'Surge' || !has(self.replace)",
            message="rollout.replace belongs to strategies Auto and Replace; remove it or change rollout.strategy",
        ),
        *STEP_RULES,
    )

    strategy: Strategy = Strategy.AUTO
    replace: ReplaceSpec | None = None
    on_insufficient_gpu: Annotated[OnInsufficientGPU, pydantic.Field(alias="onInsufficientGPU")] = (
        OnInsufficientGPU.WAIT
    )
    analysis: AnalysisSpec
    steps: Annotated[list[TrafficStep], list_field(max_items=10, keys=("weight",))] = []
    """Shares of users' traffic on the way to promotion, after the probe's verdict. They judge errors, time to first
    token and dead heads only, since live throughput measures the load. Left out, a candidate that passed is promoted at
    once."""
    deadlines: DeadlineSpec = DeadlineSpec()
    on_inconclusive: OnInconclusive = OnInconclusive.ROLLBACK

    @property
    def replace_policy(self) -> ReplaceSpec:
        """What Replace may cost; nothing that has not been consented to."""
        return self.replace or ReplaceSpec()


class GuardSpec(ApiModel):
    """What is watched after promotion, on users' own traffic."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            rule="duration(self.window) > duration('0s')",
            message="guard.window must be longer than 0s; set guard.enabled: false to watch nothing",
        ),
    )

    enabled: bool = True
    window: Duration = "2m"
    """Span over which live acceptance is taken."""
    min_drafts: Annotated[int, pydantic.Field(ge=20, le=10_000_000)] = 400
    """Fewer drafts in the window say nothing."""


class SpeculativeDeploymentSpec(ApiModel):
    """The wanted serving state."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            rule="self.rollout.analysis.minRounds <= self.rollout.analysis.maxRounds",
            message="rollout.analysis.minRounds must not exceed maxRounds",
        ),
        Cel(
            rule="!has(self.speculation.draftTensorParallelSize) || "
            "self.speculation.draftTensorParallelSize in [1, self.engine.tensorParallelSize]",
            message="speculation.draftTensorParallelSize must be 1 or engine.tensorParallelSize; the engine splits a "
            "draft model no other way",
        ),
        *ROUTE_RULES,
    )

    target: ModelSource
    engine: EngineSpec
    prober_image: Annotated[str, text(max_length=512)] | None = None
    """Image of the probe and inspection pods; left out, the operator's own choice."""
    replicas: Annotated[int, pydantic.Field(ge=0, le=1000)] = 1
    speculation: SpeculationSpec = SpeculationSpec()
    rollout: RolloutSpec
    guard: GuardSpec = GuardSpec()
    traffic: TrafficSpec = TrafficSpec()
    disruption_budget: DisruptionBudgetSpec = DisruptionBudgetSpec()
    revision_history_limit: Annotated[int, pydantic.Field(ge=1, le=100)] = 10


class SpeculativeDeploymentStatus(ApiModel):
    """A projection of revisions, workloads and evidence."""

    observed_generation: Annotated[int, pydantic.Field(ge=0)] = 0
    replicas: Annotated[int, pydantic.Field(ge=0, le=2**31 - 1)] = 0
    ready_replicas: Annotated[int, pydantic.Field(ge=0, le=2**31 - 1)] = 0
    selector: Annotated[str, pydantic.Field(max_length=512)] = ""
    """Of the serving revision's pods; unpromoted arms are not among them."""
    endpoint: Annotated[str, pydantic.Field(max_length=512)] = ""
    speculation: Annotated[str, pydantic.Field(max_length=64)] = ""
    """What serves users, such as ``EAGLE3 k=3`` or ``None``."""
    stable: RevisionStatus | None = None
    candidate: RevisionStatus | None = None
    rejected: Annotated[list[Annotated[str, text(max_length=8)]], list_field(max_items=32)] = []
    rollout: RolloutStatus | None = None
    guard: GuardStatus | None = None
    target_digest: Digest | None = None
    checkpoint: CheckpointStatus | None = None
    """What the files of target and head say; absent until they are read."""
    conditions: Annotated[list[Condition], list_field(max_items=16, keys=("type",))] = []


class SpeculativeDeployment(ApiModel):
    """Serves a target model, speculating only with what was measured to be faster."""

    spec: SpeculativeDeploymentSpec
    status: SpeculativeDeploymentStatus | None = None
