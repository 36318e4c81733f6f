"""Ends a rollout without a promotion: what is written, and what goes on serving."""

from collections.abc import Sequence
from dataclasses import replace

from paceline.api import names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Decision
from paceline.api.speculativedeployment import OnInconclusive
from paceline.rollout import halts
from paceline.rollout.documents import claims, records
from paceline.rollout.places import copies
from paceline.rollout.steps import Case, Step


def reject(case: Case, reason: RolloutReason, message: str, *, handled: Sequence[str] = ()) -> Step:
    """Return the decision against the candidate: stable serves on, and the digest is remembered."""
    text = f"Candidate {names.short(case.record.candidate)} is rolled back: {message}"
    return _decide(case, Decision.REJECTED, reason, text, serving=case.seen.history.stable, handled=handled)


def abort(case: Case, reason: RolloutReason, message: str, *, handled: Sequence[str] = ()) -> Step:
    """Return the end of a rollout that says nothing of its candidate: it may be tried again."""
    return _decide(case, Decision.ABORTED, reason, message, serving=case.seen.history.stable, handled=handled)


def replace_stable(case: Case, reason: RolloutReason, message: str) -> Step:
    """Return the decision that takes stable out: the record's control serves from now on."""
    rolls = case.record.seating in claims.IN_STABLES_PLACE and case.seen.owner.spec.replicas > 1
    decided = _decide(case, Decision.REJECTED, reason, message, serving=case.record.control)
    record = decided.record.model_copy(update={"rolls": rolls}) if decided.record else None
    return replace(decided, record=record)


def inconclusive(case: Case, message: str, *, reason: RolloutReason = RolloutReason.INCONCLUSIVE) -> Step:
    """Return what the spec says to do with a candidate that could not be judged."""
    if case.seen.owner.spec.rollout.on_inconclusive is OnInconclusive.HOLD:
        return _held(case, message)
    return reject(case, reason, f"it could not be judged. {message}")


def _held(case: Case, message: str) -> Step:
    """Return the wait for a person, which keeps GPUs and so has an end."""
    short = names.short(case.record.candidate)
    if halts.is_over(case):
        over = f"it could not be judged, and nobody decided within rollout.deadlines.held. {message}"
        return reject(case, RolloutReason.HELD_DEADLINE_EXCEEDED, over)
    todo = f"annotate paceline.dev/promote: {short} or paceline.dev/abort: {short}."
    return Step(
        reason=RolloutReason.HELD,
        message=f"Candidate {short} could not be judged: {message} It is held; {todo}",
        progressing=False,
        record=halts.begun(case) or copies.freed(case),
        look_again_s=halts.left_s(case),
    )


def _decide(
    case: Case,
    decision: Decision,
    reason: RolloutReason,
    message: str,
    *,
    serving: str,
    handled: Sequence[str] = (),
) -> Step:
    record = records.decide(case.record, decision, serving=serving, reason=reason.value, message=message, now=case.now)
    record = record.model_copy(update={"handled": [*record.handled, *handled]})
    return Step(reason=reason, message=record.message, progressing=False, record=record)
