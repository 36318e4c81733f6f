"""What the operator tells a stage's pod, and what the pod tells back.

The configuration is a JSON document mounted at CONFIG_PATH. The result is under 4 KiB and comes back as the container's
termination message: data from a pod in a tenant's namespace, hence untrusted and parsed by these models. Live progress
is served over HTTP at PROGRESS_PORT.
"""

from typing import Annotated, Final, Literal

import pydantic

from paceline.api.base import ApiModel, Digest, Message, ShortText, text
from paceline.api.checkpoint import HeadCheckpoint, TargetCheckpoint

CONFIG_PATH: Final = "/etc/paceline/stage.json"
PROMPTS_DIR: Final = "/etc/paceline/prompts"
CREDENTIALS_DIR: Final = "/etc/paceline/credentials"
"""Where Inspect finds the Secrets of its sources: in ``target`` and ``head``."""
PROGRESS_PORT: Final = 8765
ENGINE_PORT: Final = 8000
TERMINATION_LIMIT_BYTES: Final = 4096

EXIT_OK: Final = 0
EXIT_PERMANENT: Final = 42
"""The user must change something: the pod failure policy fails the Job at once."""


# A folder or file as a container sees it: mount root, claim and sub-path alone may take 500 characters.
PodPath = Annotated[str, text(max_length=1024)]
# What a pod measured. JSON as Python reads it knows NaN, which compares with nothing and would pass any gate.
Measured = Annotated[float, pydantic.Field(ge=0, le=1e5, allow_inf_nan=False)]
# Status is JSON to Kubernetes, whose integers end here.
Count = Annotated[int, pydantic.Field(ge=0, le=2**53)]


class TargetRef(ApiModel):
    """The target as a pod sees it."""

    path: PodPath
    """Folder below the mount root, ``organisation/name``, or s3:// URI."""
    revision: ShortText | None = None
    trust_remote_code: bool = False
    credentials_path: PodPath | None = None
    """Folder of a mounted Secret, one file a key; only Inspect has it."""


class StageConfig(ApiModel):
    """What every stage is told."""

    job_name: ShortText
    job_uid: ShortText
    workspace: PodPath
    """Folder of this run on the shared volume; attempts of the same run share it, other runs never do."""
    target: TargetRef


class InspectConfig(StageConfig):
    """Read the files of a target, and of a head that is to serve it."""

    stage: Literal["Inspect"] = "Inspect"
    auxiliary_layers: list[int] = []
    head_path: PodPath | None = None
    head_manifest_digest: Digest | None = None
    """What the head's manifest.json must hash to, when it is known."""
    head_revision: ShortText | None = None
    head_credentials_path: PodPath | None = None


class PrepareConfig(StageConfig):
    """Make training data: split, regenerate, tokenise."""

    stage: Literal["Prepare"] = "Prepare"
    prompts_path: PodPath
    """File of JSON lines."""
    max_samples: int | None = None
    holdout_percent: int
    sequence_length: int
    regenerate: bool = True
    max_tokens: int
    concurrency: int
    server_url: ShortText | None = None


class ExtractConfig(StageConfig):
    """Write the hidden states of every training sample."""

    stage: Literal["Extract"] = "Extract"
    server_url: ShortText
    concurrency: int
    sequence_length: int
    min_agreement_percent: int
    hidden_states_path: PodPath
    """Folder that the engine's connector writes to; the same path in both containers."""


class TrainConfig(StageConfig):
    """Train the head."""

    stage: Literal["Train"] = "Train"
    layers: int
    vocabulary_size: int
    auxiliary_layers: list[int]
    epochs: int
    learning_rate: float
    total_sequence_length: int
    ttt_steps: int
    seed: int
    hidden_states_path: PodPath
    start: TargetRef | None = None
    """The head to start from; None for random weights."""
    start_manifest_digest: Digest | None = None
    """What its manifest.json must hash to, when it is known."""


class EvaluateConfig(StageConfig):
    """Measure a head's acceptance on held-out prompts, in the real engine."""

    stage: Literal["Evaluate"] = "Evaluate"
    server_url: ShortText
    head_path: PodPath
    speculative_tokens: int
    min_acceptance_length: float
    max_prompts: int
    max_tokens: int


class PublishConfig(StageConfig):
    """Copy the head to its place, with a manifest of digests."""

    stage: Literal["Publish"] = "Publish"
    head_path: PodPath
    output_path: PodPath
    """Folder on a mounted volume; the head goes to ``<output_path>/<digest12>``."""
    evaluation: "EvaluateResult"
    inspection: "InspectResult"


AnyStageConfig = Annotated[
    InspectConfig | PrepareConfig | ExtractConfig | TrainConfig | EvaluateConfig | PublishConfig,
    pydantic.Field(discriminator="stage"),
]


class InspectResult(ApiModel):
    """Facts about the target."""

    stage: Literal["Inspect"] = "Inspect"
    digest: Digest
    tokenizer_digest: Digest
    architecture: ShortText
    hidden_size: Count
    layers: Count
    vocabulary_size: Count
    weights_bytes: Count
    auxiliary_layers: Annotated[list[Count], pydantic.Field(max_length=8)]
    """Layers the head will read, the configured ones or EAGLE-3's own choice."""
    hidden_state_bytes_per_token: Count

    head_problems: list[Message] = []
    """Why the head is not what it should be, each with what to change; empty when it is, or none was given."""
    checkpoint: TargetCheckpoint | None = None
    """All facts of the target; None in a result of an older version."""
    head: HeadCheckpoint | None = None
    """All facts of the head; None when none was given, or it cannot be read."""


class PrepareResult(ApiModel):
    """The data set."""

    stage: Literal["Prepare"] = "Prepare"
    data_digest: Digest
    train_samples: Count
    holdout_samples: Count
    train_tokens: Count


class ExtractResult(ApiModel):
    """The hidden states."""

    stage: Literal["Extract"] = "Extract"
    samples: Count
    tokens: Count
    hidden_bytes: Count
    agreement_percent: Measured
    """How often logits rebuilt from the hidden states name the target's own next token."""


class TrainResult(ApiModel):
    """The checkpoints."""

    stage: Literal["Train"] = "Train"
    checkpoint: PodPath
    """Folder of the final epoch's head, on the workspace."""
    epochs: Count
    accuracy_by_position: list[float] = []
    """Teacher-forced, on the trainer's own validation part."""
    loss: float | None = None
    start: Message = ""
    """What was taken from the head that the training started from; empty for random weights."""


class EvaluateResult(ApiModel):
    """Acceptance in the real engine."""

    stage: Literal["Evaluate"] = "Evaluate"
    acceptance_length: Measured
    """1 + accepted tokens / drafts."""
    acceptance_by_position: Annotated[list[Measured], pydantic.Field(max_length=16)]
    drafts: Count
    accepted_tokens: Count
    prompts: Count
    speculative_tokens: Count


class PublishResult(ApiModel):
    """Where the head lies now."""

    stage: Literal["Publish"] = "Publish"
    path: PodPath
    manifest_digest: Digest


AnyStageResult = Annotated[
    InspectResult | PrepareResult | ExtractResult | TrainResult | EvaluateResult | PublishResult,
    pydantic.Field(discriminator="stage"),
]


class StageReport(ApiModel):
    """The termination message: a result, or what went wrong and what to change."""

    result: AnyStageResult | None = None
    error: Message = ""
    permanent: bool = False


class LiveProgress(ApiModel):
    """Answer of ``GET /progress``."""

    stage: ShortText
    percent: Annotated[int, pydantic.Field(ge=0, le=100)] = 0
    eta_s: int | None = None
    message: Message = ""
    paused: bool = False
    """Whether a probe leaves a server to its users, who wait too long for their first tokens."""


PublishConfig.model_rebuild()
