"""Weights, the floor of a band, and the limits of latency."""

import dataclasses

import pytest

from judge import builders
from paceline import judge
from paceline.api.measurement import BlockOutcome, Measurement

GAIN = judge.Policy(kind=judge.Bar.BETTER, min_gain_percent=3, min_rounds=2, max_rounds=6)


def two_bands(*, alone: float, crowd: float, count: int = 4) -> list[Measurement]:
    """Return rounds with one ratio at concurrency 1 and another at 8, with a little noise."""
    source = builders.seeded(5)
    return [
        one
        for concurrency, ratio in ((1, alone), (8, crowd))
        for one in builders.noisy_rounds(source, count=count, ratio=ratio, noise=0.01, concurrencies=(concurrency,))
    ]


def compare(measurements: list[Measurement], **asked: object) -> judge.Comparison:
    """Return A against B under a policy with more asked."""
    return judge.compare(measurements, candidate="A", rival="B", policy=dataclasses.replace(GAIN, **asked))


@pytest.mark.parametrize(
    ("weights", "ratio", "verdict"),
    [
        ((), 1.16, judge.Verdict.PASS),
        (((1, 9), (8, 1)), 1.44, judge.Verdict.PASS),
        (((1, 1), (8, 9)), 0.94, judge.Verdict.FAIL),
        (((1, 0), (8, 1)), 0.90, judge.Verdict.FAIL),
    ],
)
def test_traffic_mix_decides_what_the_whole_is(
    weights: tuple[tuple[int, int], ...], ratio: float, verdict: judge.Verdict
) -> None:
    """The same measurements pass for those who chat alone and fail for a crowd."""
    found = compare(two_bands(alone=1.5, crowd=0.9), weights=weights)
    assert found.ratio == pytest.approx(ratio, abs=0.02)
    assert found.verdict is verdict


def test_band_without_weight_may_be_missing() -> None:
    """It counts for nothing, so its gaps cost no sample."""
    only_alone = [one for one in two_bands(alone=1.5, crowd=0.9) if one.concurrency == 1 or one.round == 0]
    assert compare(only_alone, weights=((1, 1), (8, 0))).samples == 8


@pytest.mark.parametrize(
    ("crowd", "floor", "reason"),
    [
        (0.90, None, judge.Reason.FASTER),
        (0.90, 80.0, judge.Reason.FASTER),
        (0.70, 80.0, judge.Reason.BAND_BELOW_FLOOR),
        (0.80, 80.0, judge.Reason.BAND_TOO_NOISY),
    ],
)
def test_one_band_may_not_pay_for_the_others(crowd: float, floor: float | None, reason: judge.Reason) -> None:
    """A gain of the whole does not excuse a loss beyond the floor; near it nothing is known."""
    found = compare(two_bands(alone=2.0, crowd=crowd), band_floor_percent=floor)
    assert found.reason is reason
    assert "floor" in found.message or reason is judge.Reason.FASTER


def test_band_that_was_never_usable_cannot_be_above_its_floor() -> None:
    """No data is not enough to pass, also where the band has no weight."""
    measured = [
        one if one.concurrency == 1 else builders.spoiled(one, BlockOutcome.CONTAMINATED)
        for one in two_bands(alone=1.5, crowd=1.0)
    ]
    found = compare(measured, weights=((1, 1), (8, 0)), band_floor_percent=80.0)
    assert (found.verdict, found.reason) == (judge.Verdict.INCONCLUSIVE, judge.Reason.BAND_TOO_NOISY)


def latent(*, ours: float, theirs: float, field: str) -> list[Measurement]:
    """Return rounds of a clear gain with latencies of both arms."""
    return [
        one.model_copy(update={field: (ours if one.arm == "A" else theirs) * (1 + 0.01 * (index % 3))})
        for index, one in enumerate(two_bands(alone=1.5, crowd=1.5))
    ]


@pytest.mark.parametrize(("field", "above"), [("ttft_ms", "TTFTAboveLimit"), ("itl_ms", "ITLAboveLimit")])
@pytest.mark.parametrize("absolute", [True, False])
def test_gain_does_not_excuse_latency(field: str, above: str, absolute: bool) -> None:  # noqa: FBT001 - a table's row
    """Each latency by a limit of its own, in milliseconds or against the rival."""
    limit = f"max_{field}" if absolute else f"max_{field.removesuffix('_ms')}_increase_percent"
    asked = {limit: 120.0 if absolute else 20.0}
    assert compare(latent(ours=100.0, theirs=100.0, field=field), **asked).verdict is judge.Verdict.PASS
    found = compare(latent(ours=150.0, theirs=100.0, field=field), **asked)
    assert (found.verdict, found.reason.value) == (judge.Verdict.FAIL, above)


def test_latency_that_was_not_measured_never_passes() -> None:
    """A limit is asked, and nobody knows."""
    found = compare(two_bands(alone=1.5, crowd=1.5), max_ttft_ms=100.0)
    assert (found.verdict, found.reason) == (judge.Verdict.INCONCLUSIVE, judge.Reason.TTFT_UNCLEAR)
