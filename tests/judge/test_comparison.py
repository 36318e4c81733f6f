"""Verdicts: what passes, what fails, and what must never be either."""

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge import builders
from paceline import judge
from paceline.api.measurement import BlockOutcome, Measurement

GAIN = judge.Policy(kind=judge.Bar.BETTER, min_gain_percent=3, min_rounds=2, max_rounds=6)
KEEP = judge.Policy(kind=judge.Bar.NO_WORSE, max_regression_percent=3, min_rounds=2, max_rounds=6)


def compare(measurements: list[Measurement], policy: judge.Policy = GAIN) -> judge.Comparison:
    """Return A against B."""
    return judge.compare(measurements, candidate="A", rival="B", policy=policy)


@pytest.mark.parametrize(
    ("ratios", "policy", "verdict", "reason"),
    [
        ((1.30, 1.31, 1.29), GAIN, judge.Verdict.PASS, judge.Reason.FASTER),
        ((0.80, 0.81, 0.79), GAIN, judge.Verdict.FAIL, judge.Reason.SLOWER),
        ((1.01, 1.011, 1.01), GAIN, judge.Verdict.FAIL, judge.Reason.NO_GAIN),
        ((1.30, 0.80, 1.10), GAIN, judge.Verdict.INCONCLUSIVE, judge.Reason.TOO_NOISY),
        ((1.00, 1.001, 1.00), KEEP, judge.Verdict.PASS, judge.Reason.NO_WORSE),
        ((0.90, 0.901, 0.90), KEEP, judge.Verdict.FAIL, judge.Reason.REGRESSED),
        ((0.98, 0.96, 0.97), KEEP, judge.Verdict.INCONCLUSIVE, judge.Reason.TOO_NOISY),
        ((1.30,), GAIN, judge.Verdict.INCONCLUSIVE, judge.Reason.TOO_FEW_BLOCKS),
        ((), GAIN, judge.Verdict.INCONCLUSIVE, judge.Reason.NO_DATA),
    ],
)
def test_ratio_decides_against_the_bar(
    ratios: tuple[float, ...], policy: judge.Policy, verdict: judge.Verdict, reason: judge.Reason
) -> None:
    """The whole interval must lie on one side."""
    found = compare(builders.rounds(ratios), policy)
    assert (found.verdict, found.reason) == (verdict, reason)
    assert found.message


def test_bands_carry_their_own_ratios() -> None:
    """A draft often wins alone and loses in a crowd; the verdict takes the equally weighted whole."""
    measurements = builders.rounds((1.44, 1.45, 1.43), concurrencies=(1,))
    measurements += builders.rounds((1.0, 1.0, 1.0), concurrencies=(8,))
    found = compare(measurements)
    assert [(band.concurrency, round(band.ratio, 2)) for band in found.bands] == [(1, 1.44), (8, 1.0)]
    assert found.ratio == pytest.approx(1.2, abs=0.005)
    assert (found.samples, found.rounds) == (6, 3)


def test_steady_drift_moves_no_estimate() -> None:
    """A server that slows down evenly over the round hits both arms alike in A B B A."""
    drifting = [
        one.model_copy(update={"output_tokens": round(one.output_tokens * (1 - 0.05 * one.position))})
        for one in builders.rounds((1.0,) * 4)
    ]
    assert compare(drifting).ratio == pytest.approx(1.0, abs=0.005)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (BlockOutcome.TOO_FEW, judge.Reason.TOO_FEW_BLOCKS),
        (BlockOutcome.REQUEST_ERRORS, judge.Reason.REQUEST_ERRORS),
        (BlockOutcome.STALLED, judge.Reason.STALLED),
        (BlockOutcome.NO_TOKENS, judge.Reason.NO_TOKENS),
        (BlockOutcome.SCRAPE_ERROR, judge.Reason.SCRAPE_ERROR),
        (BlockOutcome.CONTAMINATED, judge.Reason.CONTAMINATED),
        (BlockOutcome.ARM_CHANGED, judge.Reason.ARM_CHANGED),
    ],
)
def test_unusable_blocks_are_inconclusive_with_their_reason(outcome: BlockOutcome, reason: judge.Reason) -> None:
    """One spoiled arm at one band leaves nothing to judge, however good the rest looks."""
    measurements = [
        builders.spoiled(one, outcome) if one.arm == "A" and one.concurrency == 8 else one
        for one in builders.rounds((2.0,) * 6)
    ]
    found = compare(measurements)
    assert (found.verdict, found.reason, found.ratio) == (judge.Verdict.INCONCLUSIVE, reason, None)


def test_every_outcome_but_ok_has_a_reason() -> None:
    """A new outcome of the probe must not fall through."""
    for outcome in set(BlockOutcome) - {BlockOutcome.OK}:
        measurements = [builders.spoiled(one, outcome) for one in builders.rounds((1.5, 1.5))]
        assert compare(measurements).verdict is judge.Verdict.INCONCLUSIVE


def test_ok_block_without_tokens_is_no_data() -> None:
    """What says it is fine and generated nothing is neither zero nor infinity."""
    silent = [
        one.model_copy(update={"output_tokens": 0}) if one.arm == "B" else one for one in builders.rounds((1.0, 1.0))
    ]
    found = compare(silent)
    assert (found.verdict, found.reason) == (judge.Verdict.INCONCLUSIVE, judge.Reason.NO_TOKENS)


def test_spoiled_block_drops_only_its_half() -> None:
    """Its partner goes with it, the mirrored pair stays."""
    measurements = builders.rounds((1.3, 1.3, 1.31, 1.29))
    measurements[0] = builders.spoiled(measurements[0], BlockOutcome.REQUEST_ERRORS)
    found = compare(measurements)
    assert (found.samples, found.rounds, found.verdict) == (7, 4, judge.Verdict.PASS)


def test_missing_block_never_pairs_strangers() -> None:
    """When a report lacks a block, the round at that band is left out."""
    measurements = builders.rounds((1.3, 1.3, 1.31))
    del measurements[0]
    assert compare(measurements).samples == 4


def test_report_appended_twice_counts_once() -> None:
    """A crash between append and delete repeats the append; twice the data would halve the bounds."""
    once = builders.rounds((1.3, 1.2, 1.25))
    assert compare(once + once) == compare(once)


def test_three_arms_pair_with_either_rival() -> None:
    """A B C C B A: first with first, second with second."""
    measurements = builders.rounds((1.3, 1.3, 1.31), arms="ABCCBA")
    for rival in ("B", "C"):
        found = judge.compare(measurements, candidate="A", rival=rival, policy=GAIN)
        assert (found.samples, found.verdict) == (6, judge.Verdict.PASS)


def test_dead_draft_fails_whatever_the_throughput() -> None:
    """Drafts with nothing accepted are a broken head, also when noise makes it look fast."""
    dead = [
        one.model_copy(update={"drafts": 100, "draft_tokens": 300}) if one.arm == "A" else one
        for one in builders.rounds((1.5,))
    ]
    found = compare(dead)
    assert (found.verdict, found.reason) == (judge.Verdict.FAIL, judge.Reason.DEAD_DRAFT)


def test_rounds_beyond_the_last_look_are_ignored() -> None:
    """The bounds are valid for max_rounds; whoever goes on measuring gets no further tries."""
    measurements = builders.rounds((1.3, 0.8) * 3 + (1.3,) * 40)
    assert compare(measurements) == compare(builders.rounds((1.3, 0.8) * 3))


def test_equal_samples_keep_the_width_of_counting() -> None:
    """Two blocks may agree by chance; the bounds never shrink to nothing."""
    found = compare(builders.rounds((1.3, 1.3), base_tps=2.0, concurrencies=(1,)))
    assert found.lower is not None
    assert found.ratio is not None
    assert found.lower < found.ratio * 0.98


def on_nodes(ours: str, theirs: str) -> list[Measurement]:
    """Return a gain of 12 % with each arm on a node."""
    return [one.model_copy(update={"node": ours if one.arm == "A" else theirs}) for one in builders.rounds((1.12,) * 4)]


def test_spread_between_nodes_is_in_the_bounds_of_arms_that_live_apart() -> None:
    """No number of rounds averages it out; on one node it drops out of the ratio."""
    apart = dataclasses.replace(GAIN, node_spread_percent=5.0)
    assert compare(on_nodes("one", "two"), GAIN).verdict is judge.Verdict.PASS
    assert compare(on_nodes("one", "one"), apart).verdict is judge.Verdict.PASS
    found = compare(on_nodes("one", "two"), apart)
    assert (found.verdict, found.reason) == (judge.Verdict.INCONCLUSIVE, judge.Reason.TOO_NOISY)


def test_arms_that_swap_nodes_are_compared_on_both() -> None:
    """Two pairs of nodes tell more than one."""
    apart = dataclasses.replace(GAIN, node_spread_percent=5.0)
    swapped = [
        one.model_copy(update={"node": "one" if (one.arm == "A") == bool(one.round % 2) else "two"})
        for one in builders.rounds((1.12,) * 4)
    ]
    assert (compare(swapped, apart).lower or 0) > (compare(on_nodes("one", "two"), apart).lower or 0)


LOG_RATIOS = st.lists(st.floats(min_value=0.5, max_value=2.0), min_size=2, max_size=6)


@given(LOG_RATIOS)
def test_swapped_arms_give_the_inverse(ratios: list[float]) -> None:
    """No arm is favoured."""
    measurements = builders.rounds(ratios)
    there = judge.compare(measurements, candidate="A", rival="B", policy=GAIN)
    back = judge.compare(measurements, candidate="B", rival="A", policy=GAIN)
    assert there.ratio == pytest.approx(1 / (back.ratio or 0))
    assert there.lower == pytest.approx(1 / (back.upper or 0))


@given(LOG_RATIOS, st.integers(min_value=2, max_value=50))
def test_faster_machine_gives_the_same_ratio(ratios: list[float], factor: int) -> None:
    """Only the ratio of arms counts, not what the machine can do."""
    slow = builders.rounds(ratios)
    fast = [one.model_copy(update={"output_tokens": one.output_tokens * factor}) for one in slow]
    assert compare(fast).ratio == pytest.approx(compare(slow).ratio)
    assert compare(fast).verdict is compare(slow).verdict


@given(LOG_RATIOS, st.floats(min_value=1.0, max_value=1.5))
def test_faster_candidate_is_never_judged_worse(ratios: list[float], factor: float) -> None:
    """Monotone: more throughput moves no verdict down."""
    order = [judge.Verdict.FAIL, judge.Verdict.INCONCLUSIVE, judge.Verdict.PASS]
    before = compare(builders.rounds(ratios))
    after = compare(builders.rounds([ratio * factor for ratio in ratios]))
    assert (after.ratio or 0) >= (before.ratio or 0) * 0.999
    # Rounding to whole tokens moves a ratio by 1e-5; a verdict within that of the bar may turn either way.
    if abs((before.lower or 0) - GAIN.bar) > 1e-3 and abs((before.upper or 0) - GAIN.bar) > 1e-3:
        assert order.index(after.verdict) >= order.index(before.verdict)


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=2**32), st.data())
def test_order_of_measurements_changes_nothing(seed: int, data: st.DataObject) -> None:
    """Evidence is a set."""
    measurements = builders.noisy_rounds(builders.seeded(seed), count=3, ratio=1.1, noise=0.05)
    shuffled = data.draw(st.permutations(measurements))
    assert compare(shuffled) == compare(measurements)


def looked_at_every_round(source: random.Random, *, ratio: float, noise: float, policy: judge.Policy) -> judge.Verdict:
    """Return the first verdict of someone who looks after every round and stops at the first answer."""
    measurements = builders.noisy_rounds(source, count=policy.max_rounds, ratio=ratio, noise=noise)
    for seen in range(1, policy.max_rounds + 1):
        found = compare([one for one in measurements if one.round < seen], policy)
        if found.verdict is not judge.Verdict.INCONCLUSIVE:
            return found.verdict
    return judge.Verdict.INCONCLUSIVE


@pytest.mark.parametrize("noise", [0.03, 0.15])
def test_error_rate_holds_under_continuous_looking(noise: float) -> None:
    """At the bar itself, where either verdict is wrong, both together are rarer than 5 %.

    300 runs: 5 % would be 15; 25 leaves 2.6 standard deviations, and the seed is fixed.
    """
    policy = judge.Policy(kind=judge.Bar.BETTER, min_rounds=2, max_rounds=6)
    source = builders.seeded(20_260_101)
    verdicts = [looked_at_every_round(source, ratio=1.0, noise=noise, policy=policy) for _ in range(300)]
    assert sum(one is not judge.Verdict.INCONCLUSIVE for one in verdicts) <= 25


def test_clear_gain_is_found_within_the_rounds() -> None:
    """20 % at 5 % noise a block: a judge that never says yes would be right too, and useless."""
    source = builders.seeded(7)
    verdicts = [looked_at_every_round(source, ratio=1.2, noise=0.05, policy=GAIN) for _ in range(100)]
    assert sum(one is judge.Verdict.PASS for one in verdicts) >= 99
