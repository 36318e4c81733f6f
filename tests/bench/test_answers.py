"""Answers, recorded and judged."""

import json

import numpy as np
import pytest

from bench import record_answers, serving
from bench.judge import answers

PROMPTS = 60


def book(*, start: float, wrong: float, seed: int = 5) -> record_answers.Book:
    """Return answers of 300 characters: the control's own again, another start's and a wrong server's.

    Args:
        start: chance of each character to be another in the other start, which changes all that follow.
        wrong: the same for the wrong server.
        seed: of everything drawn.
    """
    random = np.random.default_rng(seed)
    texts = ["".join(random.choice(list("abcdefgh"), 300)) for _ in range(PROMPTS)]

    def turned(chance: float) -> list[str]:
        ends = random.geometric(chance, PROMPTS) if chance else np.full(PROMPTS, 300)
        return [text[: int(end)] + text[int(end) :].upper() for text, end in zip(texts, ends, strict=True)]

    found = record_answers.Book()
    for arm, chance in (("none#0", 0.0), ("none#0-again", 0.0005), ("none#1", start), ("k=3#0", wrong)):
        for band in (1, 8):
            found.add(arm, band, turned(chance) if chance else texts)
    return found


@pytest.fixture
def recording(tmp_path):
    """Return a recording whose other start turns once in 700 characters, and whose wrong server once in 20."""
    (tmp_path / "a.json").write_text(book(start=1 / 700, wrong=1 / 20).text("made up"))
    return answers.Recording.read(tmp_path / "a.json")


def test_file_gives_back_every_answer(recording):
    """Though each distinct one is kept once."""
    assert recording.arms == ["none#0", "none#0-again", "none#1", "k=3#0"]
    assert recording.alike("none#0", None)[8].all()
    assert recording.texts["none#0", 1] == recording.texts["none#0", 8]
    assert {len(texts) for texts in recording.texts.values()} == {PROMPTS}


def test_beginnings_agree_more_than_whole_answers(recording):
    """A token that flips changes all that follows."""
    shares = [float(np.mean(recording.alike("none#1", one)[8])) for one in (16, 64, 256, None)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.9
    assert shares[-1] < 0.8


def test_rule_convicts_the_wrong_server_and_not_another_start(recording):
    """At the product's beginning and default tolerance."""
    source = answers.Rollouts(yardstick=recording.alike("none#0-again", 64), random=np.random.default_rng(3), runs=40)
    assert source.convicted(recording.alike("none#1", 64), 50) == 0.0
    assert source.convicted(recording.alike("k=3#0", 64), 50) == 1.0


def test_more_wrong_tokens_are_seen_more_often(recording):
    """From hardly ever to always."""
    equal = recording.alike("none#0-again", 64)
    source = answers.Rollouts(yardstick=equal, random=np.random.default_rng(3), runs=40)
    seen = [source.convicted(equal, 30, wrong=answers.lost(fault, 64)) for fault in (0.001, 0.02, 0.1)]
    assert seen == sorted(seen)
    assert seen[0] == 0.0
    assert seen[-1] >= 0.95


def test_tables_name_every_arm(recording):
    """A line for each in the first, a column in the second."""
    said = "\n".join(answers.report(recording, runs=2, seed=1))
    assert "| k=3#0 | " in said
    assert "| none#0-again | none#1 | k=3#0 |" in said


def test_recorder_asks_everybody_the_same(options, capsys):
    """The control twice, and once more at a temperature; a server that is gone is left out."""
    options.arms = ["none", "ngram3", "none"]
    serving.up(options)
    servers = serving.read(options.work)
    try:
        serving.wait_for(servers, options.work, limit_s=60)
        serving.stop(servers[2].pid)
        arguments = ["--work", str(options.work), "--arms", "0", "0", "1", "2", "--sampled", "0.5", "--model", "target"]
        arguments += ["--prompts", str(options.prompts), "--max-prompts", "8", "--out", str(options.out)]
        assert record_answers.main([*arguments, "--concurrency", "1", "4", "--max-tokens", "8"]) == 0
    finally:
        serving.down(options)
    found = answers.Recording.read(options.out)
    assert found.arms == ["none#0", "none#0-again", "ngram=3#0", "none#0@0.5"]
    assert found.alike("ngram=3#0", None)[4].all()
    assert "none#1 failed a request" in capsys.readouterr().out
    assert len(json.loads(options.out.read_text())["texts"]) == 8


def test_sampled_request_differs_in_its_temperature_alone():
    """And is drawn again alike."""
    one, other = (
        record_answers.Sampled(model="m", prompts=((),), max_tokens=4, temperature=heat).document(0)
        for heat in (0.0, 0.5)
    )
    assert {key for key in one | other if one.get(key) != other.get(key)} == {"temperature", "seed"}
    assert one["temperature"] == 0
