"""Recordings of noise."""

import pytest

from bench import record_noise, serving
from bench.judge import noise, starts
from paceline import judge
from paceline.api.measurement import Mode


def test_starts_take_turns_so_that_drift_is_shared():
    """A B B A A B."""
    assert list(record_noise.turns(["a", "b"], 3)) == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]


def test_server_driven_twice_has_two_names():
    """Else its blocks would be those of one arm."""
    server = serving.Server(name="none", load=1, url="http://127.0.0.1:1", pid=7)
    assert [record_noise.arm_of(server, seen=seen).arm for seen in (0, 1)] == ["none#1", "none#1-again"]


def test_starts_are_recorded_one_after_the_other(options, monkeypatch):
    """Each as a load of its configuration, with the same prompts, and the judge can compare them."""
    monkeypatch.setenv("STANDIN_SPEEDS", '{"none": 200, "ngram": 300}')
    options.arms, options.starts, options.rounds = ["none", "ngram3"], 2, 1
    record_noise.starts(options)
    found = starts.read(options.out)
    assert list(found) == ["none", "ngram=3"]
    for blocks in found.values():
        assert {one.mode for one in blocks} == {Mode.ALTERNATING}
        assert len({one.pod_uid for one in blocks}) == 2
        assert {load: sum(one.load == load for one in blocks) for load in (0, 1)} == {0: 4, 1: 4}
    # A B B A: rounds are numbered as they were driven.
    assert [sorted({one.round for one in blocks}) for blocks in found.values()] == [[0, 3], [1, 2]]
    policy = judge.Policy(kind=judge.Bar.BETTER, min_gain_percent=3, min_rounds=1)
    blocks = [one for arm in found.values() for one in arm]
    verdict = judge.compare(blocks, candidate="ngram=3", rival="none", policy=policy)
    assert verdict.samples == 4
    assert verdict.ratio == pytest.approx(1.5, rel=0.35)


def test_recording_beside_is_read_by_the_simulation(options):
    """Under the names of candidate and rival."""
    options.arms = ["none"]
    serving.up(options)
    try:
        serving.wait_for(serving.read(options.work), options.work, limit_s=60)
        options.arms, options.rounds, options.first_round = [0, 0], 2, 0
        record_noise.beside(options)
    finally:
        serving.down(options)
    recording = noise.read(options.out)
    assert recording.bands == (1, 4)
    assert [len(one) for one in recording.candidate] == [4, 4]
    assert [len(one) for one in recording.rival] == [4, 4]
