"""Measurements that look well and may not be trusted."""

import pytest

from judge import builders
from paceline import judge
from paceline.api.measurement import BlockOutcome, Measurement
from paceline.judge import soundness

GAIN = judge.Policy(kind=judge.Bar.BETTER, min_gain_percent=3, min_rounds=2, max_rounds=6)


def compare(measurements: list[Measurement]) -> judge.Comparison:
    """Return A against B."""
    return judge.compare(measurements, candidate="A", rival="B", policy=GAIN)


def gain(count: int = 4) -> list[Measurement]:
    """Return rounds that pass on their throughput alone."""
    return builders.noisy_rounds(builders.seeded(3), count=count, ratio=1.4, noise=0.01)


def test_gain_passes_as_long_as_nothing_is_wrong() -> None:
    """What the tests below spoil."""
    assert compare(gain()).verdict is judge.Verdict.PASS


@pytest.mark.parametrize("outcome", sorted(soundness.OWN_FAULTS))
@pytest.mark.parametrize("arm", ["A", "B"])
def test_arm_that_fails_now_and_then_is_not_judged_by_what_went_well(outcome: BlockOutcome, arm: str) -> None:
    """Every fourth block is lost and three rounds are left, which alone would pass."""
    spoiled = [builders.spoiled(one, outcome) if one.arm == arm and one.round == 0 else one for one in gain()]
    found = compare(spoiled)
    assert (found.verdict, found.reason.value) == (judge.Verdict.INCONCLUSIVE, outcome.value)


def test_one_request_in_a_hundred_failing_is_no_pass() -> None:
    """Also where blocks with errors were somehow used."""
    failing = [one.model_copy(update={"requests": 100, "errors": int(one.arm == "A")}) for one in gain()]
    found = compare(failing)
    assert (found.verdict, found.reason) == (judge.Verdict.INCONCLUSIVE, judge.Reason.REQUEST_ERRORS)
    assert "requests to A failed" in found.message


def test_slow_arm_fails_although_it_also_errs() -> None:
    """Errors keep from passing, not from failing: a slow candidate does not live longer for being broken too."""
    slow = builders.noisy_rounds(builders.seeded(3), count=4, ratio=0.7, noise=0.01)
    failing = [one.model_copy(update={"requests": 100, "errors": int(one.arm == "A")}) for one in slow]
    assert compare(failing).verdict is judge.Verdict.FAIL


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"prompt_tokens": 1300}, {"prompt_tokens": 1200}),
        ({"prompt_tokens": 12_000, "cached_tokens": 6000}, {"prompt_tokens": 12_000, "cached_tokens": 0}),
    ],
    ids=["prompts", "cache"],
)
def test_arms_that_did_other_work_are_not_compared(ours: dict[str, int], theirs: dict[str, int]) -> None:
    """Longer prompts, or a cache that one arm alone had, would be taken for the draft's doing."""
    unlike = [one.model_copy(update=ours if one.arm == "A" else theirs) for one in gain()]
    found = compare(unlike)
    assert (found.verdict, found.reason) == (judge.Verdict.INCONCLUSIVE, judge.Reason.UNLIKE_ARMS)


def test_block_that_drafting_computes_again_is_no_unlike_cache() -> None:
    """As an H200 showed it: of 42 tokens a cache held 28 without speculation, and with EAGLE-3 a block of 16 less."""
    shares = {"A": 120, "B": 340}
    recorded = [one.model_copy(update={"prompt_tokens": 504, "cached_tokens": shares[one.arm]}) for one in gain()]
    assert compare(recorded).verdict is judge.Verdict.PASS


def test_arms_without_such_counters_are_compared() -> None:
    """An engine that tells no cache hits is not suspected of any."""
    half_told = [one.model_copy(update={"prompt_tokens": 1200}) if one.arm == "A" else one for one in gain()]
    assert compare(half_told).verdict is judge.Verdict.PASS


def test_clock_that_jumps_back_spoils_its_round() -> None:
    """Windows are timed by that clock."""
    stamped = [one.model_copy(update={"started_at": f"2026-01-01T00:0{one.position}:00Z"}) for one in gain(2)]
    assert compare(stamped).verdict is judge.Verdict.PASS
    stamped[3] = stamped[3].model_copy(update={"started_at": "2025-12-31T23:00:00Z"})
    found = compare(stamped)
    assert (found.verdict, found.reason) == (judge.Verdict.INCONCLUSIVE, judge.Reason.CLOCK_JUMPED)


def test_open_loop_blocks_say_nothing_of_throughput() -> None:
    """Their throughput is the rate that was offered."""
    offered = [one.model_copy(update={"rate_per_minute": 60}) for one in gain()]
    found = compare(offered)
    assert (found.verdict, found.reason) == (judge.Verdict.INCONCLUSIVE, judge.Reason.NO_DATA)
