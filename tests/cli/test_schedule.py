"""``paceline schedule``."""

import json
from pathlib import Path

import pytest

from judge import builders
from paceline.cli.__main__ import main

BLOCKS = [
    one.wire()
    for concurrency, ratio in ((1, 1.5), (8, 1.3))
    for one in builders.noisy_rounds(builders.seeded(4), count=4, ratio=ratio, noise=0.01, concurrencies=(concurrency,))
]


def saved(folder: Path) -> str:
    """Return a file with an arm A beside a control B."""
    path = folder / "measured.json"
    path.write_text(json.dumps(BLOCKS))
    return str(path)


def test_proposal_is_said_in_vllms_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One number wins everywhere here."""
    assert main(["schedule", saved(tmp_path), "--control", "B", "--tokens", "A=3", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["advice"], found["num_speculative_tokens"]) == ("Tokens", 3)
    assert found["num_speculative_tokens_per_batch_size"] is None
    assert [(one["concurrency"], one["tokens"]) for one in found["bands"]] == [(1, 3), (8, 3)]


def test_text_shows_every_concurrency(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A table from the same value."""
    assert main(["schedule", saved(tmp_path), "--control", "B", "--tokens", "A=3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Tokens: ")
    assert [line.split()[:2] for line in lines[1:4]] == [["concurrency", "tokens"], ["1", "3"], ["8", "3"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--control", "B", "--tokens", "A"], "no ARM=K"),
        (["--control", "B", "--tokens", "A=99"], "no ARM=K"),
        (["--control", "B", "--tokens", "C=3"], "no arm C"),
        (["--control", "D", "--tokens", "A=3"], "no arm D"),
    ],
)
def test_what_was_not_measured_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], words: str
) -> None:
    """With what there is."""
    assert main(["schedule", saved(tmp_path), *arguments]) == 2
    assert words in capsys.readouterr().err
