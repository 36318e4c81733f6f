"""What a SpeculativeDeployment may speculate with: one method, and the fields that belong to it.

The names are those of the field; what an engine calls them, and since which version it has them, stands in
``engines.methods``.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

import pydantic

from paceline.api.base import ApiModel, Cel, ObjectName, Percent, list_field
from paceline.api.sources import DraftSource


class Method(StrEnum):
    """How tokens are drafted."""

    NONE = "None"
    AUTO = "Auto"  # what the files of target and head speak for
    EAGLE3 = "EAGLE3"
    NGRAM = "Ngram"  # looked up in the prompt
    NGRAM_GPU = "NgramGPU"  # the same, on the GPU
    SUFFIX = "Suffix"  # looked up in the prompt and in earlier answers
    EAGLE = "EAGLE"
    MTP = "MTP"  # the target's own multi-token prediction layers
    MEDUSA = "Medusa"
    MLP_SPECULATOR = "MLPSpeculator"
    DRAFT_MODEL = "DraftModel"  # a small model with the target's vocabulary
    DFLASH = "DFlash"  # a block at once, by diffusion
    DSPARK = "DSpark"


DRAFTLESS: Final = (Method.NONE, Method.NGRAM, Method.NGRAM_GPU, Method.SUFFIX)
"""Methods that read no draft's weights."""
NEEDS_DRAFT: Final = (Method.EAGLE, Method.MEDUSA, Method.MLP_SPECULATOR, Method.DRAFT_MODEL, Method.DFLASH)
"""Methods whose draft is never in the target's checkpoint, as it may be for MTP and DSpark; EAGLE3 may be trained."""
ONE_LENGTH: Final = (Method.NONE, Method.NGRAM_GPU, Method.SUFFIX, Method.MEDUSA, Method.MLP_SPECULATOR)
"""Methods that draft by no schedule: vLLM's proposers assert that the length is the configured one."""


class TrainingJobRef(ApiModel):
    """A DraftTrainingJob in the same namespace, resolved once: to its output's URI and manifest digest."""

    name: ObjectName


class NgramSpec(ApiModel):
    """Prompt look-up."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(rule="self.minTokens <= self.maxTokens", message="ngram.minTokens must not exceed ngram.maxTokens"),
    )

    min_tokens: Annotated[int, pydantic.Field(ge=1, le=32)] = 2
    max_tokens: Annotated[int, pydantic.Field(ge=1, le=32)] = 5


class SuffixSpec(ApiModel):
    """Look-up in a tree of suffixes. Needs the package arctic-inference in the engine's image."""

    max_tree_depth: Annotated[int, pydantic.Field(ge=1, le=256)] = 24
    """Bounds the sum of a match's length and what is drafted after it."""
    max_cached_requests: Annotated[int, pydantic.Field(ge=0, le=10_000_000)] = 10_000
    """Answers that are remembered; 0 looks only into the prompt at hand."""
    max_factor_percent: Annotated[int, pydantic.Field(ge=1, le=1000)] = 100
    """Tokens drafted, in percent of the length of the match."""
    min_probability_percent: Percent = 10
    """Rarer continuations are not drafted."""


class ScheduleStep(ApiModel):
    """How far ahead is drafted up to one concurrency."""

    up_to_concurrency: Annotated[int, pydantic.Field(ge=1, le=65536)]
    """Requests in flight; a step begins where the one below it ends, the first one at 1."""
    tokens: Annotated[int, pydantic.Field(ge=0, le=32)]
    """Zero drafts nothing. The draft still follows along, so this costs more than method None."""


def _cel(methods: tuple[Method, ...]) -> str:
    return "[" + ", ".join(f"'{method.value}'" for method in methods) + "]"


class SpeculationSpec(ApiModel):
    """What drafts, and how far ahead."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            rule="self.method != 'EAGLE3' || (has(self.draft) != has(self.trainingJobRef))",
            message="method EAGLE3 needs exactly one of draft and trainingJobRef",
        ),
        Cel(
            rule="self.method in ['EAGLE3', 'Auto'] || !has(self.trainingJobRef)",
            message="trainingJobRef belongs to method EAGLE3, for which a DraftTrainingJob trains; remove it or set "
            "method: EAGLE3",
        ),
        Cel(
            rule="self.method != 'Auto' || !has(self.draft) || !has(self.trainingJobRef)",
            message="method Auto takes one of draft and trainingJobRef, or none; remove one",
        ),
        Cel(
            rule="self.method != 'Auto' || !has(self.schedule)",
            message="schedule belongs to a method that is named, since not all have one; remove it, or set the method "
            "that status.speculation shows",
        ),
        Cel(
            rule=f"!(self.method in {_cel(NEEDS_DRAFT)}) || has(self.draft)",
            message="methods EAGLE, Medusa, MLPSpeculator, DraftModel and DFlash need draft; set draft.uri to the "
            "draft's checkpoint",
        ),
        Cel(
            rule=f"!has(self.draft) || !(self.method in {_cel(DRAFTLESS)})",
            message="methods None, Ngram, NgramGPU and Suffix read no draft; remove draft, or set the method that the "
            "draft was trained for",
        ),
        Cel(
            rule="self.method in ['Ngram', 'NgramGPU'] || !has(self.ngram)",
            message="ngram belongs to methods Ngram and NgramGPU; remove it or set method: Ngram",
        ),
        Cel(
            rule="self.method == 'Suffix' || !has(self.suffix)",
            message="suffix belongs to method Suffix; remove it or set method: Suffix",
        ),
        Cel(
            rule="self.method == 'DraftModel' || !has(self.draftTensorParallelSize)",
            message="draftTensorParallelSize belongs to method DraftModel: a head is always split as the target is; "
            "remove it",
        ),
        Cel(
            rule=f"!has(self.schedule) || !(self.method in {_cel(ONE_LENGTH)})",
            message="methods None, NgramGPU, Suffix, Medusa and MLPSpeculator have one length; remove schedule",
        ),
        Cel(
            rule="!has(self.schedule) || self.schedule.all(s, s.tokens <= self.numSpeculativeTokens)",
            message="no step of schedule may draft more than numSpeculativeTokens, for which the engine makes room; "
            "raise it",
        ),
        Cel(
            rule="!has(self.schedule) || self.schedule.exists(s, s.tokens > 0)",
            message="a schedule that never drafts still costs; set method: None instead",
        ),
    )

    method: Method = Method.NONE
    draft: DraftSource | None = None
    training_job_ref: TrainingJobRef | None = None
    ngram: NgramSpec | None = None
    suffix: SuffixSpec | None = None
    num_speculative_tokens: Annotated[int, pydantic.Field(ge=1, le=32)] = 3
    """Tokens drafted in a step; the most that a schedule or method Suffix may draft."""
    schedule: Annotated[list[ScheduleStep], list_field(max_items=16, min_items=1, keys=("upToConcurrency",))] | None = (
        None
    )
    """Tokens by requests in flight; beyond the last step its length stays."""
    draft_tensor_parallel_size: Annotated[int, pydantic.Field(ge=1, le=64)] | None = None
    """Over how many GPUs a draft model is split: 1, or as the target. Left out, as the target."""
