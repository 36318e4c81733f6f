"""What training a head will need, before anything is spent: upper bounds in bytes, GPUs and hours.

They are rough on purpose and say what they assume; what they refuse would be refused by the volume hours later.
"""

import re
from dataclasses import dataclass
from typing import Final

from paceline.api.checkpoint import Problem, TargetCheckpoint
from paceline.checkpoints import auxiliary, parallelism, problems

_UNITS: Final = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip
_GPU_BYTES: Final = 80 * 2**30
"""Memory of the GPU that estimates are made for."""
_WEIGHTS_SHARE: Final = 0.8
"""Share of it that weights may take; the rest is for the KV cache and graphs."""
_FLOP_PER_S: Final = 2e14
"""Sustained prefill arithmetic of one such GPU: a fifth of an H100's peak at 16 bit."""
_WRITE_BYTES_PER_S: Final = 5e8
"""What a network volume takes, steadily."""
_GIB: Final = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What extraction needs."""

    tokens: int
    hidden_bytes: int
    """Size of the hidden states on the workspace."""
    gpus: int | None
    """GPUs of one node that hold the target; None when its size or heads are not known."""
    seconds: int
    """Rough time of extraction: the slower of arithmetic and writing."""


def parse_quantity(text: str) -> int:
    """Return the bytes of a Kubernetes quantity such as ``10Ti``.

    Raises:
        ValueError: when it is none.
    """
    found = re.fullmatch(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?([kMGTPE]i?|Ki)?", text)
    if found is None:
        raise ValueError(f"{text!r} is no size; write it like 500Gi or 10Ti")
    unit = _UNITS[found[3] or ""]
    fraction = found[2] or ""
    return int(found[1]) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)


def extraction(target: TargetCheckpoint, *, tokens: int, aux_layers: int, gpus: int | None = None) -> Estimate | None:
    """Return what extracting ``tokens`` needs; None when the target's width is not known.

    Args:
        target: the target.
        tokens: of all training samples together.
        aux_layers: how many the head reads.
        gpus: over how many the target is divided, if that is settled.
    """
    each = auxiliary.bytes_per_token(target.hidden_size, aux_layers)
    if each is None:
        return None
    gpus = gpus or gpus_needed(target)
    hidden = tokens * each
    arithmetic = 2 * _active_parameters(target) * tokens / (_FLOP_PER_S * (gpus or 1))
    return Estimate(
        tokens=tokens, hidden_bytes=hidden, gpus=gpus, seconds=round(max(arithmetic, hidden / _WRITE_BYTES_PER_S))
    )


def gpus_needed(target: TargetCheckpoint) -> int | None:
    """Return the fewest GPUs of one node that hold the weights at an allowed size; None when that is not known."""
    sizes = parallelism.allowed(target)
    if sizes is None or target.weights_bytes is None:
        return None
    return next((size for size in sizes if target.weights_bytes <= size * _GPU_BYTES * _WEIGHTS_SHARE), None)


def _active_parameters(target: TargetCheckpoint) -> float:
    """Return parameters that work on one token, roughly: by width and depth, experts by how many are chosen.

    A layer of a dense model has about 12 x hidden^2 parameters; one of a mixture uses about as many for each token.
    """
    return 12.0 * (target.hidden_size or 0) ** 2 * (target.layers or 0)


def check_volume(hidden_bytes: int, volume_bytes: int, *, what: str = "the workspace volume") -> list[Problem]:
    """Return that hidden states do not fit a volume."""
    if hidden_bytes <= volume_bytes:
        return []
    return [
        problems.error(
            "WorkspaceTooSmall",
            f"the hidden states need up to {in_words(hidden_bytes)} and {what} has {in_words(volume_bytes)}; lower "
            "data.prompts.maxSamples or data.sequenceLength, or use a larger volume (online extraction, which stores "
            "none, is not offered)",
        )
    ]


def in_words(size: int) -> str:
    """Return bytes as people read them."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"
