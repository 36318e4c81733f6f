"""Starts of one configuration, judged."""

import math

import numpy as np
import pytest

from bench.judge import starts
from paceline import judge
from paceline.api.measurement import Measurement, Mode


def blocks(*, between: float, within: float, loads: int, count: int = 4, seed: int = 9) -> list[Measurement]:
    """Return blocks of starts that differ by ``between``, and within a start by ``within``, in log throughput."""
    random = np.random.default_rng(seed)
    return [
        Measurement(
            arm="none",
            node="here",
            pod_uid=f"none-{load}",
            load=load,
            mode=Mode.ALTERNATING,
            round=load,
            position=position,
            concurrency=band,
            started_at=f"2026-01-01T{load:02d}:00:0{position}Z",
            window_ms=20_000,
            output_tokens=round(1e6 * math.exp(luck + random.normal(0.0, within))),
            requests=100,
        )
        for load in range(loads)
        for luck in (float(random.normal(0.0, between)),)
        for band in (1, 8)
        for position in range(count)
    ]


def test_spread_between_starts_is_told_from_that_of_blocks():
    """The first remains of the second."""
    found = starts.spreads(blocks(between=0.05, within=0.04, loads=60))
    assert set(found) == {1, 8, starts.WHOLE}
    assert found[starts.WHOLE].left == pytest.approx(0.05, rel=0.25)
    assert found[8].blocks == pytest.approx(0.02, rel=0.2)


def test_equal_starts_leave_nothing():
    """What differs is their blocks."""
    found = starts.spreads(blocks(between=0.0, within=0.04, loads=60))[starts.WHOLE]
    assert found.left < 0.008
    assert found.between == pytest.approx(found.blocks, rel=0.25)


def test_every_division_of_the_starts_is_judged():
    """Four starts make six ordered pairs of two; equal arms get no verdict, plain ones get theirs."""
    recorded = blocks(between=0.01, within=0.01, loads=4)
    assert starts.verdicts(recorded, 1.0, gain=True) == {judge.Verdict.INCONCLUSIVE: 6}
    assert starts.verdicts(recorded, 0.7, gain=False) == {judge.Verdict.FAIL: 6}
    assert starts.verdicts(recorded, 1.4, gain=True) == {judge.Verdict.PASS: 6}


def test_tables_hold_every_concurrency_and_case():
    """And the whole."""
    said = "\n".join(starts.report("some", blocks(between=0.01, within=0.01, loads=4)))
    for label in ("| c=1 | 4 |", "| c=8 | 4 |", "| all | 4 |", "20 % faster promoted"):
        assert label in said
