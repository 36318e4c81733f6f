"""Quantiles of Student's t, by the incomplete beta function: the only thing scipy would be needed for.

Sources: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.5.8 (continued fraction) and 26.7.1
(distribution); Lentz, Applied Optics 15 (1976), for the order of evaluation.
"""

import functools
import math
from typing import Final

_TINY: Final = 1e-300
"""Stands for a zero denominator in Lentz's method."""
_PRECISION: Final = 1e-14
_TERMS: Final = 10_000
"""The fraction needs about the square root of the larger parameter; this is enough for millions of samples."""
_BISECTIONS: Final = 200


def tail(t: float, freedom: float) -> float:
    """Return P(T > t) for ``t >= 0`` with ``freedom`` degrees of freedom."""
    x = freedom / (freedom + t * t)
    return 0.5 * _incomplete_beta(x, freedom / 2.0, 0.5)


@functools.lru_cache(maxsize=1024)
def quantile(tail_probability: float, freedom: float) -> float:
    """Return the t that is exceeded with ``tail_probability``.

    Args:
        tail_probability: above 0 and at most 0.5.
        freedom: degrees of freedom, above 0.

    Raises:
        ValueError: when either is out of range.
    """
    if not 0.0 < tail_probability <= 0.5 or freedom <= 0.0:  # noqa: PLR2004 - the median
        raise ValueError(f"no quantile at tail {tail_probability} with {freedom} degrees of freedom")
    low, high = 0.0, 1.0
    while tail(high, freedom) > tail_probability:
        low, high = high, high * 2.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if tail(middle, freedom) > tail_probability else (low, middle)
    return (low + high) / 2.0


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b)."""
    if x in {0.0, 1.0}:
        return x
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1.0) / (a + b + 2.0):
        return math.exp(log_front) * _fraction(x, a, b) / a
    return 1.0 - math.exp(log_front) * _fraction(1.0 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of I_x(a, b), which converges for x below about a / (a + b)."""
    numerator, denominator = 1.0, 1.0 / _off_zero(1.0 - (a + b) * x / (a + 1.0))
    value = denominator
    for m in range(1, _TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            denominator = 1.0 / _off_zero(1.0 + term * denominator)
            numerator = _off_zero(1.0 + term / numerator)
            value *= numerator * denominator
        if abs(numerator * denominator - 1.0) < _PRECISION:
            return value
    raise ArithmeticError(f"the incomplete beta function does not converge at x={x}, a={a}, b={b}")


def _off_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
