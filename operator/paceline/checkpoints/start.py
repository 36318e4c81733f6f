"""Whether the training of a head can start from another head's weights.

Weights mean the same only where they read the same: hidden states of one width from the same layers, and tokens of one
tokenizer. A sibling's head meets that and is a warning; anything else is refused, with what to change.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from paceline.api.checkpoint import HeadCheckpoint, HeadType, LayerConvention, Problem, TargetCheckpoint
from paceline.checkpoints import fit, problems
from paceline.checkpoints import head as heads

_STARTS: Final = frozenset({HeadType.EAGLE3, HeadType.EAGLE3_SPECULATORS})
_WHERE: Final = "draft.startFrom"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The head that is to be trained."""

    layers: int
    auxiliary_layers: tuple[int, ...]
    """Layers whose inputs are extracted."""


def unreadable(why: str) -> Problem:
    """Return that a head's files are not what they should be."""
    return _named(problems.error("StartUnreadable", why.replace("the draft's uri", f"{_WHERE}.uri")))


def check(target: TargetCheckpoint, head: HeadCheckpoint, wanted: Wanted, *, target_name: str = "") -> list[Problem]:
    """Return all that stands against starting from ``head``, and doubts, each naming the field."""
    if head.head_type not in _STARTS:
        kind = problems.error(
            "StartOfOtherKind",
            f"the head is of type {head.head_type.value} and an EAGLE-3 head is trained, whose weights are others; "
            "name an EAGLE-3 head, or remove startFrom",
        )
        return [_named(one) for one in (*head.problems, kind)]
    found = [*head.problems, *fit.check_kinship(target, head, target_name=target_name)]
    return [_named(one) for one in (*found, *_layers(target, head, wanted), *_compressed(head))]


def _layers(target: TargetCheckpoint, head: HeadCheckpoint, wanted: Wanted) -> Iterator[Problem]:
    if head.layers is not None and head.layers != wanted.layers:
        yield problems.error(
            "StartLayersMismatch",
            f"the head has {head.layers} layers and draft.layers is {wanted.layers}; set draft.layers to {head.layers}",
        )
    ids, extracted = head.aux_layer_ids, list(wanted.auxiliary_layers)
    if not ids:
        yield problems.warning(
            "StartReadsUnknownLayers",
            f"the head's files do not say which layers it reads; it is taken to read {extracted}, as this run does. "
            "Set draft.auxiliaryLayers to those that it was trained with",
        )
        return
    # The same tensors under the other convention's numbers; fit warns of it, and only people know which one was meant.
    shifted = heads.convention(head, target.layers) is LayerConvention.OUTPUT and [one + 1 for one in ids] == extracted
    if ids != extracted and not shifted:
        yield problems.error(
            "StartAuxLayersMismatch",
            f"the head reads layers {ids} and this run extracts {extracted}, so its first matrix would be given other "
            f"states; set draft.auxiliaryLayers to {ids}",
        )


def _compressed(head: HeadCheckpoint) -> Iterator[Problem]:
    if head.quantization:
        yield problems.error(
            "StartQuantized",
            f"the head's weights are quantised ({head.quantization}) and cannot be trained on; name the head before it "
            "was quantised",
        )


def _named(problem: Problem) -> Problem:
    return problem.model_copy(update={"message": f"in {_WHERE}, {problem.message}"[:1024]})
