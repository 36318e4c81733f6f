"""One arm against another: Pass, Fail or Inconclusive, with the ratio and its bounds.

A sample is the mean log ratio over all bands, equally weighted, in one half of one round: two samples a round. The
verdict compares the interval with the bar, never the estimate: Pass when the whole interval lies above it, Fail when it
lies below, and otherwise nothing is known yet.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from paceline.api.measurement import BlockOutcome, Measurement
from paceline.judge import interval, pairs

DEAD_AFTER_DRAFTS: Final = 100
"""A head whose first token is accepted once in twenty drafts, a hopeless one, shows none in 100 drafts in less than one
case of a hundred."""


class Verdict(StrEnum):
    """What the measurements say."""

    PASS = "Pass"  # noqa: S105 - not a password
    FAIL = "Fail"
    INCONCLUSIVE = "Inconclusive"


class Bar(StrEnum):
    """What is asked of the candidate."""

    BETTER = "Better"  # faster by at least min_gain_percent
    NO_WORSE = "NoWorse"  # slower by at most max_regression_percent


class Reason(StrEnum):
    """Why; each belongs to one verdict."""

    # Pass
    FASTER = "Faster"
    NO_WORSE = "NoWorse"
    # Fail
    SLOWER = "Slower"  # below the rival itself
    NO_GAIN = "NoGain"  # perhaps not slower, yet certainly below the asked gain
    REGRESSED = "Regressed"  # slower than the rival by more than is allowed
    DEAD_DRAFT = "DeadDraft"  # drafts, and nothing accepted
    # Inconclusive
    NO_DATA = "NoData"  # an arm was never measured
    TOO_FEW_BLOCKS = "TooFewBlocks"  # fewer usable rounds than asked for
    TOO_NOISY = "TooNoisy"  # the bounds hold the bar between them
    NOT_SIDE_BY_SIDE = "NotSideBySide"  # arms lived one after the other; their loads differ by chance
    REQUEST_ERRORS = "RequestErrors"  # too few usable blocks, mostly for this reason; and so on
    STALLED = "Stalled"
    NO_TOKENS = "NoTokens"
    SCRAPE_ERROR = "ScrapeError"
    CONTAMINATED = "Contaminated"
    ARM_CHANGED = "ArmChanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is asked, and how surely."""

    kind: Bar
    min_gain_percent: float = 0.0
    """For Bar.BETTER."""
    max_regression_percent: float = 0.0
    """For Bar.NO_WORSE."""
    confidence_percent: float = 95.0
    min_rounds: int = 2
    max_rounds: int = 6

    @property
    def bar(self) -> float:
        """The ratio to be above."""
        if self.kind is Bar.BETTER:
            return 1.0 + self.min_gain_percent / 100.0
        return 1.0 - self.max_regression_percent / 100.0

    @property
    def looks(self) -> int:
        """How often the data may be looked at: after each round from min_rounds to max_rounds."""
        return max(1, self.max_rounds - self.min_rounds + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The ratio at one concurrency. It explains; the verdict is taken over all bands together."""

    concurrency: int
    prompt_band: str = "all"
    ratio: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The answer."""

    verdict: Verdict
    reason: Reason
    message: str
    ratio: float | None = None
    """Throughput of the candidate over the rival's; None when nothing could be paired."""
    lower: float | None = None
    upper: float | None = None
    bands: tuple[Band, ...] = field(default=())
    rounds: int = 0
    """Rounds with at least one usable sample."""
    samples: int = 0


def compare(measurements: Sequence[Measurement], *, candidate: str, rival: str, policy: Policy) -> Comparison:
    """Return what ``measurements`` say of two arms.

    Args:
        measurements: of any number of rounds, in any order; rounds after the policy's ``max_rounds`` are ignored, since
            the bounds are valid for so many looks.
        candidate: the arm that is to be promoted.
        rival: the arm it is compared with.
        policy: what is asked.
    """
    kept = _first_rounds(measurements, policy.max_rounds)
    paired = pairs.pair(kept, candidate=candidate, rival=rival)
    halves = pairs.samples(paired)
    summary = _Summary.of(paired, halves, policy)
    if _is_dead(kept, candidate):
        return summary.answer(Verdict.FAIL, Reason.DEAD_DRAFT, "drafts were made and not one token was accepted")
    if summary.rounds < policy.min_rounds or summary.whole is None:
        return _too_few(paired, summary, kept, arms=(candidate, rival), policy=policy)
    return _judged(summary, summary.whole, policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    """The numbers of a comparison, whatever the verdict."""

    whole: interval.Interval | None
    ratio: float | None
    bands: tuple[Band, ...]
    rounds: int
    samples: int

    @classmethod
    def of(cls, paired: pairs.Paired, halves: dict[tuple[int, int], list[pairs.Pair]], policy: Policy) -> "_Summary":
        """Return the summary of all usable halves."""
        values = [math.fsum(one.log_ratio for one in group) / len(group) for group in halves.values()]
        return cls(
            whole=_interval(values, [one for group in halves.values() for one in group], policy, len(paired.bands)),
            ratio=math.exp(math.fsum(values) / len(values)) if values else None,
            bands=tuple(band for key in paired.bands if (band := _band(paired, key, policy)) is not None),
            rounds=len({number for number, _ in halves}),
            samples=len(values),
        )

    def answer(self, verdict: Verdict, reason: Reason, message: str) -> Comparison:
        """Return these numbers with a verdict."""
        return Comparison(
            verdict=verdict,
            reason=reason,
            message=message,
            ratio=self.ratio,
            lower=self.whole.lower if self.whole else None,
            upper=self.whole.upper if self.whole else None,
            bands=self.bands,
            rounds=self.rounds,
            samples=self.samples,
        )


def _judged(summary: _Summary, whole: interval.Interval, policy: Policy) -> Comparison:
    """Return the verdict of an interval against the bar."""
    said = f"{whole.ratio:.3f} times the rival's throughput ({whole.lower:.3f} to {whole.upper:.3f})"
    if whole.lower > policy.bar:
        reason = Reason.FASTER if policy.kind is Bar.BETTER else Reason.NO_WORSE
        return summary.answer(Verdict.PASS, reason, f"{said}, above the bar of {policy.bar:.3f}")
    if whole.upper < policy.bar:
        reason = Reason.REGRESSED
        if policy.kind is Bar.BETTER:
            reason = Reason.SLOWER if whole.upper < 1.0 else Reason.NO_GAIN
        return summary.answer(Verdict.FAIL, reason, f"{said}, below the bar of {policy.bar:.3f}")
    return summary.answer(
        Verdict.INCONCLUSIVE, Reason.TOO_NOISY, f"{said}; the bounds hold the bar of {policy.bar:.3f} between them"
    )


def _too_few(
    paired: pairs.Paired,
    summary: _Summary,
    measurements: Sequence[Measurement],
    *,
    arms: tuple[str, str],
    policy: Policy,
) -> Comparison:
    """Return Inconclusive, by what kept blocks from being used."""
    missing = [arm for arm in arms if not any(one.arm == arm for one in measurements)]
    if missing:
        return summary.answer(Verdict.INCONCLUSIVE, Reason.NO_DATA, f"no block of {' and '.join(missing)} was measured")
    if paired.alternating:
        return summary.answer(
            Verdict.INCONCLUSIVE,
            Reason.NOT_SIDE_BY_SIDE,
            f"{paired.alternating} of {paired.blocks} blocks come from arms that lived one after the other",
        )
    said = f"{summary.rounds} usable rounds of the {policy.min_rounds} that a verdict needs"
    if paired.dropped:
        outcome, count = max(paired.dropped.items(), key=lambda item: item[1])
        said += f"; {count} of {paired.blocks} blocks ended {outcome}"
        return summary.answer(Verdict.INCONCLUSIVE, _reason_of(outcome), said)
    return summary.answer(Verdict.INCONCLUSIVE, Reason.TOO_FEW_BLOCKS, said)


def _reason_of(outcome: BlockOutcome) -> Reason:
    return Reason.TOO_FEW_BLOCKS if outcome is BlockOutcome.TOO_FEW else Reason(outcome.value)


def _interval(
    values: Sequence[float], used: Sequence[pairs.Pair], policy: Policy, bands: int
) -> interval.Interval | None:
    """Return the interval of samples that are each a mean over ``bands`` of the pairs ``used``."""
    if not used:
        return None
    variance = math.fsum(one.resolution**2 for one in used) / len(used) / bands
    return interval.of_log_ratios(
        values,
        confidence=policy.confidence_percent / 100.0,
        looks=policy.looks,
        resolution=math.sqrt(variance),
    )


def _band(paired: pairs.Paired, key: tuple[int, str], policy: Policy) -> Band | None:
    used = [one for one in paired.pairs if one.band == key]
    found = _interval([one.log_ratio for one in used], used, policy, 1)
    if found is None:
        return None
    return Band(concurrency=key[0], prompt_band=key[1], ratio=found.ratio, lower=found.lower, upper=found.upper)


def _first_rounds(measurements: Sequence[Measurement], limit: int) -> list[Measurement]:
    """Return the measurements of the first ``limit`` rounds."""
    numbers = sorted({one.round for one in measurements})[:limit]
    return [one for one in measurements if one.round in numbers]


def _is_dead(measurements: Sequence[Measurement], arm: str) -> bool:
    usable = [one for one in measurements if one.arm == arm and one.outcome is BlockOutcome.OK]
    drafts = sum(one.drafts for one in usable)
    return drafts >= DEAD_AFTER_DRAFTS and not any(one.accepted_tokens for one in usable)
