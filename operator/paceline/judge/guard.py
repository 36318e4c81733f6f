"""Break-even acceptance length, and where users' own traffic stands against it.

Throughput is acceptance length x concurrency / step time, and a step costs the same whatever is accepted of it. So the
acceptance length at which a speculating arm merely equals its control is ``acceptance length / ratio``, both measured
on the probe's prompts; it carries over to other prompts at the same concurrency, and the acceptance of live traffic can
be held against it. A live figure alone decides nothing: it raises suspicion, and a fresh break-even confirms it.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from paceline.api.measurement import Measurement
from paceline.judge import interval, pairs
from paceline.judge.comparison import Verdict

_OVERDISPERSION: Final = 2.0
"""Drafts of one answer resemble each other, so their mean varies more than that of independent ones. The factor on the
variance is an assumption; it comes on top of a bound that is already the largest variance possible."""


class GuardReason(StrEnum):
    """Why; each belongs to one verdict."""

    ABOVE_BREAK_EVEN = "AboveBreakEven"  # Pass
    LIVE_BELOW_BASELINE = "LiveBelowBaseline"  # Fail: speculation costs more than it gains
    NO_TRAFFIC = "NoTraffic"  # Inconclusive, as the others: no or too few drafts
    NO_BREAK_EVEN = "NoBreakEven"  # nothing was measured that live traffic could be held against
    TOO_NEAR = "TooNear"  # the bounds overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """Acceptance length below which an arm is slower than its control, at one concurrency."""

    concurrency: int
    value: float
    lower: float
    upper: float
    probe_acceptance_length: float
    """What the arm accepted on the probe's prompts."""
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What users' traffic showed in a window."""

    acceptance_length: float
    drafts: int
    speculative_tokens: int
    """Tokens of a draft; no draft can be accepted further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveVerdict:
    """The answer: Pass is healthy, Fail is slower than no speculation."""

    verdict: Verdict
    reason: GuardReason
    message: str
    lower: float | None = None
    """Bounds of the live acceptance length."""
    upper: float | None = None


def break_even(
    measurements: Sequence[Measurement],
    *,
    arm: str,
    control: str,
    concurrency: int,
    confidence_percent: float = 95.0,
    looks: int = 1,
) -> BreakEven | None:
    """Return an arm's break-even at one concurrency; None without two usable pairs that drafted.

    Every pair gives its own estimate, acceptance length of the block over the ratio of the pair, so that the bounds
    hold the noise of both.
    """
    paired = pairs.pair([one for one in measurements if one.concurrency == concurrency], candidate=arm, rival=control)
    drafting = [one for one in paired.pairs if one.candidate.acceptance_length is not None]
    estimates = [math.log(one.candidate.acceptance_length or 1.0) - one.log_ratio for one in drafting]
    found = interval.of_log_ratios(
        estimates,
        confidence=confidence_percent / 100.0,
        looks=looks,
        resolution=max((one.resolution for one in drafting), default=0.0),
    )
    probe = acceptance_length([one.candidate for one in drafting])
    if found is None or probe is None:
        return None
    return BreakEven(
        concurrency=concurrency,
        value=found.ratio,
        lower=found.lower,
        upper=found.upper,
        probe_acceptance_length=probe,
        samples=len(estimates),
    )


def acceptance_length(blocks: Sequence[Measurement]) -> float | None:
    """Return 1 + accepted / drafts over several blocks; None without drafts."""
    drafts = sum(one.drafts for one in blocks)
    return 1.0 + sum(one.accepted_tokens for one in blocks) / drafts if drafts else None


def nearest_concurrency(measurements: Sequence[Measurement], *, arm: str, concurrency: float) -> int | None:
    """Return the measured concurrency nearest to ``concurrency`` by ratio; None when the arm was never measured."""
    measured = {one.concurrency for one in measurements if one.arm == arm and one.tokens_per_second}
    wanted = math.log(max(concurrency, 1.0))
    return min(sorted(measured), key=lambda one: abs(math.log(one) - wanted), default=None)


def live_bounds(live: Live, *, confidence_percent: float = 95.0) -> tuple[float, float]:
    """Return bounds of the live acceptance length, within what is possible.

    The variance of a draft's accepted tokens is unknown, as only their sum is counted. A quantity between 0 and k with
    mean m has a variance of at most m (k - m), which is taken.

    Source: Bhatia and Davis, A Better Bound on the Variance, Am. Math. Monthly 107 (2000).
    """
    mean = live.acceptance_length - 1.0
    variance = max(0.0, mean * (live.speculative_tokens - mean)) * _OVERDISPERSION
    # Nothing accepted, or everything, shows no spread; one more draft that differs is then the least to allow for.
    error = math.sqrt(variance / live.drafts) if variance else live.speculative_tokens / live.drafts
    half_width = _normal_quantile((1.0 - confidence_percent / 100.0) / 2.0) * error
    return (
        max(1.0, live.acceptance_length - half_width),
        min(1.0 + live.speculative_tokens, live.acceptance_length + half_width),
    )


def live_verdict(
    live: Live | None,
    even: BreakEven | None,
    *,
    min_drafts: int,
    confidence_percent: float = 95.0,
) -> LiveVerdict:
    """Return where live traffic stands: Fail only when all of its bounds lie below all of the break-even's."""
    if live is None or live.drafts < max(1, min_drafts):
        seen = live.drafts if live else 0
        return LiveVerdict(
            verdict=Verdict.INCONCLUSIVE,
            reason=GuardReason.NO_TRAFFIC,
            message=f"{seen} drafts in the window, of {min_drafts} that say something",
        )
    lower, upper = live_bounds(live, confidence_percent=confidence_percent)
    if even is None:
        return LiveVerdict(
            verdict=Verdict.INCONCLUSIVE,
            reason=GuardReason.NO_BREAK_EVEN,
            message="no usable pair of blocks of this arm and its control",
            lower=lower,
            upper=upper,
        )
    verdict, reason, relation = _against(lower, upper, even)
    return LiveVerdict(
        verdict=verdict,
        reason=reason,
        message=(
            f"live acceptance length {live.acceptance_length:.2f} ({lower:.2f} to {upper:.2f}) is {relation} the "
            f"break-even of {even.value:.2f} ({even.lower:.2f} to {even.upper:.2f}) at concurrency {even.concurrency}"
        ),
        lower=lower,
        upper=upper,
    )


def _against(lower: float, upper: float, even: BreakEven) -> tuple[Verdict, GuardReason, str]:
    if upper < even.lower:
        return Verdict.FAIL, GuardReason.LIVE_BELOW_BASELINE, "below"
    if lower > even.upper:
        return Verdict.PASS, GuardReason.ABOVE_BREAK_EVEN, "above"
    return Verdict.INCONCLUSIVE, GuardReason.TOO_NEAR, "too near to"


def _normal_quantile(tail_probability: float) -> float:
    return statistics.NormalDist().inv_cdf(1.0 - tail_probability)
