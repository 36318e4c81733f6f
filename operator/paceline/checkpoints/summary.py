"""An inspection as status tells it: what ``kubectl describe`` shows."""

from paceline.api.checkpoint import CheckpointStatus, HeadCheckpoint, TargetCheckpoint
from paceline.checkpoints import decision, parallelism, support
from paceline.checkpoints.inspection import Inspection

_PROBLEM_LIMIT = 32


def summarise(found: Inspection, *, estimate: str = "") -> CheckpointStatus:
    """Return what a person wants to know of a target, and of a head where there is one."""
    target = found.target
    return CheckpointStatus(
        backbone=_backbone(target)[:1024],
        mtp=_mtp(found)[:1024],
        decision=found.decision.word or "",
        choice=found.decision.choice.value,
        reasons=[reason[:1024] for reason in found.decision.reasons[:4]],
        head=_head(found.head)[:1024] if found.head else "",
        tensor_parallel_sizes=parallelism.allowed(target) or [],
        hidden_state_bytes_per_token=found.hidden_state_bytes_per_token,
        tokenizer_fingerprint=target.tokenizer_fingerprint,
        estimate=estimate[:1024],
        problems=list(found.problems[:_PROBLEM_LIMIT]),
    )


def _backbone(target: TargetCheckpoint) -> str:
    place = f" in {target.text_path}" if target.text_path else ""
    words = [
        f"{target.text_model_type or 'unnamed'}{place}",
        f"{target.layers} layers" if target.layers else "",
        f"hidden size {target.hidden_size}" if target.hidden_size else "",
        f"vocabulary {target.vocabulary_size}" if target.vocabulary_size else "",
        f"{target.experts} experts" if target.experts else "",
        target.quantization,
    ]
    return ", ".join(filter(None, words))


def _mtp(found: Inspection) -> str:
    mtp = found.target.mtp
    maps = support.maps_mtp(found.serving.engine, support.family_named(mtp.family))
    usable = {True: "usable", False: "not usable", None: "not verified"}[
        decision.is_mtp_usable(found.target, found.serving)
    ]
    said = "declared" if mtp.declared else "not declared"
    return f"{usable}: {said} ({mtp.evidence}), weights {mtp.weights.value}, mapped by the engine: {maps.value}"


def _head(head: HeadCheckpoint) -> str:
    words = [
        head.head_type.value,
        head.architecture,
        f"reads layers {head.aux_layer_ids}" if head.aux_layer_ids else "",
        f"draft vocabulary {head.draft_vocabulary_size}" if head.draft_vocabulary_size else "",
        f"made for {head.verifier}" if head.verifier else "",
    ]
    return ", ".join(filter(None, words))
