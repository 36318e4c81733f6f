"""A stage ends with one report and an exit code that says who must act."""

import json
import socket
import urllib.request

import pytest

from paceline.api import report, stages
from paceline.stages import evaluate, runner
from paceline.stages.failures import PermanentError, TerminatedError, TransientError
from stages import builders

RESULT = stages.TrainResult(checkpoint="/c", epochs=1)
EVALUATION = stages.EvaluateResult(
    acceptance_length=1.1, acceptance_by_position=[0.1], drafts=10, accepted_tokens=1, prompts=2, speculative_tokens=1
)


@pytest.fixture
def run_stage(tmp_path, monkeypatch):
    """Return a call that runs a stage whose program is given; the answer is (exit code, report)."""
    target = tmp_path / "config.json"
    config = stages.InspectConfig(**builders.common(tmp_path / "work"))
    target.write_text(config.model_dump_json(by_alias=True))

    def run(program, name="inspect"):
        monkeypatch.setattr(runner, "PROGRAMS", {"inspect": program, "train": program})
        monkeypatch.setattr(runner.stopping.Stop, "install", lambda _: None)
        code = runner.main(name, target, port=0, report_path=tmp_path / "report")
        return code, report.decode((tmp_path / "report").read_text(), stages.StageReport)

    return run


def _fail_with(error):
    def program(_config, _context):
        raise error

    return program


def test_success_reports_the_result(run_stage):
    """The operator reads the result from the termination message."""
    code, told = run_stage(lambda _config, _context: RESULT)
    assert (code, told.result, told.error) == (0, RESULT, "")


@pytest.mark.parametrize(
    ("error", "code", "permanent"),
    [
        (PermanentError("change it"), 42, True),
        (TransientError("come back"), 1, False),
        (TerminatedError("stopped"), 143, False),
        (RuntimeError("unforeseen"), 1, False),
    ],
)
def test_exit_code_says_who_must_act(run_stage, error, code, permanent):
    """42 fails the Job at once; anything else is another attempt's."""
    seen, told = run_stage(_fail_with(error))
    assert (seen, told.permanent) == (code, permanent)
    assert str(error) in told.error


def test_unmet_gate_reports_the_measurement_too(run_stage):
    """The user must see by how much."""
    code, told = run_stage(_fail_with(evaluate.GateNotMetError(EVALUATION, 1.2)))
    assert code == 42
    assert told.result == EVALUATION
    assert "1.10 tokens a step at k=1" in told.error


def test_long_message_still_fits(run_stage):
    """The termination message is cut by nobody."""
    _, told = run_stage(_fail_with(TransientError("ü" * 9000)))
    assert len(told.error) == 1024


def test_another_stages_configuration_is_refused(run_stage):
    """An operator and an image that do not match must not train on a guess."""
    code, told = run_stage(lambda _config, _context: RESULT, name="train")
    assert code == 42
    assert "is for Inspect, not for train" in told.error


def test_missing_configuration_is_reported(tmp_path, monkeypatch):
    """A pod without its file says so."""
    monkeypatch.setattr(runner.stopping.Stop, "install", lambda _: None)
    assert runner.main("inspect", tmp_path / "none.json", port=0, report_path=tmp_path / "report") == 42
    assert "none.json" in json.loads((tmp_path / "report").read_text())["error"]


def test_progress_is_answered_while_the_stage_runs(run_stage, monkeypatch):
    """The operator polls this into status."""
    serve = runner.progresses.serve
    ports = []

    def serve_anywhere(progress, _port):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
        return serve(progress, ports[-1])

    monkeypatch.setattr(runner.progresses, "serve", serve_anywhere)

    def program(_config, context):
        context.progress.update(0.5, "half way")
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[0]}/progress", timeout=5) as answer:
            live = stages.LiveProgress.model_validate_json(answer.read())
        assert (live.stage, live.percent, live.message) == ("Inspect", 50, "half way")
        return RESULT

    assert run_stage(program)[0] == 0
