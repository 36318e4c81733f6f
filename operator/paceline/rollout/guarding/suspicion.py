"""What the guard makes of users' traffic: healthy, suspicious, or nothing that could be said.

Every band of concurrency has a break-even of its own, measured at the promotion. A suspicion decides nothing; that
takes a fresh measurement, unless nothing at all is accepted any more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from paceline.api import names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import RolloutRecord
from paceline.judge import comparison
from paceline.judge import guard as judge
from paceline.rollout.guarding import live
from paceline.rollout.view import observe

# Beyond this multiple of the probe's prompts the break-even is of another workload: attention weighs more in a step.
LONGER_PROMPTS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What the guard makes of live traffic."""

    verdict: comparison.Verdict
    """Pass is healthy, Fail is suspicious, Inconclusive says nothing."""
    message: str
    live: judge.Live | None = None
    break_even: judge.BreakEven | None = None
    reason: RolloutReason = RolloutReason.NO_TRAFFIC
    """Why nothing is said, where that is so."""


def watch(seen: observe.Observed, now: float) -> Watch:
    """Return what users' traffic shows of stable, held against what was measured at its promotion, band by band."""
    promotion = seen.history.promotion_of(seen.history.stable)
    traffic = live.read(seen, promotion, now) if promotion is not None else None
    if promotion is None or traffic is None:
        return Watch(
            verdict=comparison.Verdict.INCONCLUSIVE, message="No drafts of users' requests were counted in the window."
        )
    if traffic.dead_drafts >= seen.owner.spec.guard.min_drafts:
        return _dead(promotion, traffic)
    longer = _longer_prompts(promotion, traffic)
    if longer:
        return Watch(
            verdict=comparison.Verdict.INCONCLUSIVE,
            message=longer,
            live=traffic.live,
            reason=RolloutReason.UNLIKE_PROMPTS,
        )
    return _by_band(seen, promotion, traffic)


def _dead(promotion: RolloutRecord, traffic: live.Traffic) -> Watch:
    """Return the verdict on drafts of which nothing at all is accepted any more: that is no matter of degree."""
    users = replace(traffic.live, acceptance_length=1.0, drafts=traffic.dead_drafts)
    message = f"not one token of the last {users.drafts} drafts of users' requests was accepted"
    even = _break_even(promotion, traffic.nearest)
    return Watch(verdict=comparison.Verdict.FAIL, message=message, live=users, break_even=even)


def _longer_prompts(promotion: RolloutRecord, traffic: live.Traffic) -> str:
    """Return that users' prompts are too long for the break-even to hold; empty when they are not, or nobody knows."""
    measured = live.probe_prompt_tokens(promotion.measurements, promotion.candidate)
    if measured is None or traffic.prompt_tokens is None or traffic.prompt_tokens <= LONGER_PROMPTS * measured:
        return ""
    return (
        f"Users' prompts have {traffic.prompt_tokens:.0f} tokens, those of rollout.analysis.prompts {measured:.0f}; "
        "measure on prompts like users'."
    )


def _by_band(seen: observe.Observed, promotion: RolloutRecord, traffic: live.Traffic) -> Watch:
    """Return the verdict on the band that counts most; one that loses while others gain more is not suspicious."""
    fewest = seen.owner.spec.guard.min_drafts
    enough = [band for band in traffic.bands if band.live.drafts >= fewest]
    # Spread over several bands, the window as a whole still says something.
    bands = enough or [live.Band(concurrency=traffic.nearest, live=traffic.live)]
    found = [_in_band(promotion, band, min_drafts=fewest) for band in bands]
    losing = [one for one in found if one.verdict is comparison.Verdict.FAIL]
    heaviest = max(losing or found, key=_drafts)
    if losing and _gain(found) >= 0.0:
        return replace(heaviest, verdict=comparison.Verdict.PASS)
    return heaviest


def _in_band(promotion: RolloutRecord, band: live.Band, *, min_drafts: int) -> Watch:
    even = _break_even(promotion, band.concurrency)
    said = judge.live_verdict(band.live, even, min_drafts=min_drafts)
    verdict = said.verdict
    if even is not None and said.upper is not None and said.reason is not judge.GuardReason.NO_TRAFFIC:
        # Suspicion needs less than a verdict: the break-even's own bounds are left out, since it is measured again.
        verdict = comparison.Verdict.FAIL if said.upper < even.value else comparison.Verdict.PASS
    return Watch(verdict=verdict, message=said.message, live=band.live, break_even=even)


def _drafts(watched: Watch) -> int:
    return watched.live.drafts if watched.live else 0


def _gain(found: Sequence[Watch]) -> float:
    """Return the mean log ratio over no speculation, each band weighing as many drafts as users made in it."""
    known = [(one.live, one.break_even) for one in found if one.live and one.break_even]
    drafts = sum(own.drafts for own, _ in known)
    ratios = sum(own.drafts * math.log(own.acceptance_length / even.value) for own, even in known)
    return ratios / drafts if drafts else 0.0


def _break_even(record: RolloutRecord, band: int) -> judge.BreakEven | None:
    """Return the break-even that was measured at one concurrency."""
    arm, control = names.short(record.candidate), names.short(record.control)
    return judge.break_even(record.measurements, arm=arm, control=control, concurrency=band)
