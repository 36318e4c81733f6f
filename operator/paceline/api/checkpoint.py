"""What a checkpoint's files say, and what is wrong with it: read in a pod, judged by the control plane and the CLI.

Facts are optional wherever a file may leave them out: a size that no file tells is None, never a guess.
"""

from enum import StrEnum
from typing import Annotated

import pydantic

from paceline.api.base import ApiModel, Digest, Message, ShortText, list_field, text

# No model comes near these. What exceeds them is a broken file, and its product would not fit Kubernetes' integers.
Layers = Annotated[int, pydantic.Field(ge=1, le=10_000)]
Width = Annotated[int, pydantic.Field(ge=1, le=1_048_576)]
Vocabulary = Annotated[int, pydantic.Field(ge=1, le=16_777_216)]
Tokens = Annotated[int, pydantic.Field(ge=1, le=1_000_000_000)]
Bytes = Annotated[int, pydantic.Field(ge=0, le=2**53)]
Code = Annotated[str, text(max_length=64, pattern=r"^[A-Z][A-Za-z0-9]*$")]
LayerIds = Annotated[list[Annotated[int, pydantic.Field(ge=-10_000, le=10_000)]], list_field(max_items=64)]
Words = Annotated[list[ShortText], list_field(max_items=16)]


class Severity(StrEnum):
    """Whether a finding forbids."""

    ERROR = "error"
    WARNING = "warning"


class Problem(ApiModel):
    """One finding, with what to change."""

    code: Code
    severity: Severity
    message: Message


class Presence(StrEnum):
    """Whether tensors are in a checkpoint; unknown where no weight index was read."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class MtpFacts(ApiModel):
    """A target's own multi-token-prediction layers."""

    declared: bool = False
    evidence: Message = ""
    """Where the configuration declares them or does not, such as ``text_config.num_nextn_predict_layers = 0``."""
    family: ShortText = ""
    """Row of the support table by which engines map them; empty for a model type that no row knows."""
    modules: Annotated[int, pydantic.Field(ge=0, le=10_000)] = 0
    """How many the configuration declares."""
    weights: Presence = Presence.UNKNOWN
    complete_modules: Annotated[int, pydantic.Field(ge=0, le=10_000)] = 0
    """How many have all the tensors that one needs."""


class TargetCheckpoint(ApiModel):
    """A target."""

    digest: Digest | None = None
    """What tells it from any other target, where that was read."""
    architectures: Words = []
    model_type: ShortText = ""
    text_path: ShortText = ""
    """Dotted path of the text model inside ``config.json``; empty when it is the document itself."""
    text_model_type: ShortText = ""
    text_architectures: Words = []
    hidden_size: Width | None = None
    layers: Layers | None = None
    vocabulary_size: Vocabulary | None = None
    attention_heads: Width | None = None
    kv_heads: Width | None = None
    head_dim: Width | None = None
    latent_attention: bool = False
    """Multi-head latent attention: the cache has no heads to divide among GPUs."""
    other_heads: Annotated[list[Width], list_field(max_items=8)] = []
    """Heads of linear attention, which are divided among GPUs as well."""
    window: Tokens | None = None
    """Longest sequence, in tokens."""
    experts: Width | None = None
    experts_per_token: Width | None = None
    tied_embeddings: bool = False
    quantization: ShortText = ""
    remote_code: bool = False
    """Whether the configuration asks for code from the repository."""
    weights_bytes: Bytes | None = None
    mtp: MtpFacts = MtpFacts()
    tokenizer_fingerprint: Digest | None = None
    problems: Annotated[list[Problem], list_field(max_items=16)] = []
    """What is wrong with the files by themselves."""


class HeadType(StrEnum):
    """How a draft is built, in the words of the field."""

    EAGLE3 = "eagle3"
    EAGLE3_MLA = "eagle3-mla"
    EAGLE3_SPECULATORS = "eagle3-speculators"
    EAGLE1 = "eagle1"
    PEAGLE = "peagle"
    DFLASH = "dflash"
    DSPARK = "dspark"
    MEDUSA = "medusa"
    MLP_SPECULATOR = "mlp_speculator"
    MTP = "mtp"
    DRAFT_MODEL = "draft_model"
    UNKNOWN = "unknown"


class LayerConvention(StrEnum):
    """What an auxiliary layer's number counts."""

    INPUT = "input"  # vLLM, speculators: id i is the input of layer i
    OUTPUT = "output"  # SGLang, SpecForge: id i is the output of layer i, which is the input of layer i + 1
    UNKNOWN = "unknown"


class HeadCheckpoint(ApiModel):
    """A draft head."""

    head_type: HeadType = HeadType.UNKNOWN
    architecture: ShortText = ""
    model_type: ShortText = ""
    hidden_size: Width | None = None
    target_hidden_size: Width | None = None
    """Size of the hidden states it reads."""
    vocabulary_size: Vocabulary | None = None
    draft_vocabulary_size: Vocabulary | None = None
    layers: Layers | None = None
    attention_heads: Width | None = None
    kv_heads: Width | None = None
    window: Tokens | None = None
    aux_layer_ids: LayerIds | None = None
    """As written; None where no file names them, in which case the engine takes its own default."""
    speculators: bool = False
    """Whether the configuration is of the speculators format."""
    target_layers: Layers | None = None
    """Depth of the target it was made for, where it says so."""
    target_model_type: ShortText = ""
    verifier: ShortText = ""
    """Name or path of the target it was made for, where it says so."""
    verifier_architectures: Words = []
    speculative_tokens: Tokens | None = None
    weights: Presence = Presence.UNKNOWN
    quantized_lm_head: bool = False
    quantization: ShortText = ""
    tokenizer_fingerprint: Digest | None = None
    """Of the target it was trained for, where its manifest says so."""
    trained_for: Digest | None = None
    """Digest of that target, likewise."""
    problems: Annotated[list[Problem], list_field(max_items=16)] = []


class CheckpointStatus(ApiModel):
    """What the target's files say about drafting for it, judged for the spec's engine and parallelism."""

    backbone: Message = ""
    """The language model: type, depth, width and vocabulary."""
    mtp: Message = ""
    """Whether the target can draft for itself: declared where, weights there or not, mapped by the engine or not."""
    decision: ShortText = ""
    """``use-native-mtp``, ``train-or-reuse-eagle3``, ``verify-then-decide`` or ``reject-at-tpN``."""
    choice: ShortText = ""
    """``native-mtp``, ``reuse-head``, ``warm-start``, ``train``, ``ngram-only`` or ``nothing``."""
    reasons: Annotated[list[Message], list_field(max_items=4)] = []
    head: Message = ""
    """The draft head: kind, layers it reads, and vocabulary."""
    tensor_parallel_sizes: Annotated[list[Annotated[int, pydantic.Field(ge=1)]], list_field(max_items=16)] = []
    """Over how many GPUs of a node of eight the target divides."""
    hidden_state_bytes_per_token: Bytes | None = None
    tokenizer_fingerprint: Digest | None = None
    estimate: Message = ""
    """What extraction will need at most."""
    problems: Annotated[list[Problem], list_field(max_items=32)] = []
