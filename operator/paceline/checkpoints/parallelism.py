"""Over how many GPUs a model can be divided: tensor parallelism cuts by attention heads."""

from typing import Final

from paceline.api.checkpoint import HeadCheckpoint, Problem, TargetCheckpoint
from paceline.checkpoints import problems

NODE_GPUS: Final = 8
"""GPUs of the largest common node; wider groups are only listed when they are asked for."""

Model = TargetCheckpoint | HeadCheckpoint


def allowed(model: Model, *, at_most: int = NODE_GPUS) -> list[int] | None:
    """Return the tensor-parallel sizes that divide a model; None when its heads are not known."""
    if model.attention_heads is None:
        return None
    return [size for size in range(1, min(at_most, model.attention_heads) + 1) if _divides(model, size)]


def fits(model: Model, size: int) -> bool | None:
    """Return whether ``size`` GPUs can share a model; None when its heads are not known."""
    return None if model.attention_heads is None else _divides(model, size)


def _divides(model: Model, size: int) -> bool:
    """Query heads are split evenly; key and value heads are split, or whole ones repeated.

    Source: ``LlamaAttention`` and ``Qwen2Attention`` of vLLM 0.32.0, which assert both.
    """
    heads, kv_heads = model.attention_heads or 1, model.kv_heads
    if heads % size:
        return False
    if isinstance(model, TargetCheckpoint):
        if any(number % size for number in model.other_heads):
            return False
        if model.latent_attention:
            return True
    return kv_heads is None or kv_heads % size == 0 or size % kv_heads == 0


def check(target: TargetCheckpoint, size: int | None) -> list[Problem]:
    """Return what is wrong with a target at this size."""
    if size is None or size == 1:
        return []
    ok = fits(target, size)
    if ok is None:
        return [
            problems.warning(
                "HeadsUnknown",
                f"config.json does not tell the attention heads, so TP {size} is not checked; "
                "use the checkpoint's whole config.json",
            )
        ]
    if ok:
        return []
    return [
        problems.error(
            "TensorParallelSize",
            f"{_heads(target)} cannot be divided by TP {size}; "
            f"use TP {problems.listed(allowed(target, at_most=max(size, NODE_GPUS)) or [])}, "
            "and more replicas (data parallel) for the other GPUs",
        )
    ]


def check_head(head: HeadCheckpoint, size: int | None) -> list[Problem]:
    """Return what is wrong with a head at its target's size: the engine divides both alike."""
    if size is None or size == 1 or fits(head, size) is not False:
        return []
    return [
        problems.error(
            "HeadTensorParallelSize",
            f"the head's {_heads(head)} cannot be divided by TP {size}, at which the target runs; "
            f"use TP {problems.listed(allowed(head, at_most=max(size, NODE_GPUS)) or [])} or another head",
        )
    ]


def _heads(model: Model) -> str:
    said = f"{model.attention_heads} attention heads"
    if model.kv_heads not in {None, model.attention_heads}:
        said += f" ({model.kv_heads} of keys and values)"
    others = model.other_heads if isinstance(model, TargetCheckpoint) else []
    return f"{said} and {problems.listed(others)} heads of linear attention" if others else said
