"""``paceline inspect``."""

from pathlib import Path

import pytest

from checkpoints.builders import KIMI, LLAMA, ask, path
from paceline.cli.__main__ import main


def test_answer_has_the_promised_keys() -> None:
    """Scripts depend on them; what is not known is null."""
    code, said = ask(path(KIMI))
    assert code == 0
    assert {"backbone", "mtp", "decision", "tp", "aux_layers", "hidden_state_bytes_per_token"} <= said.keys()
    assert {"head", "problems", "valid"} <= said.keys()
    assert {"path", "model_type", "hidden_size", "num_hidden_layers", "vocab_size"} <= said["backbone"].keys()
    assert {"declared", "evidence", "weights", "usable"} <= said["mtp"].keys()
    assert said["tp"] == {"requested": None, "allowed": [1, 2, 4, 8], "ok": None}
    assert (said["valid"], said["head"]) == (True, None)


def test_problem_has_code_severity_and_message() -> None:
    """The exit code is 3 when one forbids, and all of them are there at once."""
    code, said = ask(
        path(LLAMA), "--head", path("traps/head-phi4mini-on-minimax-m2_same_hiddenandvocab_other_tokenizer")
    )
    assert (code, said["valid"]) == (3, False)
    assert {"HeadHiddenSizeMismatch", "HeadVocabularyMismatch", "HeadTargetMismatch"} <= {
        one["code"] for one in said["problems"] if one["severity"] == "error"
    }
    assert all(set(one) == {"code", "severity", "message"} for one in said["problems"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("--engine", "vllm=0.18"),
        ("--engine", "vllm=="),
        ("--volume", "10Ti"),
        ("--samples", "5", "--volume", "ten"),
        ("--head-index", "index.json"),
        ("--head", "/absent"),
    ],
)
def test_wrong_question_is_a_usage_error(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Said on standard error, with what to write; nothing on standard output."""
    assert main(["inspect", path(KIMI), *arguments]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.startswith("paceline: ")) == ("", True)


def test_absurd_parallelism_is_answered_at_once() -> None:
    """No more GPUs than heads are ever tried."""
    code, said = ask(path(KIMI), "--tp", "1000000000000")
    assert (code, said["decision"]) == (3, "reject-at-tp1000000000000")
    assert said["tp"]["allowed"] == [1, 2, 4, 8, 16, 32, 64]


def test_text_says_first_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """And every problem with its code."""
    assert main(["inspect", path("zai-org--GLM-4.7-Flash"), "--tp", "8"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "decision: reject-at-tp8 (nothing)"
    assert any(line.startswith("error: 20 attention heads cannot be divided by TP 8") for line in lines)


def test_foreign_text_reaches_no_terminal_unescaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A configuration may hold control sequences and half characters."""
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "\\u001b[2J\\ud800", "architectures": ["\\u001b[1m"], "num_hidden_layers": 4}')
    assert main(["inspect", str(file)]) == 0
    assert capsys.readouterr().out.replace("\n", "").isprintable()


def test_estimate_is_given_for_a_volume(capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes, GPUs and seconds of extraction."""
    _, said = ask(path(KIMI), "--samples", "1000", "--sequence-length", "4096", "--tp", "8", "--volume", "1Ti")
    assert said["estimate"]["hidden_state_bytes"] == 1000 * 4096 * 57344
    assert (said["estimate"]["gpus_per_node"], said["valid"]) == (8, True)
    capsys.readouterr()
