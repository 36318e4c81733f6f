"""Brings a candidate on whose arms take turns on one place: each is measured on its own load, then all are judged.

The evidence is weaker than side by side, since every start of an engine has its own luck; the judge widens its bounds
by that, and status says so. Where stable itself had to make way, users wait: every step has a bound, nothing is held or
extended, and what is not decided by then is rolled back.
"""

from collections.abc import Mapping

from paceline.api import names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Seating
from paceline.planning import conditions
from paceline.rollout import analysis, judging, promotion, rollback, verbs
from paceline.rollout.places import downtime, turns
from paceline.rollout.steps import Case, Step
from paceline.rollout.view import podview, readiness


def advance(case: Case) -> Step:
    """Return the next step; evidence is stored before anything is made of it."""
    late = _overdue(case)
    if late:
        return rollback.reject(case, RolloutReason.INCONCLUSIVE, f"it could not be judged in time. {late}")
    ended = analysis.finished_round(case)
    if ended is not None:
        return _with_clocks(case, ended)
    paused = verbs.pause(case)
    if paused is not None:
        return paused
    token = verbs.asked(case.seen, "promote", case.record.candidate)
    if token:
        return promotion.promote(case, "Promoted by annotation paceline.dev/promote.", handled=[token])
    return _never_held(case, _judged(case) or _in_turn(case))


def _never_held(case: Case, step: Step) -> Step:
    """Return a step that keeps no users waiting for a person: where stable is stopped, undecided is rolled back."""
    if step.reason is not RolloutReason.HELD or case.record.seating is not Seating.STOPPED:
        return step
    return rollback.reject(case, RolloutReason.INCONCLUSIVE, step.message)


def _judged(case: Case) -> Step | None:
    """Return what the verdicts lead to, once every arm has had its turn; None while there are turns to come."""
    rivals = {role: digest for role, digest in promotion.rivals_of(case).items() if _was_measured(case, digest)}
    if not rivals:
        return promotion.promote(case, "Stable is not able to serve, so there is nothing to measure it against.")
    over = not turns.at(case.seen, case.record)
    if not over and not analysis.out_of_time(case):
        return None
    return promotion.judged(case, rivals) or (_next_cycle(case, rivals) if over else None)


def _next_cycle(case: Case, rivals: Mapping[str, str]) -> Step:
    """Return the step that gives every arm another turn, on another load; or the end without a verdict."""
    record = case.record
    if record.cycle + 1 >= turns.cycles_allowed(case.seen, record):
        found = "; ".join(promotion.in_words(one) for one in judging.compare(case, rivals))
        return rollback.inconclusive(case, f"Every arm has had its turns. So far: {found}.")
    again = {"cycle": record.cycle + 1, "measuring_since": None, "waiting_since": conditions.timestamp(case.now)}
    return Step(
        reason=RolloutReason.MEASURING,
        message="The verdict is open: every arm is loaded once more.",
        record=record.model_copy(update=again),
    )


def _was_measured(case: Case, digest: str) -> bool:
    """Whether an arm takes part: one that lives beside the place, or has a turn on it."""
    record = case.record
    return digest in record.turns or (digest == record.stable and record.seating is not Seating.STOPPED)


def _in_turn(case: Case) -> Step:
    """Return the step that measures the arm whose turn it is, as soon as it is ready."""
    arm = turns.slot(case.seen, case.record)
    ready = case.readiness(arm, wanted=1)
    match ready:
        case readiness.Ready(pods=pods):
            return _measured(case, arm, pods[0])
        case readiness.Waiting():
            return promotion.wait(case, ready)
        case readiness.Failed() if arm == case.record.candidate:
            return rollback.reject(case, ready.reason, ready.message)
        case readiness.Failed():
            return rollback.inconclusive(case, f"An arm to measure against does not come: {ready.message}")


def _measured(case: Case, arm: str, pod: podview.Pod) -> Step:
    record = case.record
    dead = judging.dead_draft(case) if arm == record.candidate else ""
    if dead:
        return rollback.reject(case, RolloutReason.DEAD_DRAFT, dead)
    limit = case.seen.owner.spec.rollout.analysis.max_rounds * (1 + record.cycle)
    if turns.tried_rounds(record.measurements, arm) >= limit:
        return _unmeasurable(case, arm)
    chosen: Mapping[str, podview.Pod] = {arm: pod}
    if record.seating is not Seating.STOPPED and record.stable:
        beside = case.readiness(record.stable, wanted=1)
        match beside:
            case readiness.Ready(pods=pods):
                chosen = {arm: pod, record.stable: pods[0]}
            case readiness.Waiting():
                return promotion.wait(case, beside)
            case readiness.Failed():
                return rollback.inconclusive(case, f"Stable does not come back: {beside.message}")
    return analysis.next_round(case, chosen)


def _unmeasurable(case: Case, arm: str) -> Step:
    """Return the end of a rollout of which an arm cannot be measured; stable's turn comes before it is stopped."""
    short, tries = names.short(arm), turns.tried_rounds(case.record.measurements, arm)
    why = f"Of {tries} rounds on revision {short} too few could be used.{_last_said(case)}"
    if arm == case.record.stable:
        why += " It was not stopped. Try when users are fewer, or make room beside it."
    return rollback.inconclusive(case, why)


def _last_said(case: Case) -> str:
    return f" Of the last round: {case.record.message}." if case.record.message else ""


def _with_clocks(case: Case, step: Step) -> Step:
    """Return the step of a stored round; with the next arm's turn its waits and its analysis begin anew."""
    after = step.record
    if after is None or turns.at(case.seen, after) == turns.at(case.seen, case.record):
        return step
    since = case.record.measuring_since
    took_s = round(case.now - conditions.parse_timestamp(since)) if since else 0
    anew = {"measuring_since": None, "waiting_since": conditions.timestamp(case.now), "turn_took_s": max(0, took_s)}
    return Step(reason=step.reason, message=step.message, record=after.model_copy(update=anew))


def _overdue(case: Case) -> str:
    """Return why users have waited long enough; empty while they have not, or need not wait."""
    record = case.record
    if record.seating is not Seating.STOPPED or record.released_at is None or not record.longest_downtime_s:
        return ""
    # Of the stated time, what loading stable again may take is kept for that.
    again = downtime.reload_s(case.deadlines)
    if case.now < conditions.parse_timestamp(record.released_at) + record.longest_downtime_s - again:
        return ""
    return "Users have been without service for as long as was stated."
