"""Whether speculation changed the answers."""

import dataclasses

import pytest

from judge import builders
from paceline import judge
from paceline.api.measurement import Measurement

ASKED = judge.Policy(
    kind=judge.Bar.BETTER, min_gain_percent=3, min_rounds=2, max_rounds=6, answer_tolerance_percent=30.0
)


def answered(*, ours: int, theirs: int, compared: int = 20) -> list[Measurement]:
    """Return rounds of a clear gain in which so many answers of each block were the control's."""
    return [
        one.model_copy(update={"compared": compared, "agreed": ours if one.arm == "A" else theirs})
        for one in builders.noisy_rounds(builders.seeded(2), count=3, ratio=1.4, noise=0.01)
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        (20, 20, judge.Verdict.PASS),
        (13, 18, judge.Verdict.PASS),  # within the tolerance of what numerics do
        (2, 19, judge.Verdict.FAIL),
        (2, 4, judge.Verdict.PASS),  # a control that disagrees with itself convicts nobody
    ],
)
def test_controls_own_disagreement_is_the_yardstick(ours: int, theirs: int, verdict: judge.Verdict) -> None:
    """Greedy decoding repeats itself only as far as numerics let it."""
    found = judge.compare(answered(ours=ours, theirs=theirs), candidate="A", rival="B", policy=ASKED)
    assert found.verdict is verdict
    assert (found.reason is judge.Reason.ANSWERS_CHANGED) == (verdict is judge.Verdict.FAIL)


def test_few_answers_convict_nobody() -> None:
    """None of two is no evidence."""
    few = answered(ours=0, theirs=1, compared=1)[:8]
    found = judge.compare(few, candidate="A", rival="B", policy=ASKED)
    assert found.reason is not judge.Reason.ANSWERS_CHANGED


def test_nothing_is_asked_without_a_tolerance() -> None:
    """Stable may serve another model."""
    policy = dataclasses.replace(ASKED, answer_tolerance_percent=None)
    found = judge.compare(answered(ours=0, theirs=20), candidate="A", rival="B", policy=policy)
    assert found.verdict is judge.Verdict.PASS


def test_band_of_few_answers_does_not_hide_a_fault() -> None:
    """At concurrency 1 the control answers twice a round; one answer not repeated leaves what is plain at 8."""
    blocks = [
        block.model_copy(update={"concurrency": band, "compared": compared, "agreed": agreed})
        for block in builders.noisy_rounds(builders.seeded(2), count=2, ratio=1.4, noise=0.01)
        for band in (1, 8)
        for compared in ((6 if block.arm == "A" else 1) * band,)
        for agreed in (0 if block.arm == "A" else compared - (band == 1 and (block.round, block.position) == (0, 1)),)
    ]
    policy = dataclasses.replace(ASKED, answer_tolerance_percent=50)
    found = judge.compare(blocks, candidate="A", rival="B", policy=policy)
    assert found.reason is judge.Reason.ANSWERS_CHANGED


def test_bands_are_compared_with_their_own_control() -> None:
    """Measured mostly where the control disagrees with itself, a candidate is held against just that."""
    blocks = [
        block.model_copy(update={"concurrency": band, "compared": compared, "agreed": round(compared * share)})
        for block in builders.noisy_rounds(builders.seeded(2), count=6, ratio=1.4, noise=0.01)
        for band, share in ((1, 1.0), (8, 0.2))
        for compared in (({1: 2, 8: 60} if block.arm == "A" else {1: 60, 8: 60})[band],)
    ]
    found = judge.compare(blocks, candidate="A", rival="B", policy=ASKED)
    assert found.reason is not judge.Reason.ANSWERS_CHANGED
