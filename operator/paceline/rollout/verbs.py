"""What people ask for by annotation: promote, abort, retry, undo, pause.

The value names a revision's short hash, so that a manifest that is applied again never acts on the next candidate. What
was acted on is kept in the record. To ask for the same again, write ``<hash>-2``, ``<hash>-3`` and so on.
"""

from dataclasses import replace
from typing import Final

from paceline.api import names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Purpose, RolloutRecord
from paceline.planning import conditions
from paceline.rollout import halts, rollback, steps
from paceline.rollout.places import seats
from paceline.rollout.steps import Case, Step
from paceline.rollout.view import observe, readiness

_ANNOTATIONS: Final = {
    "promote": names.ANNOTATION_PROMOTE,
    "abort": names.ANNOTATION_ABORT,
    "retry": names.ANNOTATION_RETRY,
    "undo": names.ANNOTATION_UNDO,
    "pause": names.ANNOTATION_PAUSE,
}


def asked(seen: observe.Observed, verb: str, digest: str) -> str:
    """Return ``verb=value`` when an annotation asks this of the revision and it was not done yet; else empty."""
    value = seen.annotations.get(_ANNOTATIONS[verb], "")
    if not digest or value.partition("-")[0] != names.short(digest):
        return ""
    token = f"{verb}={value}"[:256]
    return "" if seen.history.handled(token) else token


def remembering(seen: observe.Observed, step: Step) -> Step:
    """Return ``step`` whose record, if it opens a rollout, keeps what was done of what the annotations still ask for.

    Else a verb would be done again once the history's limit has taken the record that acted on it.
    """
    record = step.record
    if record is None or any(one.record.number == record.number for one in seen.history.stored):
        return step
    values = {verb: seen.annotations.get(name, "") for verb, name in _ANNOTATIONS.items()}
    tokens = [f"{verb}={value}"[:256] for verb, value in sorted(values.items()) if value]
    done = [token for token in tokens if seen.history.handled(token)]
    return replace(step, record=record.model_copy(update={"remembered": done})) if done else step


def abort(case: Case) -> Step | None:
    """Return the end of a rollout that a person calls off; the very first one has nothing to go back to."""
    token = asked(case.seen, "abort", case.record.candidate)
    if not token or not case.seen.history.stable:
        return None
    return rollback.abort(case, RolloutReason.ABORTED, "Called off by annotation paceline.dev/abort.", handled=[token])


def pause(case: Case) -> Step | None:
    """Return the step of a paused rollout, and of one that goes on again; None when nobody asked."""
    record, short = case.record, names.short(case.record.candidate)
    token = asked(case.seen, "pause", record.candidate)
    if token:
        return _paused(case, token)
    if record.paused:
        resumed = {"paused": False, "halted_since": None, "waiting_since": conditions.timestamp(case.now)}
        return Step(
            reason=RolloutReason.LOADING,
            message=f"Candidate {short} goes on after a pause.",
            record=record.model_copy(update=resumed),
        )
    return None


def _paused(case: Case, token: str) -> Step:
    """Return the pause, which ends when it has kept GPUs for too long; a first baseline keeps none from anybody.

    Once it has ended so, the annotation is done with: else it would pause the next rollout as well, and a head that the
    guard means to replace would stay for as long as nobody looks.
    """
    record, short = case.record, names.short(case.record.candidate)
    began = record.model_copy(
        update={"paused": True, "measuring_since": None, "halted_since": conditions.timestamp(case.now)}
    )
    bounded = bool(case.seen.history.stable)
    if record.paused and bounded and halts.is_over(case):
        message = "the pause outlasted rollout.deadlines.held."
        if record.purpose in {Purpose.BASELINE, Purpose.CANDIDATE}:
            return rollback.reject(case, RolloutReason.HELD_DEADLINE_EXCEEDED, message, handled=[token])
        said = f"Rollout {record.number} ends: {message}"
        return rollback.abort(case, RolloutReason.HELD_DEADLINE_EXCEEDED, said, handled=[token])
    return Step(
        reason=RolloutReason.PAUSED,
        message=f"Candidate {short} is paused; remove annotation paceline.dev/pause to go on.",
        progressing=False,
        record=None if record.paused else began,
        look_again_s=halts.left_s(case) if record.paused and bounded else None,
    )


def undo(seen: observe.Observed, *, workload: str, now: float) -> Step | None:
    """Return the step that begins to bring back what served before stable; None when nobody asked or nothing did."""
    history = seen.history
    token = asked(seen, "undo", history.stable)
    change = history.last_change
    if not token or change is None or not change.stable:
        return None
    previous = change.stable
    if history.refused(previous) is not None or previous not in seen.revisions:
        return None
    message = f"Revision {names.short(previous)} is brought back by annotation paceline.dev/undo."
    if history.open is not None:
        case = Case(seen=seen, record=history.open.record, now=now)
        return rollback.abort(case, RolloutReason.ABORTED, message)
    record = RolloutRecord(
        number=history.next_number,
        purpose=Purpose.UNDO,
        candidate=history.stable,
        control=previous,
        stable=history.stable,
        workload=workload,
        started_at=conditions.timestamp(now),
        seating=seats.at_opening(seen, seen.revisions[previous].inputs, stable=history.stable),
        handled=[token],
    )
    return Step(reason=RolloutReason.LOADING, message=message, record=record)


def unheeded(seen: observe.Observed, wanted: str) -> str:
    """Return why an undo or retry that is asked for does nothing; empty when there is none, or it was done.

    Args:
        seen: what exists.
        wanted: digest of what the spec asks for; empty when that is not known.
    """
    for verb, why in (("undo", _why_no_undo), ("retry", _why_no_retry)):
        value = seen.annotations.get(_ANNOTATIONS[verb], "")
        if value and not seen.history.handled(f"{verb}={value}"[:256]):
            reason = why(seen, value.partition("-")[0], wanted)
            if reason:
                return f"Annotation {_ANNOTATIONS[verb]}: {value[:64]} does nothing: {reason}."
    return ""


def _why_no_undo(seen: observe.Observed, short: str, _wanted: str) -> str:
    history = seen.history
    change = history.last_change
    if short != names.short(history.stable):
        return f"it names no revision that serves, which is {names.short(history.stable)}"
    if change is None or not change.stable:
        return "nothing served before"
    return "what served before was rejected since, or is beyond spec.revisionHistoryLimit"


def _why_no_retry(seen: observe.Observed, short: str, wanted: str) -> str:
    if not wanted or short != names.short(wanted):
        return "it does not name the revision that the spec asks for" + (f", {names.short(wanted)}" if wanted else "")
    return "" if seen.history.refused(wanted) else "that revision was not rejected"


def advance_undo(case: Case) -> Step:
    """Return the next step of an undo: the earlier revision has to be ready before it serves."""
    record = case.record
    ready = case.readiness(record.control, wanted=seats.to_promote(case))
    match ready:
        case readiness.Ready():
            message = f"Revision {names.short(record.candidate)} was taken back by annotation paceline.dev/undo."
            return rollback.replace_stable(case, RolloutReason.ROLLED_BACK, message)
        case readiness.Waiting():
            return steps.waiting(ready, case.now, full=seats.full(case, record.control))
        case readiness.Failed():
            message = f"The revision before stable cannot be brought back: {ready.message}"
            return rollback.abort(case, RolloutReason.ABORTED, message)
