"""After promotion: users' own traffic may accept less of the draft than the probe's prompts did.

Live acceptance below the break-even that was measured raises suspicion, no more. The control is then loaded again, and
only a fresh break-even, measured at the concurrency users cause, turns suspicion into a rollback. Without metrics,
without enough drafts or without usable blocks, nothing is decided.
"""

from typing import Final

from paceline.api import base, names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Purpose, RolloutRecord, Seating
from paceline.judge import comparison
from paceline.judge import guard as judge
from paceline.planning import conditions
from paceline.rollout import analysis, rollback, steps, verbs
from paceline.rollout.guarding import live, suspicion
from paceline.rollout.places import copies, seats
from paceline.rollout.steps import Case, Step
from paceline.rollout.view import observe, readiness

# After a confirmation that confirmed nothing, so many windows pass before the next, and twice as many after each more:
# each costs the control's GPUs.
PAUSE_WINDOWS: Final = 10
SHORTEST_PAUSE_S: Final = 60.0
LONGEST_PAUSE_S: Final = 24 * 3600.0
_MOST_DOUBLINGS: Final = 16


def is_on(seen: observe.Observed) -> bool:
    """Whether anything is watched: stable speculates, was measured before it was promoted, and the guard is enabled."""
    stable = seen.revisions.get(seen.history.stable)
    promotion = seen.history.promotion_of(seen.history.stable)
    enabled = seen.owner.spec.guard.enabled and seen.owner.spec.replicas > 0
    return bool(enabled and stable and stable.inputs.speculates and promotion and promotion.control in seen.revisions)


def suspect(seen: observe.Observed, found: suspicion.Watch, now: float) -> Step | None:
    """Return the step that opens a confirmation; None when there is no suspicion, or the last one is not long ago."""
    promotion = seen.history.promotion_of(seen.history.stable)
    if promotion is None or not is_on(seen):
        return None
    stable = seen.revisions.get(seen.history.stable)
    broken = _broken(seen, now)
    if (found.verdict is not comparison.Verdict.FAIL and not broken) or _confirmed_lately(seen, now):
        return None
    record = RolloutRecord(
        number=seen.history.next_number,
        purpose=Purpose.GUARD,
        candidate=promotion.candidate,
        control=promotion.control,
        stable=seen.history.stable,
        workload=promotion.workload,
        started_at=conditions.timestamp(now),
        guard_of=promotion.number,
        earlier_confirmations=_confirmations(seen),
        live_acceptance_length=found.live.acceptance_length if found.live and not broken else None,
        live_drafts=found.live.drafts if found.live and not broken else 0,
        seating=seats.at_opening(seen, stable.inputs, stable=seen.history.stable) if stable else None,
        band=found.break_even.concurrency if found.break_even else 0,
    )
    return Step(reason=RolloutReason.CONFIRMING, message=f"Confirming: {broken or found.message}.", record=record)


def _broken(seen: observe.Observed, now: float) -> str:
    """Return why stable's engine is no longer healthy; empty while it answers, or may get an endpoint."""
    server = seen.server(seen.history.stable)
    if server is None:
        return ""
    if server.ready:
        return live.stalled(seen, now)
    ready = Case(seen=seen, record=seen.history.decided[-1], now=now).readiness(seen.history.stable, wanted=1)
    crashed = isinstance(ready, readiness.Failed) and ready.reason in readiness.ENGINE_FAULTS
    return ready.message.rstrip(".") if crashed and isinstance(ready, readiness.Failed) else ""


def _confirmations(seen: observe.Observed) -> int:
    """Return how many confirmations of what serves there were, those beyond the history's limit included."""
    last = seen.history.last_confirmation
    return last.earlier_confirmations + 1 if last else 0


def _confirmed_lately(seen: observe.Observed, now: float) -> bool:
    last = seen.history.last_confirmation
    if last is None or last.decided_at is None:
        return False
    window = base.parse_duration(seen.owner.spec.guard.window).total_seconds()
    doubled = 1 << min(last.earlier_confirmations, _MOST_DOUBLINGS)
    # With guard.window: 0s one confirmation would follow the other without a pause.
    pause = min(max(PAUSE_WINDOWS * window, SHORTEST_PAUSE_S) * doubled, LONGEST_PAUSE_S)
    return now < conditions.parse_timestamp(last.decided_at) + pause


def advance(case: Case) -> Step:
    """Return the next step of a confirmation."""
    if case.seen.owner.spec.replicas == 0:
        return rollback.abort(case, RolloutReason.ABORTED, "Nothing serves, so there is nothing to confirm.")
    ended = analysis.finished_round(case) or verbs.pause(case)
    if ended is not None:
        return ended
    control = case.readiness(case.record.control, wanted=1)
    if isinstance(control, readiness.Failed):
        return rollback.abort(
            case, RolloutReason.ABORTED, f"The control cannot be loaded, so nothing is confirmed. {control.message}"
        )
    noted = copies.settle(case)
    if noted is not None:
        return noted
    if isinstance(control, readiness.Waiting):
        return steps.waiting(control, case.now)
    return _with_control(case, control)


def _refreshed(case: Case) -> Case:
    """Return the case with users' acceptance as it is now, as long as nothing is measured.

    A suspicion is raised while the window still holds what was before the fall; by the time the control is loaded it
    holds the fall alone. Once the probe drives, what pods count is no longer users' own.
    """
    record = case.record
    if record.live_acceptance_length is None or record.measuring_since is not None:
        return case
    found = suspicion.watch(case.seen, case.now)
    if found.verdict is not comparison.Verdict.FAIL or found.live is None or found.break_even is None:
        return case
    update = {
        "live_acceptance_length": found.live.acceptance_length,
        "live_drafts": found.live.drafts,
        "band": found.break_even.concurrency,
    }
    return Case(seen=case.seen, record=record.model_copy(update=update), now=case.now)


def _with_control(case: Case, control: readiness.Ready) -> Step:
    if case.record.seating is Seating.STOPPED and case.record.released_at is not None:
        return _replace(case, RolloutReason.ENGINE_FAILED, "its engine did not come up, and its place was needed.")
    stable = case.readiness(case.record.candidate, wanted=1)
    if isinstance(stable, readiness.Failed):
        return _replace(case, stable.reason, stable.message)
    if isinstance(stable, readiness.Waiting):
        return steps.waiting(stable, case.now)
    fresh = _refreshed(case)
    return _hopeless(fresh) or _confirmed(fresh, control)


def _confirmed(case: Case, control: readiness.Ready) -> Step:
    """Return what the fresh break-even leads to."""
    said = _confirmation(case)
    match said.verdict:
        case comparison.Verdict.FAIL:
            return _replace(case, RolloutReason.LIVE_BELOW_BASELINE, f"Users' {said.message}.")
        case comparison.Verdict.PASS:
            return rollback.abort(case, RolloutReason.HEALTHY, f"A fresh measurement clears it: {said.message}.")
        case comparison.Verdict.INCONCLUSIVE:
            over = analysis.out_of_time(case)
            if over:
                return rollback.abort(case, RolloutReason.ABORTED, f"Nothing was confirmed: {said.message}. {over}")
            return _measured(case, control)


def _hopeless(case: Case) -> Step | None:
    """Return the end of a draft or an engine that needs no measurement; None when it has to be measured."""
    record = case.record
    if record.live_acceptance_length is None:
        still = live.stalled(case.seen, case.now)
        return _replace(case, RolloutReason.ENGINE_FAILED, f"{still}.") if still else None
    if record.live_acceptance_length > 1.0:
        return None
    message = f"not one token of {record.live_drafts} drafts of users' requests was accepted. Train the head again."
    return _replace(case, RolloutReason.DEAD_DRAFT, message)


def _measured(case: Case, control: readiness.Ready) -> Step:
    """Return the step that measures one more round, as soon as the arm that stands for stable is ready."""
    band = case.record.band
    if band and band not in analysis.concurrencies(case):
        message = (
            f"Nothing was confirmed: users cause {band} requests in flight, and a serving pod may be given"
            f" {case.seen.owner.spec.rollout.analysis.max_probe_concurrency}. Raise"
            f" rollout.analysis.maxProbeConcurrency, or make room for a measuring copy. {case.record.copy_message}"
        )
        return rollback.abort(case, RolloutReason.ABORTED, message.strip())
    stable = copies.arm(case, case.record.candidate)
    match stable:
        case readiness.Ready():
            arms = {case.record.candidate: stable.pods[0], case.record.control: control.pods[0]}
            return analysis.next_round(case, arms)
        case readiness.Waiting():
            return steps.waiting(stable, case.now)
        case readiness.Failed():
            return rollback.abort(case, RolloutReason.ABORTED, f"Nothing was confirmed. {stable.message}")


def _confirmation(case: Case) -> judge.LiveVerdict:
    """Return the verdict of what was seen live against the fresh break-even alone."""
    record, spec = case.record, case.seen.owner.spec
    if record.live_acceptance_length is None:
        message = "its engine answers again"
        return judge.LiveVerdict(
            verdict=comparison.Verdict.PASS, reason=judge.GuardReason.ABOVE_BREAK_EVEN, message=message
        )
    revision = case.seen.revisions.get(record.candidate)
    users = judge.Live(
        acceptance_length=record.live_acceptance_length,
        drafts=record.live_drafts,
        speculative_tokens=revision.inputs.num_speculative_tokens if revision else 1,
    )
    wanted = spec.rollout.analysis
    even = None
    if record.rounds >= wanted.min_rounds:
        even = judge.break_even(
            record.measurements,
            arm=names.short(record.candidate),
            control=names.short(record.control),
            concurrency=record.band,
            confidence_percent=wanted.confidence_percent,
            looks=max(1, wanted.max_rounds - wanted.min_rounds + 1),
        )
    return judge.live_verdict(users, even, min_drafts=1, confidence_percent=wanted.confidence_percent)


def _replace(case: Case, reason: RolloutReason, message: str) -> Step:
    """Return stable's replacement by its control, as soon as that has all its replicas."""
    record = case.record
    ready = case.readiness(record.control, wanted=seats.to_promote(case))
    match ready:
        case readiness.Ready():
            text = f"Revision {names.short(record.candidate)} is taken out of service: {message}"
            return rollback.replace_stable(case, reason, text)
        case readiness.Waiting():
            return steps.waiting(ready, case.now, full=seats.full(case, record.control))
        case readiness.Failed():
            return rollback.abort(case, RolloutReason.ABORTED, f"The control's replicas do not come. {ready.message}")
