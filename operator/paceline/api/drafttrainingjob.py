"""DraftTrainingJob: one training run of a draft head for one target."""

from enum import StrEnum
from typing import Annotated, ClassVar

import pydantic

from paceline.api.base import (
    ApiModel,
    Cel,
    Decimal,
    Digest,
    Duration,
    Label,
    Message,
    ObjectName,
    ShortText,
    list_field,
    text,
)
from paceline.api.checkpoint import CheckpointStatus
from paceline.api.conditions import Condition
from paceline.api.engine import EngineSpec
from paceline.api.podparts import PodTemplate
from paceline.api.sources import DraftSource, ModelSource, PromptSource, SourceUri


class Stage(StrEnum):
    """The stages of a run, in their order."""

    INSPECT = "Inspect"
    PREPARE = "Prepare"
    EXTRACT = "Extract"
    TRAIN = "Train"
    EVALUATE = "Evaluate"
    PUBLISH = "Publish"


class Phase(StrEnum):
    """Where a run stands; a summary of the conditions for people."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    COMPLETE = "Complete"
    SKIPPED = "Skipped"
    FAILED = "Failed"


class Regeneration(ApiModel):
    """Answers by the target itself: a head learns what this target says, not what a data set's author wrote."""

    enabled: bool = True
    max_tokens: Annotated[int, pydantic.Field(ge=16, le=131072)] = 1024
    """Longest answer, in tokens."""
    concurrency: Annotated[int, pydantic.Field(ge=1, le=4096)] = 64


class DataSpec(ApiModel):
    """What the head is trained and evaluated on."""

    prompts: PromptSource
    regeneration: Regeneration = Regeneration()
    sequence_length: Annotated[int, pydantic.Field(ge=64, le=1_048_576)] = 4096
    """Longest training sequence, in tokens; longer ones are cut."""
    holdout_percent: Annotated[int, pydantic.Field(ge=1, le=50)] = 10
    """Share of the prompts kept from training, on which acceptance is measured."""


class ExtractionSpec(ApiModel):
    """Hidden states of the target, written to the workspace."""

    concurrency: Annotated[int, pydantic.Field(ge=1, le=1024)] = 8
    min_agreement_percent: Annotated[int, pydantic.Field(ge=50, le=100)] = 99
    """Logits rebuilt from the hidden states must name the target's own next token so often, else they are wrong; what
    chance may take from a small sample is allowed for."""


class DraftSpec(ApiModel):
    """Shape of the head, and what it starts from."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            rule="!has(self.startFrom) || !self.startFrom.uri.startsWith('s3://')",
            message="startFrom cannot be read from a bucket by the trainer; copy the head to a volume and use "
            "pvc://CLAIM/PATH",
        ),
    )

    layers: Annotated[int, pydantic.Field(ge=1, le=8)] = 1
    vocabulary_size: Annotated[int, pydantic.Field(ge=256, le=1_000_000)] = 32000
    """Size of the draft vocabulary; the most frequent tokens of the data are kept."""
    auxiliary_layers: Annotated[list[Annotated[int, pydantic.Field(ge=0, le=1000)]], list_field(max_items=8)] = []
    """Layers whose inputs the head reads; empty for EAGLE-3's own choice: 2, the middle, and the last but two."""
    start_from: DraftSource | None = None
    """EAGLE-3 head whose weights the training starts from, such as a sibling's with the same tokenizer. It must read
    the same layers and have as many of its own; the width of its decoder and its norms are taken over."""


class TrainingSpec(ApiModel):
    """How the head is trained."""

    epochs: Annotated[int, pydantic.Field(ge=1, le=1000)] = 10
    learning_rate: Decimal = "1e-4"
    total_sequence_length: Annotated[int, pydantic.Field(ge=64, le=1_048_576)] = 8192
    """Tokens packed into one step."""
    ttt_steps: Annotated[int, pydantic.Field(ge=1, le=16)] = 3
    """Steps of training-time test: how far ahead the head practises on its own output."""
    seed: Annotated[int, pydantic.Field(ge=0, le=2**31 - 1)] = 42


class EvaluationSpec(ApiModel):
    """The gate between training and publication."""

    speculative_tokens: Annotated[int, pydantic.Field(ge=1, le=16)] = 3
    min_acceptance_length: Decimal = "1.2"
    """Mean tokens a step on held-out prompts, 1 + accepted / drafts, below which the head is not published."""
    max_prompts: Annotated[int, pydantic.Field(ge=1, le=100_000)] = 200
    max_tokens: Annotated[int, pydantic.Field(ge=16, le=131072)] = 256


VolumeSize = Annotated[str, text(max_length=24, pattern=r"^[0-9]{1,12}(\.[0-9]{1,3})?([kMGTPE]i?|Ki)?$")]


class Workspace(ApiModel):
    """Volume for data, hidden states and checkpoints: 2 x hidden x (aux layers + 1) bytes a token."""

    claim_name: ObjectName
    sub_path: Annotated[str, text(max_length=256, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")] | None = None
    size: VolumeSize | None = None
    """What the run may fill, such as ``2Ti``; a run whose hidden states cannot fit is refused before it starts."""


class OutputSpec(ApiModel):
    """Where the head is published; never owned by the job, so deleting the job takes no head out of service."""

    uri: SourceUri
    """``pvc://CLAIM/FOLDER``; the head goes to a subfolder named by its digest."""


class TrainerSpec(ApiModel):
    """The pods that prepare, train and publish."""

    image: Annotated[str, text(max_length=512)]
    pod_template: PodTemplate = PodTemplate()


class QueueSpec(ApiModel):
    """Admission by Kueue."""

    local_queue: Label


class DraftTrainingJobSpec(ApiModel):
    """The wanted run."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            rule="self.output.uri.matches('^pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/.*)?$')",
            message="output.uri must be pvc://CLAIM/FOLDER, with CLAIM a PersistentVolumeClaim in this namespace",
        ),
        Cel(
            rule="!self.output.uri.contains('..')",
            message="output.uri must not contain '..'",
        ),
        Cel(
            rule="self.data.sequenceLength <= self.training.totalSequenceLength",
            message="data.sequenceLength must not exceed training.totalSequenceLength, the tokens packed into one step",
        ),
        Cel(
            rule="!has(self.workspace.subPath) || !self.workspace.subPath.contains('..')",
            message="workspace.subPath must not contain '..'",
        ),
        Cel(
            rule="duration(self.activeDeadline) > duration('0s')",
            message="activeDeadline must be longer than 0s; set suspend: true to keep a run from starting",
        ),
    )

    target: ModelSource
    train_despite_mtp: bool = False
    """Trains a head even for a target whose own multi-token prediction works; else such a run ends as Skipped."""
    engine: EngineSpec
    """The engine that regenerates answers, extracts hidden states and evaluates: the one that will serve."""
    trainer: TrainerSpec
    data: DataSpec
    extraction: ExtractionSpec = ExtractionSpec()
    draft: DraftSpec = DraftSpec()
    training: TrainingSpec = TrainingSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    workspace: Workspace
    output: OutputSpec
    queue: QueueSpec | None = None
    suspend: bool = False
    """Ends the running stage's pods and keeps what they have finished."""
    active_deadline: Duration = "24h"
    """Counted over the time that stages run, not the time they wait for a node."""
    stage_retries: Annotated[int, pydantic.Field(ge=0, le=20)] = 3
    """Transient failures allowed a stage; node disruptions are not charged."""
    ttl_after_finished: Duration | None = None
    """Deletes the job so long after it finished; the published head stays."""


class Progress(ApiModel):
    """What runs now."""

    stage: Stage
    percent: Annotated[int, pydantic.Field(ge=0, le=100)] = 0
    eta: Duration | None = None
    message: Message = ""


class StageStatus(ApiModel):
    """One stage's state."""

    name: Stage
    state: Annotated[str, text(max_length=16, pattern=r"^(Pending|Running|Succeeded|Failed)$")]
    attempts: Annotated[int, pydantic.Field(ge=0)] = 0
    started_at: ShortText | None = None
    finished_at: ShortText | None = None
    message: Message = ""


class TargetFacts(ApiModel):
    """What Inspect read from the target's files."""

    digest: Digest
    architecture: ShortText
    hidden_size: int
    layers: int
    vocabulary_size: int
    weights_bytes: int
    tokenizer_digest: Digest


class TrainingOutput(ApiModel):
    """The published head."""

    uri: SourceUri
    manifest_digest: Digest
    acceptance_length: Decimal
    """On held-out prompts at ``evaluation.speculativeTokens``."""
    acceptance_by_position: Annotated[list[Decimal], list_field(max_items=16)] = []


class DraftTrainingJobStatus(ApiModel):
    """A projection of the stages' Jobs and their results."""

    observed_generation: Annotated[int, pydantic.Field(ge=0)] = 0
    phase: Phase = Phase.PENDING
    start_time: ShortText | None = None
    completion_time: ShortText | None = None
    progress: Progress | None = None
    stages: Annotated[list[StageStatus], list_field(max_items=16, keys=("name",))] = []
    target: TargetFacts | None = None
    checkpoint: CheckpointStatus | None = None
    """What the target's files say about drafting for it; absent until they are read."""
    output: TrainingOutput | None = None
    conditions: Annotated[list[Condition], list_field(max_items=16, keys=("type",))] = []


class DraftTrainingJob(ApiModel):
    """Trains an EAGLE-3 draft head for exactly one target model, and publishes it with digests."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            rule="!has(oldSelf.status) || !has(oldSelf.status.startTime) || "
            "(self.spec.target == oldSelf.spec.target && self.spec.engine == oldSelf.spec.engine && "
            "self.spec.trainer == oldSelf.spec.trainer && self.spec.data == oldSelf.spec.data && "
            "self.spec.extraction == oldSelf.spec.extraction && self.spec.draft == oldSelf.spec.draft && "
            "self.spec.training == oldSelf.spec.training && self.spec.evaluation == oldSelf.spec.evaluation && "
            "self.spec.workspace == oldSelf.spec.workspace && self.spec.output == oldSelf.spec.output)",
            message="the run has started: only suspend, queue, deadlines, retries and ttlAfterFinished may change; "
            "make a new DraftTrainingJob for another run",
        ),
    )

    spec: DraftTrainingJobSpec
    status: DraftTrainingJobStatus | None = None
