"""Arms that live one after the other."""

import random

import pytest

from judge import builders
from paceline import judge
from paceline.api.measurement import Measurement, Mode
from paceline.judge import alternating

GAIN = judge.Policy(kind=judge.Bar.BETTER, min_gain_percent=3, min_rounds=1, max_rounds=6)
KEEP = judge.Policy(kind=judge.Bar.NO_WORSE, max_regression_percent=3, min_rounds=1, max_rounds=6)


def loads(
    values: dict[str, list[float]], *, nodes: dict[str, list[str]] | None = None, noise: random.Random | None = None
) -> list[Measurement]:
    """Return four blocks at two concurrencies of each load, whose speeds are given by arm."""
    return [
        builders.block(
            arm,
            tps=1000.0 * concurrency * value * (noise.lognormvariate(0.0, 0.01) if noise else 1.0),
            round_number=load,
            position=position,
            concurrency=concurrency,
            mode=Mode.ALTERNATING,
            load=load,
            pod_uid=f"{arm}-{load}",
            node=nodes[arm][load] if nodes else "one",
        )
        for arm, speeds in values.items()
        for load, value in enumerate(speeds)
        for concurrency in (1, 8)
        for position in range(4)
    ]


def compare(measurements: list[Measurement], policy: judge.Policy = GAIN) -> judge.Comparison:
    """Return A against B."""
    return judge.compare(measurements, candidate="A", rival="B", policy=policy)


def test_unit_is_the_load_however_many_blocks_it_has() -> None:
    """Eight blocks of one start share its luck."""
    found = compare(loads({"A": [1.5], "B": [1.0]}))
    assert (found.samples, found.verdict) == (2, judge.Verdict.PASS)
    assert [band.concurrency for band in found.bands] == [1, 8]


def test_one_load_each_decides_only_what_is_plain() -> None:
    """Bounds hold what a start may be worth; a gain of 8 % may be that."""
    found = compare(loads({"A": [1.08], "B": [1.0]}))
    assert (found.verdict, found.reason) == (judge.Verdict.INCONCLUSIVE, judge.Reason.TOO_FEW_LOADS)


def test_more_loads_narrow_the_bounds() -> None:
    """More blocks of the same loads would not."""
    few, many = (compare(loads({"A": [1.2] * count, "B": [1.0] * count})) for count in (1, 3))
    assert (many.lower or 0) > (few.lower or 0)
    assert compare(loads({"A": [1.2], "B": [1.0]}) * 2) == few


def test_loads_that_differ_widen_the_bounds() -> None:
    """Replicates are believed more than what was known before."""
    steady = compare(loads({"A": [1.3, 1.3, 1.3], "B": [1.0, 1.0, 1.0]}))
    erratic = compare(loads({"A": [1.0, 1.3, 1.6], "B": [0.8, 1.0, 1.2]}))
    assert steady.verdict is judge.Verdict.PASS
    assert (erratic.verdict, erratic.reason) == (judge.Verdict.INCONCLUSIVE, judge.Reason.TOO_NOISY)


def test_node_drops_out_when_both_arms_lived_on_it() -> None:
    """Arms that swap nodes are compared node by node, however unlike those are."""
    swapped = compare(
        loads(
            {"A": [1.2, 0.6], "B": [1.0, 0.5]},
            nodes={"A": ["fast", "slow"], "B": ["fast", "slow"]},
        )
    )
    assert swapped.ratio == pytest.approx(1.2, abs=0.001)
    apart = compare(loads({"A": [1.2, 1.2], "B": [1.0, 1.0]}, nodes={"A": ["fast", "fast"], "B": ["slow", "slow"]}))
    beside = compare(loads({"A": [1.2, 1.2], "B": [1.0, 1.0]}))
    assert (apart.lower or 0) < (beside.lower or 0)


def test_block_without_a_partner_in_its_load_is_too_little() -> None:
    """A single block may be anything."""
    found = compare([one for one in loads({"A": [1.5], "B": [1.0]}) if one.position == 0])
    assert (found.verdict, found.reason) == (judge.Verdict.INCONCLUSIVE, judge.Reason.NOT_SIDE_BY_SIDE)


def test_side_by_side_evidence_is_preferred() -> None:
    """What was measured one after the other before adds nothing to it."""
    beside = builders.rounds((1.3, 1.3, 1.31))
    before = loads({"A": [0.5], "B": [1.0]})
    assert compare(beside + before).ratio == pytest.approx(1.3, abs=0.01)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_equal_arms_are_rarely_judged_at_their_bar(count: int) -> None:
    """Starts and nodes differ as the prior says, and the bar is the truth: wrong verdicts stay below 5 %.

    200 runs: 5 % would be 10; 18 leaves 2.6 standard deviations, and the seed is fixed.
    """
    source = builders.seeded(count)
    spread = alternating.PRIOR.start
    policy = judge.Policy(kind=judge.Bar.BETTER, min_rounds=1, max_rounds=6)
    verdicts = [
        compare(
            loads({arm: [source.lognormvariate(0.0, spread) for _ in range(count)] for arm in "AB"}, noise=source),
            policy,
        ).verdict
        for _ in range(200)
    ]
    assert sum(one is not judge.Verdict.INCONCLUSIVE for one in verdicts) <= 18
