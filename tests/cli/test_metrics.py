"""``paceline metrics``."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import paceline
from paceline.cli.__main__ import main

FOLDER = Path(__file__).parents[1] / "engines" / "metrics"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    """Return the exit code and the JSON answer."""
    code = main(["metrics", *arguments, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_reading_has_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts depend on them."""
    code, said = answer(capsys, str(FOLDER / "vllm-0.16-eagle3.txt"))
    assert code == 0
    assert (said["status"], said["engine"], said["model"]) == ("ok", "vllm", "kimi-k2.5")
    assert (said["generation_tokens"], said["kv_cache_usage"]) == (40000, 0.21)
    assert said["speculation"] == {
        "drafts": 12000,
        "draft_tokens": 36000,
        "accepted_tokens": 19200,
        "acceptance_rate": pytest.approx(0.5333, abs=1e-4),
        "acceptance_length": pytest.approx(2.6),
        "accepted_per_position": [9000, 6200, 4000],
        "dead": False,
    }


def test_no_speculation_is_null_and_undefined_acceptance_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither is zero."""
    assert answer(capsys, str(FOLDER / "vllm-0.16-baseline.txt"))[1]["speculation"] is None
    said = answer(capsys, str(FOLDER / "vllm-0.16-spec-configured-zero-traffic.txt"))[1]["speculation"]
    assert isinstance(said, dict)
    assert (said["drafts"], said["acceptance_length"]) == (0, None)


def test_unreadable_text_has_a_reason_and_all_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """The same shape, so that a script need not look twice."""
    code, said = answer(capsys, str(FOLDER / "broken-html-502.txt"))
    assert (code, said["status"], said["generation_tokens"], said["speculation"]) == (1, "NotMetrics", None, None)
    assert {"engine", "model", "kv_cache_usage"} <= said.keys()


def test_model_is_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Where a server has several."""
    path = str(FOLDER / "two-models-one-server.txt")
    assert answer(capsys, path)[1]["status"] == "ModelAmbiguous"
    assert answer(capsys, path, "--model", "kimi-k2.5-canary")[1]["generation_tokens"] == 900


def test_missing_file_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Said on standard error; nothing on standard output."""
    assert main(["metrics", "/absent"]) == 2
    said = capsys.readouterr()
    assert (said.out, "cannot be read" in said.err) == ("", True)


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """One fact a line."""
    assert main(["metrics", str(FOLDER / "vllm-0.16-eagle3.txt")]) == 0
    assert "generation_tokens: 40000" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("body", [b"", b"\xff\xfe\x00", b"vllm:generation_tokens_total 3\n\xff", b"{" * 1000])
def test_any_bytes_get_an_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    """From standard input too, which need not be text."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(body)))
    code, said = answer(capsys, "-")
    assert code == 1
    assert said["status"] in {"Empty", "NotMetrics", "Truncated"}


def test_reader_that_has_seen_enough_ends_the_command_quietly() -> None:
    """``paceline metrics FILE | head -1``."""
    command = [sys.executable, "-m", "paceline.cli", "metrics", str(FOLDER / "vllm-0.16-eagle3.txt")]
    env = {**os.environ, "PYTHONPATH": str(Path(paceline.__file__).parents[1])}
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")
