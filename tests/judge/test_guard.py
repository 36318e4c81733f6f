"""The guard's arithmetic: break-even, and live traffic against it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge import builders
from paceline.api.measurement import BlockOutcome, Measurement
from paceline.judge import Verdict, guard

EVEN = guard.BreakEven(concurrency=8, value=1.5, lower=1.4, upper=1.6, probe_acceptance_length=2.4, samples=8)


def drafting(measurements: list[Measurement], *, acceptance_length: float) -> list[Measurement]:
    """Return the blocks with arm A speculating."""
    return [
        one.model_copy(update={"drafts": 1000, "accepted_tokens": round((acceptance_length - 1) * 1000)})
        if one.arm == "A"
        else one
        for one in measurements
    ]


def live(acceptance_length: float, drafts: int = 2000) -> guard.Live:
    """Return a live window of k = 3."""
    return guard.Live(acceptance_length=acceptance_length, drafts=drafts, speculative_tokens=3)


def test_break_even_is_acceptance_over_ratio() -> None:
    """2.4 tokens a step at 1.6 times the throughput: a step costs 1.5 times the control's."""
    measurements = drafting(builders.rounds((1.6, 1.61, 1.59)), acceptance_length=2.4)
    found = guard.break_even(measurements, arm="A", control="B", concurrency=8)
    assert found is not None
    assert (found.concurrency, found.samples, found.probe_acceptance_length) == (8, 6, pytest.approx(2.4))
    assert found.value == pytest.approx(1.5, abs=0.01)
    assert 1.45 < found.lower < found.value < found.upper < 1.55


def test_break_even_does_not_depend_on_what_the_probe_accepted() -> None:
    """The same step cost seen through easy and hard prompts."""
    easy = drafting(builders.rounds((1.6, 1.6)), acceptance_length=2.4)
    hard = drafting(builders.rounds((1.0, 1.0)), acceptance_length=1.5)
    values = [guard.break_even(one, arm="A", control="B", concurrency=1) for one in (easy, hard)]
    assert [round(one.value, 2) for one in values if one] == [1.5, 1.5]


def test_bounds_cover_the_truth() -> None:
    """In 95 of 100 runs; 300 runs at a fixed seed, 20 misses leave 1.3 standard deviations."""
    source = builders.seeded(11)
    missed = 0
    for _ in range(300):
        measurements = drafting(
            builders.noisy_rounds(source, count=3, ratio=1.6, noise=0.06, concurrencies=(8,)), acceptance_length=2.4
        )
        found = guard.break_even(measurements, arm="A", control="B", concurrency=8)
        assert found is not None
        missed += not found.lower <= 1.5 <= found.upper
    assert missed <= 20


@pytest.mark.parametrize(
    "measurements",
    [
        [],
        builders.rounds((1.6, 1.6)),  # no drafts: not speculating
        [
            builders.spoiled(one, BlockOutcome.CONTAMINATED)
            for one in drafting(builders.rounds((1.6,)), acceptance_length=2)
        ],
    ],
    ids=["nothing", "no drafts", "contaminated"],
)
def test_no_usable_pairs_give_no_break_even(measurements: list[Measurement]) -> None:
    """None, which decides nothing."""
    assert guard.break_even(measurements, arm="A", control="B", concurrency=8) is None


@pytest.mark.parametrize(
    ("seen", "even", "verdict", "reason"),
    [
        (live(2.3), EVEN, Verdict.PASS, guard.GuardReason.ABOVE_BREAK_EVEN),
        (live(1.2), EVEN, Verdict.FAIL, guard.GuardReason.LIVE_BELOW_BASELINE),
        (live(1.39), EVEN, Verdict.INCONCLUSIVE, guard.GuardReason.TOO_NEAR),
        (live(1.0, drafts=400), EVEN, Verdict.FAIL, guard.GuardReason.LIVE_BELOW_BASELINE),
        (live(1.0, drafts=399), EVEN, Verdict.INCONCLUSIVE, guard.GuardReason.NO_TRAFFIC),
        (None, EVEN, Verdict.INCONCLUSIVE, guard.GuardReason.NO_TRAFFIC),
        (live(1.2), None, Verdict.INCONCLUSIVE, guard.GuardReason.NO_BREAK_EVEN),
    ],
)
def test_live_traffic_against_break_even(
    seen: guard.Live | None, even: guard.BreakEven | None, verdict: Verdict, reason: guard.GuardReason
) -> None:
    """Fail only when nothing overlaps; missing data never."""
    found = guard.live_verdict(seen, even, min_drafts=400)
    assert (found.verdict, found.reason) == (verdict, reason)


@given(length=st.floats(min_value=1.0, max_value=4.0), drafts=st.integers(min_value=1, max_value=10**6))
def test_live_bounds_hold_the_estimate_and_stay_possible(length: float, drafts: int) -> None:
    """Between one token and k + 1 a step."""
    lower, upper = guard.live_bounds(live(length, drafts))
    assert 1.0 <= lower <= length <= upper <= 4.0


def test_nearest_concurrency_goes_by_ratio() -> None:
    """3 is nearer to 4 than to 1, and 0.2 requests in flight are one."""
    measurements = builders.rounds((1.0,), concurrencies=(1, 4, 32))
    found = [guard.nearest_concurrency(measurements, arm="A", concurrency=one) for one in (0.2, 3.0, 10.0, 500.0)]
    assert found == [1, 4, 4, 32]
    assert guard.nearest_concurrency([], arm="A", concurrency=1.0) is None
