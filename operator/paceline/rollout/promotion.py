"""Brings a baseline or a candidate to the front: readiness, both bars, all replicas, and only then the decision."""

from collections.abc import Mapping, Sequence
from typing import Final

from paceline.api import base, names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Decision
from paceline.judge import comparison
from paceline.planning import conditions
from paceline.rollout import advice, analysis, judging, rollback, steps, verbs
from paceline.rollout.documents import records
from paceline.rollout.places import copies, handover, seats
from paceline.rollout.steps import Case, Step
from paceline.rollout.traffic import weights
from paceline.rollout.view import podview, readiness

_FAILURES: Final = {
    comparison.Reason.DEAD_DRAFT: RolloutReason.DEAD_DRAFT,
    comparison.Reason.SLOWER: RolloutReason.SLOWER_THAN_CONTROL,
    comparison.Reason.NO_GAIN: RolloutReason.NO_GAIN,
    comparison.Reason.REGRESSED: RolloutReason.SLOWER_THAN_STABLE,
    comparison.Reason.BAND_BELOW_FLOOR: RolloutReason.BAND_BELOW_FLOOR,
    comparison.Reason.TTFT_ABOVE_LIMIT: RolloutReason.LATENCY_ABOVE_LIMIT,
    comparison.Reason.ITL_ABOVE_LIMIT: RolloutReason.LATENCY_ABOVE_LIMIT,
    comparison.Reason.ANSWERS_CHANGED: RolloutReason.ANSWERS_CHANGED,
}
_REPEAT_S: Final = 60.0


def advance_baseline(case: Case) -> Step:
    """Return the next step of a target's first revision: there is nothing to measure it against.

    With nothing else to serve, a wait that is over is told, but the pods stay: they may still find a node.
    """
    paused = verbs.pause(case)
    if paused is not None:
        return paused
    record = case.record
    ready = case.readiness(record.candidate, wanted=seats.to_promote(case))
    match ready:
        case readiness.Ready():
            message = f"Revision {names.short(record.candidate)} serves without speculation, as the baseline."
            return _promoted(case, message, reason="Baseline", rolls=handover.rolls(case, record.candidate))
        case readiness.Waiting():
            return steps.waiting(ready, case.now, full=seats.full(case, record.candidate))
        case readiness.Failed() if case.seen.history.stable:
            return rollback.reject(case, ready.reason, ready.message)
        case readiness.Failed():
            return Step(
                reason=ready.reason,
                message=ready.message,
                progressing=False,
                full=record.candidate,
                look_again_s=_REPEAT_S,
            )


def advance_candidate(case: Case) -> Step:
    """Return the next step of a candidate; evidence is stored before anything is made of it."""
    ended = analysis.finished_round(case) or verbs.pause(case) or _failed(case)
    if ended is not None:
        return ended
    token = verbs.asked(case.seen, "promote", case.record.candidate)
    if token:
        return promote(case, "Promoted by annotation paceline.dev/promote.", handled=[token])
    if case.record.weight:
        return weights.advance(case) or promote(case, case.record.verdict)
    rivals = _living(case, rivals_of(case))
    if not rivals:
        return promote(case, "Stable has no ready endpoint, so there is nothing left to measure the candidate against.")
    return judged(case, rivals) or copies.settle(case) or _measured(case, rivals)


def rivals_of(case: Case) -> dict[str, str]:
    """Return whom the candidate is measured against, by role; one that is both control and stable is the control."""
    record = case.record
    rivals = {"Control": record.control} if record.control else {}
    if record.stable and record.stable not in {record.control, record.candidate}:
        rivals["Stable"] = record.stable
    return rivals


def _living(case: Case, rivals: Mapping[str, str]) -> dict[str, str]:
    """Return the rivals without a stable that has failed: a new revision may be just what repairs it."""
    dead = rivals.get("Stable")
    if dead and isinstance(case.readiness(dead, wanted=1), readiness.Failed):
        return {role: digest for role, digest in rivals.items() if role != "Stable"}
    return dict(rivals)


def _failed(case: Case) -> Step | None:
    """Return the rejection of a candidate whose pods do not come; None while they may."""
    ready = case.readiness(case.record.candidate, wanted=1)
    if isinstance(ready, readiness.Failed):
        return rollback.reject(case, ready.reason, ready.message)
    dead = judging.dead_draft(case)
    return rollback.reject(case, RolloutReason.DEAD_DRAFT, dead) if dead else None


def judged(case: Case, rivals: Mapping[str, str]) -> Step | None:
    """Return what the verdicts lead to; None while they are open and there is time."""
    found = judging.compare(case, rivals)
    for one in found:
        if one.comparison.verdict is comparison.Verdict.FAIL:
            reason = _FAILURES.get(one.comparison.reason, RolloutReason.ROLLED_BACK)
            return rollback.reject(case, reason, f"{in_words(one)}.{advice.schedule_of(case, one)}")
    if all(one.comparison.verdict is comparison.Verdict.PASS for one in found):
        said = "; ".join(in_words(one) for one in found)
        more = "".join(advice.schedule_of(case, one) for one in found)
        verdict = f"Candidate {names.short(case.record.candidate)} is promoted: {said}.{more}"
        return weights.begin(case, verdict) or promote(case, verdict)
    over = analysis.out_of_time(case)
    if over:
        undecided = "; ".join(in_words(one) for one in found)
        reason = analysis.overdue(case) or RolloutReason.INCONCLUSIVE
        return rollback.inconclusive(case, f"{over} So far: {undecided}.", reason=reason)
    return None


def in_words(against: judging.Against) -> str:
    """Return a comparison as people read it."""
    return f"against {against.rival.lower()} {names.short(against.digest)}, {against.comparison.message}"


def _measured(case: Case, rivals: Mapping[str, str]) -> Step:
    """Return the step that measures one more round as soon as every arm is ready."""
    chosen: dict[str, podview.Pod] = {}
    for digest in (case.record.candidate, *rivals.values()):
        ready = copies.arm(case, digest)
        match ready:
            case readiness.Ready(pods=pods):
                chosen[digest] = pods[0]
            case readiness.Waiting():
                return wait(case, ready)
            case readiness.Failed():
                return rollback.inconclusive(case, f"An arm to measure against does not come: {ready.message}")
    return analysis.next_round(case, chosen)


def wait(case: Case, ready: readiness.Waiting) -> Step:
    """Return the wait for an arm, bounded also where pods come and go and each begins its own wait anew."""
    record, deadlines = case.record, case.deadlines
    since = conditions.parse_timestamp(record.waiting_since or record.started_at)
    # All may be gone through twice: once by the candidate, once by a control that replaces a lost pod.
    spans = (deadlines.scheduling, deadlines.loading, deadlines.analysis)
    limit = since + 2 * sum(base.parse_duration(span).total_seconds() for span in spans)
    if case.now >= limit:
        return rollback.inconclusive(case, f"The arms were not ready together in time. {ready.message}")
    return steps.waiting(
        readiness.Waiting(reason=ready.reason, message=ready.message, until=min(ready.until, limit)), case.now
    )


def promote(case: Case, message: str, *, handled: Sequence[str] = ()) -> Step:
    """Return the promotion, or the wait for all its replicas: the Service flips to nothing that is half there."""
    candidate, rolls = case.record.candidate, handover.rolls(case, case.record.candidate)
    ready = case.readiness(candidate, wanted=1 if rolls else case.seen.owner.spec.replicas)
    match ready:
        case readiness.Ready():
            return _promoted(case, message, reason=RolloutReason.PROMOTED.value, handled=handled, rolls=rolls)
        case readiness.Waiting():
            return steps.waiting(ready, case.now, full="" if rolls else candidate)
        case readiness.Failed() if handover.may_roll(case, ready):
            return _promoted(case, message, reason=RolloutReason.PROMOTED.value, handled=handled, rolls=True)
        case readiness.Failed():
            return rollback.reject(case, ready.reason, f"it won, but its replicas do not come. {ready.message}")


def _promoted(case: Case, message: str, *, reason: str, handled: Sequence[str] = (), rolls: bool = False) -> Step:
    record = records.decide(
        case.record,
        Decision.PROMOTED,
        serving=case.record.candidate,
        reason=reason,
        message=message,
        now=case.now,
    )
    record = record.model_copy(update={"handled": [*record.handled, *handled], "rolls": rolls})
    return Step(reason=RolloutReason.PROMOTED, message=record.message, progressing=False, record=record)
