"""How surely a look must speak."""

import itertools
import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge import builders
from paceline.judge import spending


def tails(rounds: int, *, first: int, error: float = 0.025) -> list[float]:
    """Return the tail of every look after two samples a round."""
    return [
        spending.tail(
            tuple(2 * number for number in range(first, look + 1)),
            tuple(number / rounds for number in range(first, look + 1)),
            error=error,
        )
        for look in range(first, rounds + 1)
    ]


def test_single_look_spends_everything() -> None:
    """Without other looks it is an ordinary test."""
    assert spending.tail((8,), (1.0,), error=0.025) == pytest.approx(0.025)


def test_textbook_boundaries_are_met() -> None:
    """Five even looks, one-sided 0.025, spent as the power 1.5 of time: z by the published recursion.

    The value of the first look is the normal quantile of 0.025 x 0.2^1.5 in closed form.
    """
    found = tails(5, first=1)
    assert found[0] == pytest.approx(0.025 * 0.2**1.5, rel=1e-6)
    assert all(before < after for before, after in itertools.pairwise(found))


@pytest.mark.parametrize(("rounds", "first"), [(1, 1), (6, 2), (12, 2)])
def test_all_looks_together_spend_what_is_asked(rounds: int, first: int) -> None:
    """Random walks that stop at the first crossing: 2.5 % do, within three standard deviations of 10,000 runs."""
    limits = [statistics.NormalDist().inv_cdf(1.0 - tail) for tail in tails(rounds, first=first)]
    source = builders.seeded(11)
    crossed = 0
    for _ in range(10_000):
        walk = list(itertools.accumulate(source.gauss(0.0, math.sqrt(2.0)) for _ in range(rounds)))
        crossed += any(walk[look - 1] / math.sqrt(2.0 * look) > limit for look, limit in enumerate(limits, start=first))
    assert crossed / 10_000 == pytest.approx(0.025, abs=0.0047)


def test_last_look_gets_more_than_an_even_split() -> None:
    """Which is what the integration is for: looks resemble each other, so their errors overlap."""
    assert tails(6, first=2)[-1] > 2 * 0.025 / 5


def test_look_without_new_samples_is_no_look() -> None:
    """A round that brought nothing usable spends nothing twice."""
    assert spending.tail((4, 4), (0.4, 0.6), error=0.025) == spending.tail((4,), (0.4,), error=0.025)


@pytest.mark.parametrize("samples", [(), (0,)])
def test_look_without_samples_is_refused(samples: tuple[int, ...]) -> None:
    """Rather than giving a boundary for nothing."""
    with pytest.raises(ValueError, match="every look needs a sample"):
        spending.tail(samples, (0.5,) * len(samples), error=0.025)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(min_value=0, max_value=8), min_size=1, max_size=6), st.floats(0.005, 0.2))
def test_tail_never_exceeds_the_error(increments: list[int], error: float) -> None:
    """Whatever rounds were lost on the way."""
    samples = tuple(itertools.accumulate([increments[0] + 2, *increments[1:]]))
    shares = tuple((number + 1) / len(samples) for number in range(len(samples)))
    assert 0.0 < spending.tail(samples, shares, error=error) <= error * 1.001
