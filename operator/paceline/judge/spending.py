"""How surely a look must speak, so that all looks together err no more often than asked.

The error is spent bit by bit: by round n of N at most ``error x (n / N) ** POWER`` of it. What a look may spend
depends on what earlier looks left: two looks at nearly the same data are nearly one. The exact amount follows from the
joint distribution of the looks, by integrating over all ways in which earlier looks did not stop. A candidate that is
far from the bar is decided early, and one that needs every round pays less than an even split (Bonferroni) would cost
it.

Boundaries are worked out for a known variance and handed on as tail probabilities, for which the caller takes Student's
t of its own samples. Tests measure what this approximation costs: nothing that 10,000 runs show.

Sources: Lan and DeMets, Biometrika 70 (1983) 659, error spending; Kim and DeMets, Biometrika 74 (1987) 149, the power
family; Armitage, McPherson and Rowe, J. R. Stat. Soc. A 132 (1969) 235, the recursion; Jennison and Turnbull, Group
Sequential Methods with Applications to Clinical Trials (2000), 7.2, 11.5 (tail probabilities carried over to t) and
19.2 (the integration).
"""

import functools
import math
import statistics
from dataclasses import dataclass
from typing import Final

POWER: Final = 1.5
"""Between Pocock's even spending (1) and O'Brien and Fleming's late one (3): few samples make an early look weak, so
that spending much on it is wasted, and serving costs money, so that an early answer is worth something."""
_GRID: Final = 80
"""Intervals of Simpson's rule: tails are off by less than half a per cent of themselves, at 50 looks."""
_REACH: Final = 8.0
"""Standard deviations beyond which nothing is left to integrate."""
_BISECTIONS: Final = 60
_NORMAL: Final = statistics.NormalDist()
_LEAST: Final = 1e-12
"""Less error than this is none that a normal tail could tell."""
_ROOT_TAU: Final = math.sqrt(2.0 * math.pi)


def tail(samples: tuple[int, ...], shares: tuple[float, ...], *, error: float) -> float:
    """Return the one-sided tail probability that the last look may use.

    Args:
        samples: how many samples each look had, in order; a look that saw no more than the one before adds none.
        shares: how far each look was on the way to the last one allowed, above 0 and at most 1.
        error: one-sided, of all looks together.

    Raises:
        ValueError: when there is no look, or a look has no sample.
    """
    if not samples or len(samples) != len(shares) or samples[0] < 1:
        raise ValueError(f"{len(samples)} looks with {len(shares)} shares; every look needs a sample and a share")
    looks = [(samples[0], _spent(shares[0], error))]
    for count, share in zip(samples[1:], shares[1:], strict=True):
        spent = _spent(share, error)
        if count > looks[-1][0]:
            looks.append((count, spent))
    return _NORMAL.cdf(-_look(tuple(looks)).boundary)


def _spent(share: float, error: float) -> float:
    return max(_LEAST, error * math.pow(min(1.0, share), POWER))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One look: where it stops, and how the sum of samples is distributed if it did not."""

    boundary: float
    """In standard deviations of the sum."""
    points: tuple[float, ...]
    weights: tuple[float, ...]
    """Probability at each point: density times step."""


@functools.lru_cache(maxsize=1024)
def _look(looks: tuple[tuple[int, float], ...]) -> _Look:
    """Return the last of ``looks``, each with its number of samples and the error spent until then."""
    count, spent = looks[-1]
    deviation = math.sqrt(count)
    if len(looks) == 1:
        boundary = -_NORMAL.inv_cdf(spent)
        points, step = _grid(deviation, boundary)
        return _Look(
            boundary=boundary,
            points=points,
            weights=_simpson([_density(point / deviation) / deviation for point in points], step),
        )
    before = _look(looks[:-1])
    noise = math.sqrt(count - looks[-2][0])
    boundary = _boundary(before, noise=noise, deviation=deviation, left=spent - looks[-2][1])
    points, step = _grid(deviation, boundary)
    densities = [
        math.fsum(
            weight * _density((point - earlier) / noise)
            for earlier, weight in zip(before.points, before.weights, strict=True)
        )
        / noise
        for point in points
    ]
    return _Look(boundary=boundary, points=points, weights=_simpson(densities, step))


def _boundary(before: _Look, *, noise: float, deviation: float, left: float) -> float:
    """Return the boundary that is crossed now, and was not crossed before, with probability ``left``."""
    low, high = 0.0, _REACH
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        crossed = math.fsum(
            weight * 0.5 * math.erfc((middle * deviation - earlier) / noise / math.sqrt(2.0))
            for earlier, weight in zip(before.points, before.weights, strict=True)
        )
        low, high = (middle, high) if crossed > left else (low, middle)
    return high


def _grid(deviation: float, boundary: float) -> tuple[tuple[float, ...], float]:
    low, high = -_REACH * deviation, boundary * deviation
    step = (high - low) / _GRID
    return tuple(low + step * number for number in range(_GRID + 1)), step


def _simpson(densities: list[float], step: float) -> tuple[float, ...]:
    """Return the probabilities that Simpson's rule gives to evenly spaced densities."""
    last = len(densities) - 1
    return tuple(
        density * step / 3.0 * (1 if number in {0, last} else 4 if number % 2 else 2)
        for number, density in enumerate(densities)
    )


def _density(deviations: float) -> float:
    return math.exp(-0.5 * deviations * deviations) / _ROOT_TAU
