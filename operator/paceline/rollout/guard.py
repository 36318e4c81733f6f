"""After promotion: users' own traffic may accept less of the draft than the probe's prompts did.

Live acceptance below the break-even that was measured raises suspicion, no more. The control is then loaded again, and
only a fresh break-even, measured at the concurrency users cause, turns suspicion into a rollback. Without metrics,
without enough drafts or without usable blocks, nothing is decided.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from paceline.api import base, names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Purpose, RolloutRecord
from paceline.engines import metrics
from paceline.judge import comparison
from paceline.judge import guard as judge
from paceline.planning import conditions
from paceline.rollout import analysis, copies, observe, readiness, records, rollback, steps, verbs
from paceline.rollout.steps import Case, Step

# After a confirmation that confirmed nothing, so many windows pass before the next, and twice as many after each more:
# each costs the control's GPUs.
PAUSE_WINDOWS: Final = 10
LONGEST_PAUSE_S: Final = 24 * 3600.0
_MOST_DOUBLINGS: Final = 16
# A window is taken as covered when scrapes span this share of it.
_COVERED: Final = 0.5
# A difference takes two.
_FEWEST_SCRAPES: Final = 2
# The mean number of requests in flight is taken from at most so many scrapes of a window.
_GAUGE_SAMPLES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What the guard makes of live traffic."""

    verdict: comparison.Verdict
    """Pass is healthy, Fail is suspicious, Inconclusive says nothing."""
    message: str
    live: judge.Live | None = None
    break_even: judge.BreakEven | None = None


def is_on(seen: observe.Observed) -> bool:
    """Whether anything is watched: stable speculates, was measured before it was promoted, and the guard is enabled."""
    stable = seen.revisions.get(seen.history.stable)
    promotion = seen.history.promotion_of(seen.history.stable)
    enabled = seen.owner.spec.guard.enabled and seen.owner.spec.replicas > 0
    return bool(enabled and stable and stable.inputs.speculates and promotion and promotion.control in seen.revisions)


def watch(seen: observe.Observed, now: float) -> Watch:
    """Return what users' traffic shows of stable, held against what was measured at its promotion."""
    promotion = seen.history.promotion_of(seen.history.stable)
    traffic = _traffic(seen, now)
    if promotion is None or traffic is None:
        return Watch(
            verdict=comparison.Verdict.INCONCLUSIVE, message="No drafts of users' requests were counted in the window."
        )
    even = _break_even(promotion, concurrency=traffic.concurrency)
    said = judge.live_verdict(traffic.live, even, min_drafts=seen.owner.spec.guard.min_drafts)
    verdict = said.verdict
    if even is not None and said.upper is not None and said.reason is not judge.GuardReason.NO_TRAFFIC:
        # Suspicion needs less than a verdict: the break-even's own bounds are left out, since it is measured again.
        verdict = comparison.Verdict.FAIL if said.upper < even.value else comparison.Verdict.PASS
    return Watch(verdict=verdict, message=said.message, live=traffic.live, break_even=even)


def suspect(seen: observe.Observed, found: Watch, now: float) -> Step | None:
    """Return the step that opens a confirmation; None when there is no suspicion, or the last one is not long ago."""
    promotion = seen.history.promotion_of(seen.history.stable)
    if promotion is None or not is_on(seen):
        return None
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
        live_acceptance_length=found.live.acceptance_length if found.live and not broken else None,
        live_drafts=found.live.drafts if found.live and not broken else 0,
        band=found.break_even.concurrency if found.break_even else 0,
    )
    return Step(reason=RolloutReason.CONFIRMING, message=f"Confirming: {broken or found.message}.", record=record)


def _broken(seen: observe.Observed, now: float) -> str:
    """Return why stable's engine is no longer healthy; empty while it has an endpoint or may get one."""
    server = seen.server(seen.history.stable)
    if server is None or server.ready:
        return ""
    ready = Case(seen=seen, record=seen.history.decided[-1], now=now).readiness(seen.history.stable, wanted=1)
    crashed = isinstance(ready, readiness.Failed) and ready.reason in readiness.ENGINE_FAULTS
    return ready.message.rstrip(".") if crashed and isinstance(ready, readiness.Failed) else ""


def _confirmed_lately(seen: observe.Observed, now: float) -> bool:
    change = seen.history.last_change
    since = change.number if change else 0
    tries = [one for one in seen.history.decided if one.purpose is Purpose.GUARD and one.number > since]
    if not tries or tries[-1].decided_at is None:
        return False
    window = base.parse_duration(seen.owner.spec.guard.window).total_seconds()
    doubled = 1 << min(len(tries) - 1, _MOST_DOUBLINGS)
    pause = min(PAUSE_WINDOWS * window * doubled, LONGEST_PAUSE_S)
    return now < conditions.parse_timestamp(tries[-1].decided_at) + pause


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


def _with_control(case: Case, control: readiness.Ready) -> Step:
    stable = case.readiness(case.record.candidate, wanted=1)
    if isinstance(stable, readiness.Failed):
        return _replace(case, stable.reason, stable.message)
    if isinstance(stable, readiness.Waiting):
        return steps.waiting(stable, case.now)
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
    live = judge.Live(
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
    return judge.live_verdict(live, even, min_drafts=1, confidence_percent=wanted.confidence_percent)


def _replace(case: Case, reason: RolloutReason, message: str) -> Step:
    """Return stable's replacement by its control, as soon as that has all its replicas."""
    record = case.record
    ready = case.readiness(record.control, wanted=case.seen.owner.spec.replicas)
    match ready:
        case readiness.Ready():
            text = f"Revision {names.short(record.candidate)} is taken out of service: {message}"
            return rollback.replace_stable(case, reason, text)
        case readiness.Waiting():
            return steps.waiting(ready, case.now, full=record.control)
        case readiness.Failed():
            return rollback.abort(case, RolloutReason.ABORTED, f"The control's replicas do not come. {ready.message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Traffic:
    live: judge.Live
    concurrency: float
    """Mean requests in flight on one pod."""


def _traffic(seen: observe.Observed, now: float) -> _Traffic | None:
    """Return what users' requests showed in the window, over all of stable's pods; None when nothing can be said."""
    window = base.parse_duration(seen.owner.spec.guard.window).total_seconds()
    since = max(now - window, _last_decision(seen.history))
    pods = [_pod_traffic(scrapes, since=since, window=window) for scrapes in seen.scrapes.values()]
    counted = [one for one in pods if one is not None]
    drafts = sum(one.drafts for one in counted)
    stable = seen.revisions.get(seen.history.stable)
    if not drafts or stable is None:
        return None
    live = judge.Live(
        acceptance_length=1.0 + sum(one.accepted_tokens for one in counted) / drafts,
        drafts=drafts,
        speculative_tokens=stable.inputs.num_speculative_tokens,
    )
    return _Traffic(live=live, concurrency=sum(one.running for one in counted) / len(counted))


def _last_decision(history: records.History) -> float:
    """Return when the newest rollout ended: what was counted before it is the probe's traffic, not users'."""
    decided_at = history.last.decided_at if history.last else None
    return conditions.parse_timestamp(decided_at) if decided_at else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _PodTraffic:
    drafts: int
    accepted_tokens: int
    running: float


def _pod_traffic(scrapes: Sequence[tuple[float, str]], *, since: float, window: float) -> _PodTraffic | None:
    """Return one pod's counts over the window; None when it is not covered, unreadable, or the engine was restarted."""
    inside = [(at, text) for at, text in scrapes if at >= since]
    if len(inside) < _FEWEST_SCRAPES or inside[-1][0] - inside[0][0] < _COVERED * window:
        return None
    first, last = metrics.read(inside[0][1]), metrics.read(inside[-1][1])
    if isinstance(first, metrics.Unreadable) or isinstance(last, metrics.Unreadable):
        return None
    drafts = _difference(first.drafts, last.drafts)
    accepted = _difference(first.accepted_tokens, last.accepted_tokens)
    if drafts is None or accepted is None:
        return None
    return _PodTraffic(drafts=drafts, accepted_tokens=accepted, running=_running([text for _, text in inside]))


def _difference(first: int | None, last: int | None) -> int | None:
    """Return what a counter counted; None when it is missing or began anew."""
    if first is None or last is None or last < first:
        return None
    return last - first


def _running(texts: Sequence[str]) -> float:
    """Return the mean of the gauge over evenly chosen scrapes; idle ones count, a missing gauge does not."""
    step = max(1, len(texts) // _GAUGE_SAMPLES)
    readings = [metrics.read(text) for text in texts[::step]]
    running = [
        one.requests_running
        for one in readings
        if isinstance(one, metrics.Reading) and one.requests_running is not None
    ]
    return sum(running) / len(running) if running else 1.0


def _break_even(record: RolloutRecord, *, concurrency: float) -> judge.BreakEven | None:
    """Return the break-even at the measured concurrency that is nearest to users'."""
    arm, control = names.short(record.candidate), names.short(record.control)
    band = judge.nearest_concurrency(record.measurements, arm=arm, concurrency=concurrency)
    if band is None:
        return None
    return judge.break_even(record.measurements, arm=arm, control=control, concurrency=band)
