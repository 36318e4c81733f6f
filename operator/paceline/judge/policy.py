"""What is asked of a candidate, and how surely."""

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Bar(StrEnum):
    """What is asked of the candidate."""

    BETTER = "Better"  # faster by at least min_gain_percent
    NO_WORSE = "NoWorse"  # slower by at most max_regression_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is asked, and how surely. A limit of None is not asked."""

    kind: Bar
    min_gain_percent: float = 0.0
    """For Bar.BETTER."""
    max_regression_percent: float = 0.0
    """For Bar.NO_WORSE."""
    confidence_percent: float = 95.0
    min_rounds: int = 2
    max_rounds: int = 10
    weights: tuple[tuple[int, int], ...] = ()
    """(concurrency, weight): the share of a band in the whole. Without any all bands weigh the same; a band that is
    left out weighs nothing, and is held to the floor alone."""
    band_floor_percent: float | None = None
    """Per cent of the rival's throughput that every single band must keep."""
    max_ttft_ms: float | None = None
    """Median time to first token, in every band."""
    max_itl_ms: float | None = None
    """Mean inter-token latency, in every band."""
    max_ttft_increase_percent: float | None = None
    """Against the rival, over all bands by their weights."""
    max_itl_increase_percent: float | None = None
    node_spread_percent: float = 0.0
    """Standard deviation of throughput between nodes, for arms that lived side by side on different ones."""
    answer_tolerance_percent: float | None = None
    """Percentage points by which the candidate may agree with its control less often than the control with itself."""

    @property
    def bar(self) -> float:
        """The ratio to be above."""
        if self.kind is Bar.BETTER:
            return 1.0 + self.min_gain_percent / 100.0
        return 1.0 - self.max_regression_percent / 100.0

    @property
    def error(self) -> float:
        """The one-sided error of all looks together."""
        return (1.0 - self.confidence_percent / 100.0) / 2.0

    @property
    def looks(self) -> int:
        """How often the data may be looked at: after each round from min_rounds to max_rounds."""
        return max(1, self.max_rounds - self.min_rounds + 1)

    def shares(self, bands: Collection[tuple[int, str]]) -> dict[tuple[int, str], float]:
        """Return the share of each of ``bands`` in the whole, those without one left out.

        The weight of a concurrency is split evenly over its bands of prompt length. Where no band has a weight, all
        weigh the same.
        """
        weights = dict(self.weights) if self.weights else {concurrency: 1 for concurrency, _ in bands}
        at = Counter(concurrency for concurrency, _ in bands)
        found = {band: weights.get(band[0], 0) / at[band[0]] for band in bands if weights.get(band[0], 0)}
        found = found or dict.fromkeys(bands, 1.0)
        total = math.fsum(found.values())
        return {band: weight / total for band, weight in found.items()}
