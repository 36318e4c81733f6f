"""``paceline judge``."""

import json
from pathlib import Path

import pytest

from judge import builders
from paceline.api import names
from paceline.api.measurement import RolloutRecord
from paceline.cli.__main__ import main


def answer(capsys: pytest.CaptureFixture[str], path: Path, *arguments: str) -> dict[str, object]:
    """Return the JSON answer of a judgement that could be made."""
    assert main(["judge", str(path), *arguments, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def saved(folder: Path, document: object) -> Path:
    """Return a file of JSON."""
    path = folder / "measured.json"
    path.write_text(json.dumps(document))
    return path


MEASURED = [one.wire() for one in builders.rounds((1.3, 1.31, 1.29))]


@pytest.mark.parametrize("document", [MEASURED, {"measurements": MEASURED}], ids=["list", "object"])
def test_two_arms_need_no_names(capsys: pytest.CaptureFixture[str], tmp_path: Path, document: object) -> None:
    """The first block is the candidate's."""
    found = answer(capsys, saved(tmp_path, document))
    assert (found["verdict"], found["reason"], found["candidate"], found["rival"]) == ("Pass", "Faster", "A", "B")
    assert found["ratio"] == pytest.approx(1.3, abs=0.001)
    assert found["lower"] < found["ratio"] < found["upper"]
    assert [band["concurrency"] for band in found["bands"]] == [1, 8]


def test_names_turn_the_comparison_round(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And the other bar may be asked."""
    found = answer(capsys, saved(tmp_path, MEASURED), "--candidate", "B", "--rival", "A", "--bar", "no-worse")
    assert (found["verdict"], found["reason"]) == ("Fail", "Regressed")


def test_rollout_record_is_judged_by_its_digests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A record names revisions in full, its blocks by short hash."""
    candidate, control = (names.digest({"revision": name}) for name in "ab")
    arms = {"A": names.short(candidate), "B": names.short(control)}
    measurements = [one.model_copy(update={"arm": arms[one.arm]}) for one in builders.rounds((0.8, 0.8, 0.81))]
    record = RolloutRecord(
        number=1,
        candidate=candidate,
        control=control,
        workload="w",
        started_at="2026-01-01T00:00:00Z",
        measurements=measurements,
    )
    found = answer(capsys, saved(tmp_path, record.wire()))
    assert (found["candidate"], found["rival"], found["verdict"]) == (arms["A"], arms["B"], "Fail")


def test_too_little_data_is_an_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Inconclusive is no failure of the command."""
    found = answer(capsys, saved(tmp_path, MEASURED[:8]))
    assert (found["verdict"], found["reason"]) == ("Inconclusive", "TooFewBlocks")


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("{}", (), "measurements"),
        ("no json", (), "holds no measurements"),
        ("[]", (), "not clear"),
        (json.dumps(MEASURED), ("--min-rounds", "7"), "--min-rounds"),
        (json.dumps(MEASURED), ("--confidence-percent", "100"), "--confidence-percent"),
    ],
)
def test_what_cannot_be_judged_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, arguments: tuple[str, ...], words: str
) -> None:
    """With what to change."""
    (tmp_path / "m.json").write_text(text)
    assert main(["judge", str(tmp_path / "m.json"), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_text_shows_bands_and_the_whole(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A table from the same value."""
    assert main(["judge", str(saved(tmp_path, MEASURED))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Pass: Faster (1.300 times")
    assert [line.split()[0] for line in lines[1:5]] == ["concurrency", "1", "8", "all"]
