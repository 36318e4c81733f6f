"""After a candidate in stable's only place lost: stable is loaded again, and measured before it is called recovered.

Users are back as soon as its pod is ready; the measurement only says whether what serves them is what served before.
Two starts of one revision differ by chance, so it is held against its own profile as any arms that took turns are:
recovered, unless it is certainly slower than before.
"""

from typing import Final

from paceline.api import names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Decision, Measurement, Purpose, RolloutRecord, Seating
from paceline.judge import comparison
from paceline.planning import conditions
from paceline.rollout import analysis, judging, rollback, steps, verbs
from paceline.rollout.places import turns
from paceline.rollout.steps import Case, Step
from paceline.rollout.view import observe, podview, readiness

_BEFORE: Final = "before"
_LATER: Final = 64
_REPEAT_S: Final = 60.0


def due(seen: observe.Observed, now: float) -> Step | None:
    """Return the step that begins to confirm a recovery; None when the last rollout did not stop stable, or won."""
    last = seen.history.last
    if last is None or last.seating is not Seating.STOPPED or last.released_at is None:
        return None
    if last.decision is Decision.PROMOTED or last.serving != last.stable or not seen.owner.spec.replicas:
        return None
    short = names.short(last.stable)
    before = [one for one in last.measurements if one.arm == short]
    carried = max((one.round for one in before), default=0)
    record = RolloutRecord(
        number=seen.history.next_number,
        purpose=Purpose.RECOVERY,
        candidate=last.stable,
        stable=last.stable,
        workload=last.workload,
        started_at=conditions.timestamp(now),
        guard_of=last.number,
        seating=Seating.BESIDE,
        measurements=before,
        rounds=carried,
        carried_rounds=carried,
        released_at=last.released_at,
        expected_downtime_s=last.expected_downtime_s,
        longest_downtime_s=last.longest_downtime_s,
    )
    return Step(
        reason=RolloutReason.RECOVERING, message=f"Stable revision {short} is being loaded again.", record=record
    )


def advance(case: Case) -> Step:
    """Return the next step of a recovery."""
    if not case.seen.owner.spec.replicas:
        return rollback.abort(case, RolloutReason.ABORTED, "Nothing is to serve, so nothing has to recover.")
    ended = analysis.finished_round(case) or verbs.pause(case)
    if ended is not None:
        return ended
    ready = case.readiness(case.record.candidate, wanted=1)
    match ready:
        case readiness.Waiting():
            waiting = steps.waiting(ready, case.now)
            return Step(reason=RolloutReason.RECOVERING, message=waiting.message, look_again_s=waiting.look_again_s)
        case readiness.Failed():
            # With nothing else to serve the pods stay: they may still come up.
            return Step(reason=ready.reason, message=ready.message, progressing=False, look_again_s=_REPEAT_S)
        case readiness.Ready(pods=pods):
            return _confirmed(case, pods[0])


def _confirmed(case: Case, pod: podview.Pod) -> Step:
    """Return the end of a recovery, or the next round of its measurement."""
    found = compare(case)
    if found is None or found.reason in _MORE:
        over = _out_of_time(case)
        if found is None and not _before(case.record):
            return _untold(case, "there is no profile of it from before to hold against it.")
        if over:
            return _untold(case, over)
        return analysis.next_round(case, {case.record.candidate: pod})
    said = f"Measured against its own profile from before: {found.message}."
    if found.verdict is comparison.Verdict.FAIL:
        return _ends(case, RolloutReason.NOT_RECOVERED, said)
    return _ends(case, RolloutReason.RECOVERED, said)


def _untold(case: Case, why: str) -> Step:
    return _ends(case, RolloutReason.RECOVERY_UNCONFIRMED, f"Whether it is as fast as before could not be told: {why}")


_MORE: Final = frozenset(
    {comparison.Reason.NO_DATA, comparison.Reason.TOO_FEW_BLOCKS, comparison.Reason.NOT_SIDE_BY_SIDE}
)


def compare(case: Case) -> comparison.Comparison | None:
    """Return stable's new load against its profile from before; None while there are not enough rounds of either."""
    record, needed = case.record, case.seen.owner.spec.rollout.analysis.min_rounds
    before, after = _before(record), _after(record)
    enough = all(turns.usable_rounds(one, record.candidate) >= needed for one in (before, after))
    if not enough:
        return None
    short = names.short(record.candidate)
    return comparison.compare(
        [*turns.alternating(before, short, named=_BEFORE), *turns.alternating(after, short, after=_LATER)],
        candidate=short,
        rival=_BEFORE,
        policy=judging.policy(case.seen.owner.spec.rollout.analysis, "Stable"),
    )


def _before(record: RolloutRecord) -> list[Measurement]:
    return [one for one in record.measurements if one.round <= record.carried_rounds]


def _after(record: RolloutRecord) -> list[Measurement]:
    return [one for one in record.measurements if one.round > record.carried_rounds]


def _out_of_time(case: Case) -> str:
    limits = case.seen.owner.spec.rollout.analysis
    tried = turns.tried_rounds(_after(case.record), case.record.candidate)
    if case.record.probe_failures >= analysis.MAX_PROBE_FAILURES:
        return f"the probe brought no measurement; the last said: {case.record.message}"
    if tried >= limits.max_rounds:
        return f"of {tried} rounds too few could be used; users' requests may have touched them."
    if case.now >= analysis.deadline(case):
        return f"rollout.deadlines.analysis ({case.deadlines.analysis}) is over."
    return ""


def _ends(case: Case, reason: RolloutReason, message: str) -> Step:
    short = names.short(case.record.candidate)
    return rollback.abort(
        case, reason, f"Stable revision {short} serves again after rollout {case.record.guard_of}. {message}"
    )
