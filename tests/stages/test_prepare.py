"""Prepare: the data set is the target's own answers, made once."""

import json

import pytest

from paceline.api import stages
from paceline.stages import prepare
from paceline.stages.failures import PermanentError
from stages import builders, vllm_double


@pytest.fixture(autouse=True)
def trainers_tool(monkeypatch):
    """Stands for speculators' prepare-data, which the development environment does without; returns its calls."""
    calls = []

    def write(_config, scratch, _context):
        calls.append(scratch)
        (scratch / prepare.ARROW).mkdir()

    monkeypatch.setattr(prepare, "_write_arrow", write)
    return calls


def _config(root, url, **fields):
    (root / "prompts.jsonl").write_text("".join(json.dumps({"prompt": f"question {i}"}) + "\n" for i in range(40)))
    told = {
        "prompts_path": str(root / "prompts.jsonl"),
        "holdout_percent": 20,
        "sequence_length": 64,
        "max_tokens": 16,
        "concurrency": 4,
        "server_url": url,
        **fields,
    }
    return stages.PrepareConfig(**builders.common(root, **told))


def _run(root, double, *, attempt="pod-1", **fields):
    with vllm_double.serving(double):
        return prepare.run(_config(root, double.url, **fields), builders.make_context(root, attempt=attempt))


def test_data_set_holds_answers_and_holdout_holds_none_of_them(tmp_path):
    """Training prompts are answered; held-out ones are never shown to the target here."""
    double = vllm_double.Double()
    result = _run(tmp_path, double)
    (dataset,) = tmp_path.glob("prepare-*/dataset")
    lines = (dataset / prepare.HOLDOUT).read_text().splitlines()
    holdout = [json.loads(line)["messages"][0]["content"] for line in lines]
    assert result.train_samples + result.holdout_samples == 40
    assert len(double.asked) == result.train_samples
    assert set(holdout).isdisjoint(double.asked)
    assert result.train_tokens == 3 * result.train_samples
    assert json.loads((dataset / prepare.FREQUENCIES).read_text()) == dict.fromkeys("789", result.train_samples)


def test_rerun_asks_nothing_and_reports_the_same(tmp_path):
    """A lost report costs no GPU."""
    first = _run(tmp_path, vllm_double.Double())
    double = vllm_double.Double()
    assert _run(tmp_path, double, attempt="pod-2") == first
    assert double.asked == []


def test_kill_before_the_data_set_keeps_the_answers(tmp_path, monkeypatch, trainers_tool):
    """Answers are asked for once, whatever fails after them."""

    def fail(*_):
        raise OSError("killed here")

    monkeypatch.setattr(prepare, "_write_arrow", fail)
    with pytest.raises(OSError, match="killed here"):
        _run(tmp_path, vllm_double.Double())
    monkeypatch.undo()
    monkeypatch.setattr(prepare, "_write_arrow", lambda _config, scratch, _context: trainers_tool.append(scratch))
    double = vllm_double.Double()
    _run(tmp_path, double, attempt="pod-2")
    assert double.asked == []
    assert len(trainers_tool) == 1


def test_other_limits_are_other_data(tmp_path):
    """A longer answer is not the answer that lies there."""
    _run(tmp_path, vllm_double.Double())
    double = vllm_double.Double()
    _run(tmp_path, double, max_tokens=32)
    assert double.asked


def test_sequence_too_short_for_any_answer_is_told(tmp_path):
    """Nothing to learn is the user's to change."""
    with pytest.raises(PermanentError, match=r"data\.sequenceLength"):
        _run(tmp_path, vllm_double.Double(), sequence_length=2)


def test_missing_server_is_told(tmp_path):
    """Regeneration without a server is a fault of what rendered the pod."""
    with pytest.raises(PermanentError, match="no server to ask"):
        prepare.run(_config(tmp_path, None), builders.make_context(tmp_path))
