"""Which layers' hidden states a head reads, and how the two conventions of numbering them differ.

vLLM and speculators number a state by the layer that takes it in; SGLang and SpecForge by the layer that puts it out,
one less for the same tensor. Nothing in a file says which one its producer meant, and published templates hold both, so
ids are never shifted here: they are compared with both defaults and reported.
"""

from collections.abc import Sequence
from typing import Final

from paceline.api.checkpoint import HeadCheckpoint, HeadType, LayerConvention, Problem, TargetCheckpoint
from paceline.checkpoints import problems

STATE_BYTES: Final = 2
"""Hidden states are kept as bfloat16."""
_NEAR: Final = 3
READS_LAYERS: Final = frozenset(
    {HeadType.EAGLE3, HeadType.EAGLE3_MLA, HeadType.EAGLE3_SPECULATORS, HeadType.PEAGLE, HeadType.EAGLE1}
)


def default(layers: int) -> list[int]:
    """Return EAGLE-3's low, middle and high layer, by the input they take: 2, the middle, and the last but two.

    Source: vLLM's ``get_eagle3_default_aux_hidden_state_layers``. Models too shallow for three are read where they can.
    """
    return sorted({min(2, layers - 1), layers // 2, max(0, layers - 3)})


def bytes_per_token(hidden_size: int | None, auxiliary: int) -> int | None:
    """Return the size of one token's extracted states: the auxiliary layers' and the last one."""
    return None if hidden_size is None else (auxiliary + 1) * hidden_size * STATE_BYTES


def convention(ids: Sequence[int], *, layers: int, speculators: bool) -> LayerConvention:
    """Return what the ids count, as far as their producer or their values tell."""
    if speculators or list(ids) == default(layers):
        return LayerConvention.INPUT
    if list(ids) == [one - 1 for one in default(layers)]:
        return LayerConvention.OUTPUT
    return LayerConvention.UNKNOWN


def check_wanted(ids: Sequence[int], target: TargetCheckpoint) -> list[Problem]:
    """Return what is wrong with the layers that a new head is to read."""
    if target.layers is None:
        return []
    found = [one for one in ids if not 0 <= one < target.layers]
    if not found:
        return []
    return [
        problems.error(
            "AuxLayersOutOfRange",
            f"auxiliary layer {found[0]} does not exist: the target has inputs of layers 0 to {target.layers - 1} "
            f"(the output of the last one is always extracted as well); use {default(target.layers)}",
        )
    ]


def check(head: HeadCheckpoint, target: TargetCheckpoint) -> list[Problem]:
    """Return what a head's own ids say against this target."""
    ids, layers = head.aux_layer_ids, target.layers
    if head.head_type not in READS_LAYERS or layers is None or not ids:
        return []
    return _outside(ids, layers) or [*_order(ids), *_numbering(head, ids, layers), *_depth(head, ids, layers)]


def _outside(ids: Sequence[int], layers: int) -> list[Problem]:
    beyond = [one for one in ids if one > layers or one < 0]
    if beyond:
        return [
            problems.error(
                "HeadAuxLayersOutOfRange",
                f"the head reads layer {beyond[0]} and the target has {layers} layers, so it was made for another "
                "model; use a head that was trained for this target",
            )
        ]
    if layers in ids:
        return [
            problems.error(
                "HeadAuxLayerIsLast",
                f"the head reads layer {layers}, which engines do not hand out for a target of {layers} layers (ids "
                f"name a layer's input, 0 to {layers - 1}), so it would start with a tensor too few; "
                f"use a head that reads layers such as {default(layers)}",
            )
        ]
    return []


def _order(ids: Sequence[int]) -> list[Problem]:
    if list(ids) == sorted(set(ids)):
        return []
    return [
        problems.warning(
            "HeadAuxLayersUnordered",
            f"the head's auxiliary layers {list(ids)} are not in ascending order without repetition, and engines hand "
            "the states over in ascending order; check the producer's convention",
        )
    ]


def _numbering(head: HeadCheckpoint, ids: Sequence[int], layers: int) -> list[Problem]:
    if convention(ids, layers=layers, speculators=head.speculators) is not LayerConvention.OUTPUT:
        return []
    return [
        problems.warning(
            "HeadAuxLayerConvention",
            f"the head's auxiliary layers {list(ids)} are SGLang's default, which numbers a state by the layer that "
            f"puts it out; vLLM numbers it by the layer that takes it in and would read one layer too early. If that "
            f"is how the head was trained, write {[one + 1 for one in ids]} into its config.json for vLLM",
        )
    ]


def _depth(head: HeadCheckpoint, ids: Sequence[int], layers: int) -> list[Problem]:
    """Return a doubt when the last id lies far from the end, as of a head for a shallower model."""
    has_three = len(ids) >= len(default(layers))
    if head.target_layers is not None or not has_three or max(ids) >= layers - 3 - _NEAR:
        return []
    return [
        problems.warning(
            "HeadAuxLayersShallow",
            f"the head's last auxiliary layer is {max(ids)} where this target's usual one is {layers - 3}, as of a "
            f"head for a model of about {max(ids) + 3} layers; make sure that it was trained for this target",
        )
    ]
