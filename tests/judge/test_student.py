"""Student's t against published tables."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.judge import student


@pytest.mark.parametrize(
    ("tail", "freedom", "expected"),
    [
        # NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2
        (0.10, 1, 3.078),
        (0.05, 1, 6.314),
        (0.025, 1, 12.706),
        (0.005, 1, 63.657),
        (0.025, 2, 4.303),
        (0.025, 3, 3.182),
        (0.005, 3, 5.841),
        (0.025, 4, 2.776),
        (0.05, 5, 2.015),
        (0.025, 7, 2.365),
        (0.01, 10, 2.764),
        (0.025, 11, 2.201),
        (0.005, 30, 2.750),
        (0.001, 60, 3.232),
        (0.025, 100, 1.984),
    ],
)
def test_quantile_equals_the_published_table(tail: float, freedom: int, expected: float) -> None:
    """To the table's three decimals."""
    assert student.quantile(tail, freedom) == pytest.approx(expected, abs=1e-3)


@given(st.floats(min_value=1e-6, max_value=0.5))
def test_one_and_two_degrees_equal_their_closed_forms(tail: float) -> None:
    """The Cauchy distribution, and the one case that is algebraic: far out in the tail, where tables end."""
    assert student.quantile(tail, 1) == pytest.approx(math.tan(math.pi * (0.5 - tail)), rel=1e-6, abs=1e-7)
    closed = (1 - 2 * tail) / math.sqrt(2 * tail * (1 - tail))
    assert student.quantile(tail, 2) == pytest.approx(closed, rel=1e-6, abs=1e-7)


def test_many_degrees_of_freedom_are_the_normal_distribution() -> None:
    """The fraction still converges there."""
    assert student.quantile(0.025, 1e6) == pytest.approx(1.95996, abs=1e-4)


@given(tail=st.floats(min_value=1e-6, max_value=0.5), freedom=st.integers(min_value=1, max_value=10_000))
def test_quantile_inverts_the_tail(tail: float, freedom: int) -> None:
    """Over the whole range that is used."""
    assert student.tail(student.quantile(tail, freedom), freedom) == pytest.approx(tail, rel=1e-6)


@pytest.mark.parametrize(("tail", "freedom"), [(0.0, 5), (0.6, 5), (0.1, 0)])
def test_impossible_arguments_are_refused(tail: float, freedom: int) -> None:
    """Instead of an endless search."""
    with pytest.raises(ValueError, match="no quantile"):
        student.quantile(tail, freedom)
