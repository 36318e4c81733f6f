"""What to do about a target: draft with its own MTP, reuse a head, start from one, train one, or none of it."""

from dataclasses import dataclass
from enum import StrEnum

from paceline.api.checkpoint import HeadCheckpoint, Presence, Problem, TargetCheckpoint
from paceline.checkpoints import fit, parallelism, problems, support
from paceline.checkpoints.support import Support


class Choice(StrEnum):
    """The way to draft."""

    NATIVE_MTP = "native-mtp"
    REUSE_HEAD = "reuse-head"
    WARM_START = "warm-start"
    TRAIN = "train"
    NGRAM_ONLY = "ngram-only"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do, and why."""

    word: str | None
    """``use-native-mtp``, ``train-or-reuse-eagle3``, ``verify-then-decide`` or ``reject-at-tpN``; or None."""
    choice: Choice
    reasons: tuple[str, ...]


def is_mtp_usable(target: TargetCheckpoint, serving: fit.Serving) -> bool | None:
    """Return whether a target drafts for itself: declared, weights there, and mapped by the engine; None if unknown."""
    mtp = target.mtp
    maps = support.maps_mtp(serving.engine, support.family_named(mtp.family))
    if not mtp.declared or mtp.weights is Presence.ABSENT or maps is Support.NO:
        return False
    return True if mtp.weights is Presence.PRESENT and maps is Support.YES else None


def decide(
    target: TargetCheckpoint,
    serving: fit.Serving,
    *,
    head: HeadCheckpoint | None = None,
    head_problems: tuple[Problem, ...] = (),
) -> Decision:
    """Return what to do about a target.

    Args:
        target: the target.
        serving: engine and parallelism.
        head: one that is at hand, if any.
        head_problems: all that stands against it.
    """
    if target.layers is None:
        return Decision(word=None, choice=Choice.NOTHING, reasons=("There is no target to draft for.",))
    size = serving.tensor_parallel_size
    if size is not None and parallelism.fits(target, size) is False:
        sizes = problems.listed(parallelism.allowed(target) or [])
        reason = f"The target does not run at TP {size}; its heads divide by {sizes}."
        return Decision(word=f"reject-at-tp{size}", choice=Choice.NOTHING, reasons=(reason,))
    usable = is_mtp_usable(target, serving)
    if usable is not False:
        return _native(target, is_certain=usable is True)
    return _drafted(target, serving, head=head, head_problems=head_problems)


def _native(target: TargetCheckpoint, *, is_certain: bool) -> Decision:
    mtp = target.mtp
    family = support.family_named(mtp.family)
    doubt = family.verify if family and mtp.weights is Presence.UNKNOWN else ""
    declared = f"The target declares MTP ({mtp.evidence})"
    if doubt:
        reason = f"{declared}, but {doubt}; look for its weights in the index before counting on it."
        return Decision(word="verify-then-decide", choice=Choice.NATIVE_MTP, reasons=(reason,))
    seen = "its weights are there and the engine maps it" if is_certain else "verify its weights and the engine first"
    return Decision(
        word="use-native-mtp",
        choice=Choice.NATIVE_MTP,
        reasons=(f"{declared}; {seen}.", "No draft head is needed: use method MTP."),
    )


def _drafted(
    target: TargetCheckpoint,
    serving: fit.Serving,
    *,
    head: HeadCheckpoint | None,
    head_problems: tuple[Problem, ...],
) -> Decision:
    """Return how a target without usable MTP is drafted for."""
    word, why = "train-or-reuse-eagle3", _why_not_native(target, serving)
    refused = [one for one in fit.check_eagle3(target, serving) if not problems.is_valid([one])]
    if refused:
        reason = f"{problems.sentence(refused[0].message)}; n-gram and suffix drafts need neither."
        return Decision(word=word, choice=Choice.NGRAM_ONLY, reasons=(why, reason))
    if head is None:
        return Decision(word=word, choice=Choice.TRAIN, reasons=(why, "No head was named: reuse one, or train one."))
    if not problems.is_valid(head_problems):
        reason = f"The head does not fit: {next(one.message for one in head_problems if not problems.is_valid([one]))}."
        return Decision(word=word, choice=Choice.TRAIN, reasons=(why, reason))
    if any(one.code in {"SiblingHead", "HeadOtherVerifier"} for one in head_problems):
        reason = "The head was made for a sibling: try it as a measured candidate, and start training from it."
        return Decision(word=word, choice=Choice.WARM_START, reasons=(why, reason))
    return Decision(word=word, choice=Choice.REUSE_HEAD, reasons=(why, "The head at hand fits: measure it."))


def _why_not_native(target: TargetCheckpoint, serving: fit.Serving) -> str:
    mtp = target.mtp
    if not mtp.declared:
        return f"The target declares no MTP ({mtp.evidence})."
    if mtp.weights is Presence.ABSENT:
        return f"The target declares MTP ({mtp.evidence}) and ships no weights for it."
    return f"The target declares MTP ({mtp.evidence}) and {serving.engine.title} has no class for it."
