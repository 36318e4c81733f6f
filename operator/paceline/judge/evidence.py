"""What a design makes of measurements: the numbers that are held against the policy, whichever way the arms lived."""

from dataclasses import dataclass

from paceline.judge.interval import Interval
from paceline.judge.verdicts import Band


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A latency of the candidate itself at one concurrency, in milliseconds."""

    concurrency: int
    prompt_band: str
    bounds: Interval | None
    """None where it was measured too seldom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """One kind of latency."""

    ratio: Interval | None = None
    """Candidate over rival, over all bands by their weights; None where it was measured too seldom."""
    levels: tuple[Level, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The numbers of a comparison, whatever the verdict."""

    whole: Interval | None = None
    ratio: float | None = None
    """Known from the first sample on, before there are bounds."""
    bands: tuple[Band, ...] = ()
    missing_bands: tuple[tuple[int, str], ...] = ()
    """Bands that were driven and have no bounds."""
    ttft: Latency = Latency()
    itl: Latency = Latency()
    rounds: int = 0
    samples: int = 0
