"""A head's tensors against its configuration: what is missing stops the engine, or makes it draft nonsense."""

from collections.abc import Mapping
from typing import Final

from paceline.api.checkpoint import HeadCheckpoint, HeadType, Problem
from paceline.checkpoints import problems
from paceline.checkpoints.weights import Weights

_EAGLE3: Final = frozenset({HeadType.EAGLE3, HeadType.EAGLE3_MLA, HeadType.EAGLE3_SPECULATORS, HeadType.PEAGLE})
_DECODERS: Final = ("midlayer.", "layers.")
_DEFAULT_AUX: Final = 3
"""Layers that an EAGLE-3 head reads when its configuration names none."""


def is_lm_head_quantized(weights: Weights) -> bool:
    """Whether the output matrix is packed."""
    names = _plain(weights)
    return "lm_head.weight" not in names and any(name.startswith("lm_head.weight_") for name in names)


def has_joint(weights: Weights) -> bool:
    """Whether a matrix joins embedding and hidden state, which a head has and a small language model has not."""
    return any(name.startswith("fc.") for name in _plain(weights))


def check(head: HeadCheckpoint, weights: Weights, *, flags: Mapping[str, bool]) -> list[Problem]:
    """Return what a head's tensors lack or have too much.

    Args:
        head: its configuration.
        weights: its tensors.
        flags: norms that the configuration says it has: ``norm_before_fc``, ``fc_norm``.
    """
    names = _plain(weights)
    if not names or head.head_type not in {*_EAGLE3, HeadType.EAGLE1}:
        return []
    return [*_missing(head, names), *_norms(names, flags), *_shapes(head, weights)]


def _plain(weights: Weights) -> frozenset[str]:
    """Return the names without the prefix that some layouts put before all of them."""
    return frozenset(name.removeprefix("model.") for name in weights.names)


def _missing(head: HeadCheckpoint, names: frozenset[str]) -> list[Problem]:
    reads_last_only = head.head_type is HeadType.EAGLE1 and "eagle3" in head.architecture.lower()
    wanted = {
        "fc": reads_last_only or any(name.startswith("fc.") for name in names),
        "a decoder layer": any(name.startswith(_DECODERS) for name in names),
    }
    if head.head_type in _EAGLE3 and _is_reduced(head):
        wanted["lm_head"] = any(name.startswith("lm_head.") for name in names)
        wanted["d2t"] = "d2t" in names
    lacking = [name for name, is_there in wanted.items() if not is_there]
    if not lacking:
        return []
    return [
        problems.error(
            "HeadWeightsMissing",
            f"the head's weights lack {problems.listed(lacking)}, so it cannot draft; copy the whole head, or publish "
            "it again",
        )
    ]


def _is_reduced(head: HeadCheckpoint) -> bool:
    """Whether the head drafts from a vocabulary of its own, which needs a map to the target's."""
    draft, whole = head.draft_vocabulary_size, head.vocabulary_size
    return draft is not None and draft != whole


def _norms(names: frozenset[str], flags: Mapping[str, bool]) -> list[Problem]:
    found = []
    for flag, tensor in (("norm_before_fc", "input_norm."), ("fc_norm", "fc_norm.")):
        has = any(name.startswith(tensor) for name in names)
        if flags[flag] and not has:
            found.append(
                problems.error(
                    "HeadNormMissing",
                    f"the head's config.json sets {flag} and its weights have no {tensor}weight, which a conversion "
                    "may have dropped; convert the head again, or train it anew",
                )
            )
        elif has and not flags[flag]:
            found.append(
                problems.warning(
                    "HeadNormIgnored",
                    f"the head's weights have {tensor}weight and its config.json does not set {flag}, so an engine "
                    "leaves that norm out; set it if the head was trained with it",
                )
            )
    return found


def _shapes(head: HeadCheckpoint, weights: Weights) -> list[Problem]:
    """Return where a tensor's size contradicts the configuration, as far as headers were read."""
    shapes = {name.removeprefix("model."): shape for name, shape in weights.shapes.items()}
    aux = len(head.aux_layer_ids) if head.aux_layer_ids else _DEFAULT_AUX
    wide = head.target_hidden_size * aux if head.target_hidden_size else None
    rows = head.draft_vocabulary_size or head.vocabulary_size
    expected = {"d2t": (0, head.draft_vocabulary_size), "t2d": (0, head.vocabulary_size), "lm_head.weight": (0, rows)}
    if head.head_type in _EAGLE3:
        expected["fc.weight"] = (1, wide)
    found = []
    for name, (side, size) in expected.items():
        shape = shapes.get(name)
        if shape is not None and size is not None and len(shape) > side and shape[side] != size:
            found.append(
                problems.error(
                    "HeadShapeMismatch",
                    f"the head's {name} has size {shape[side]} where its config.json promises {size}; "
                    "config.json and weights are of two heads, copy or publish it again",
                )
            )
    return found
