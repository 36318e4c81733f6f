"""Mean and bounds of paired log ratios.

The spread of a mean is that of its samples by the square root of their number, if they are independent. Neighbouring
samples of one server are not always: their lag-one correlation shrinks the number of samples that counts. Only a
correlation above zero is corrected for: below zero, as a drift makes it between the halves of A B B A, the bounds are
wider than they need to be, which errs on the safe side.

Sources: Student, Biometrika 6 (1908); Dunn, J. Am. Stat. Assoc. 56 (1961) 52 (an even split over looks); Bartlett,
J. R. Stat. Soc. 98 (1935) 536 (the number of samples that counts); Marriott and Pope, Biometrika 41 (1954) 390 (the
correlation is estimated too low by one over the samples). Ratios by their logarithms, and intervals instead of single
samples: Kalibera and Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from paceline.judge import student

MIN_SAMPLES: Final = 2
"""One sample has no spread."""
_WIDEST: Final = math.log(1000.0)
"""A bound beyond a thousandfold says nothing more, and stays printable."""
MOST_CORRELATION: Final = 0.9
"""Beyond it so few samples count that no bound says anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A ratio with its confidence bounds."""

    ratio: float
    lower: float
    upper: float


def of_samples(
    samples: Sequence[float], *, tail: float, resolution: float = 0.0, shared: float = 0.0
) -> Interval | None:
    """Return the two-sided interval of the geometric mean; None for fewer than MIN_SAMPLES.

    Args:
        samples: logarithms of ratios, in the order they were measured.
        tail: probability of either bound to be wrong.
        resolution: standard deviation of one sample that comes from counting alone; the spread is never taken for less,
            since two samples may agree by chance.
        shared: standard deviation of what all samples have in common, so that no number of them averages it out.
    """
    if len(samples) < MIN_SAMPLES:
        return None
    mean = math.fsum(samples) / len(samples)
    spread = max(statistics.stdev(samples), resolution) * math.sqrt(_inflation(samples, mean))
    own = student.quantile(tail, len(samples) - 1) * spread / math.sqrt(len(samples))
    return around(mean, math.hypot(own, statistics.NormalDist().inv_cdf(1.0 - tail) * shared))


def of_log_ratios(
    samples: Sequence[float], *, confidence: float, looks: int, resolution: float = 0.0
) -> Interval | None:
    """Return the interval whose error is split evenly over ``looks``; None for fewer than MIN_SAMPLES.

    Args:
        samples: logarithms of ratios, in the order they were measured.
        confidence: of all looks together, 0 to 1.
        looks: how often data may be looked at, at least 1.
        resolution: as of :func:`of_samples`.
    """
    return of_samples(samples, tail=(1.0 - confidence) / 2.0 / looks, resolution=resolution)


def around(mean: float, half_width: float) -> Interval:
    """Return the interval of a mean log ratio."""
    return Interval(ratio=_exp(mean), lower=_exp(mean - half_width), upper=_exp(mean + half_width))


def _inflation(samples: Sequence[float], mean: float) -> float:
    """Return by how much correlated neighbours widen the variance of a mean; at least 1."""
    differences = [one - mean for one in samples]
    squares = math.fsum(one * one for one in differences)
    if not squares:
        return 1.0
    products = math.fsum(one * other for one, other in itertools.pairwise(differences))
    correlation = max(0.0, min(MOST_CORRELATION, products / squares + 1.0 / len(samples)))
    return (1.0 + correlation) / (1.0 - correlation)


def _exp(value: float) -> float:
    return math.exp(max(-_WIDEST, min(_WIDEST, value)))
