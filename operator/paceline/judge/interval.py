"""Mean and bounds of paired log ratios, valid over several looks.

Each look spends an equal share of the error (Bonferroni over looks): the bounds of all looks together hold with the
stated confidence, whenever one stops. It needs no assumption on how the looks depend on each other, and costs little at
the few looks there are; an alpha-spending boundary would be tighter.

Sources: Student, Biometrika 6 (1908); Dunn, J. Am. Stat. Assoc. 56 (1961) 52; Jennison and Turnbull, Group Sequential
Methods with Applications to Clinical Trials (2000), chapters 2 and 7. Ratios by their logarithms, and intervals instead
of single samples: Kalibera and Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013.
"""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A ratio with its confidence bounds."""

    ratio: float
    lower: float
    upper: float


def of_log_ratios(
    samples: Sequence[float], *, confidence: float, looks: int, resolution: float = 0.0
) -> Interval | None:
    """Return the two-sided interval of the geometric mean; None for fewer than MIN_SAMPLES.

    Args:
        samples: logarithms of ratios.
        confidence: of all looks together, 0 to 1.
        looks: how often data may be looked at, at least 1.
        resolution: standard deviation of one sample that comes from counting alone; the spread is never taken for less,
            since two samples may agree by chance.
    """
    if len(samples) < MIN_SAMPLES:
        return None
    mean = math.fsum(samples) / len(samples)
    spread = max(statistics.stdev(samples), resolution)
    factor = student.quantile((1.0 - confidence) / 2.0 / looks, len(samples) - 1)
    half_width = factor * spread / math.sqrt(len(samples))
    return Interval(ratio=_exp(mean), lower=_exp(mean - half_width), upper=_exp(mean + half_width))


def _exp(value: float) -> float:
    return math.exp(max(-_WIDEST, min(_WIDEST, value)))
