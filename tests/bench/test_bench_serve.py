"""Two clients of one server, compared."""

import pytest

from bench import bench_serve


def test_interval_is_of_the_ratio_by_repeat():
    """What changes both clients' figures alike from repeat to repeat is not in it."""
    pairs = [(pace * tilt, pace) for pace, tilt in zip((100, 150, 80, 120), (1.01, 1.03, 1.01, 1.03), strict=True)]
    found = bench_serve.ratio_of(pairs)
    assert found["ratio"] == pytest.approx(1.02, abs=1e-3)
    # mean 1.98 %, standard deviation 1.13 %, t of 3 degrees of freedom 3.18
    assert found["lower"] == pytest.approx(1.0017, abs=1e-3)
    assert found["upper"] == pytest.approx(1.0383, abs=1e-3)


@pytest.mark.parametrize(
    ("lower", "upper", "agrees"), [(0.96, 1.04, True), (0.94, 1.0, False), (1.0, 1.06, False), (0.9, 1.2, False)]
)
def test_clients_agree_when_the_whole_interval_lies_within_five_percent(lower, upper, agrees):
    """A wide interval that holds 1 is no agreement."""
    assert bench_serve.agrees({"lower": lower, "upper": upper}) is agrees
