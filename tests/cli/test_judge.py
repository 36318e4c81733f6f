"""``paceline judge``."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    assert [(band["concurrency"], band["verdict"], band["reason"]) for band in found["bands"]] == [
        (1, "Pass", "Faster"),
        (8, "Pass", "Faster"),
    ]


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
        (json.dumps(MEASURED), ("--min-rounds", "70"), "--min-rounds"),
        (json.dumps(MEASURED), ("--confidence-percent", "100"), "--confidence-percent"),
        (json.dumps(MEASURED), ("--weight", "8"), "CONCURRENCY=W"),
        (json.dumps(MEASURED), ("--weight", "8=0"), "nothing to judge"),
        (json.dumps(MEASURED), ("--max-ttft-ms", "nan"), "at least 0"),
    ],
)
def test_what_cannot_be_judged_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, arguments: tuple[str, ...], words: str
) -> None:
    """With what to change."""
    (tmp_path / "m.json").write_text(text)
    assert main(["judge", str(tmp_path / "m.json"), *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "verdict", "reason"),
    [
        (("--weight", "1=0", "--weight", "8=1"), "Pass", "Faster"),
        (("--band-floor-percent", "140"), "Fail", "BandBelowFloor"),
        (("--max-ttft-ms", "10"), "Inconclusive", "TTFTUnclear"),
        (("--max-itl-increase-percent", "5"), "Inconclusive", "ITLUnclear"),
    ],
)
def test_everything_the_spec_asks_can_be_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], verdict: str, reason: str
) -> None:
    """Weights, the floor, limits."""
    found = answer(capsys, saved(tmp_path, MEASURED), *arguments)
    assert (found["verdict"], found["reason"]) == (verdict, reason)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from([*MEASURED[0], "ttftMs", "itlMs", "promptTokens", "cachedTokens", "compared", "agreed"])
ODD = st.sampled_from(
    [10**400, -1, 0, 1e308, float("nan"), float("inf"), 2**53, "", "A" * 300, "Stalled", "Alternating"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, 23), FIELDS, JSON | ODD), max_size=6), st.integers(0, 24), st.binary(max_size=3)
)
def test_no_file_makes_it_stumble(
    tmp_path: Path, changes: list[tuple[int, str, object]], kept: int, tail: bytes
) -> None:
    """Whatever is in it, the answer is a verdict or a usage error."""
    blocks = [dict(one) for one in MEASURED[:kept]]
    for at, field, value in changes:
        if at < len(blocks):
            blocks[at][field] = value
    path = tmp_path / "m.json"
    path.write_bytes(json.dumps(blocks).encode() + tail)
    limits = ("--max-ttft-ms", "100", "--max-itl-increase-percent", "5", "--answer-tolerance-percent", "10")
    assert main(["judge", str(path), "--candidate", "A", "--rival", "B", *limits]) in {0, 2}


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b'{"measurements": 3}', b"null", b"[1]"])
def test_what_is_no_such_file_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes) -> None:
    """Without a traceback."""
    path = tmp_path / "m.json"
    path.write_bytes(content)
    assert main(["judge", str(path)]) == 2
    assert "holds no measurements" in capsys.readouterr().err


def test_text_shows_bands_and_the_whole(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A table from the same value."""
    assert main(["judge", str(saved(tmp_path, MEASURED))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Pass: Faster (1.300 times")
    assert [line.split()[0] for line in lines[1:5]] == ["concurrency", "1", "8", "all"]
