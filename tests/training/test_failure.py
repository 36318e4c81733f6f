"""When a run has failed, and what it says then."""

from typing import Any

import pytest

from paceline.api import stages
from paceline.api.conditions import TrainingReason
from paceline.api.drafttrainingjob import Stage
from paceline.planning import plan
from paceline.planning import view as views
from paceline.training import collect, failure, observe, results
from training import builders

PERMANENT = builders.reported(None, error="prompts.jsonl line 3 is not JSON; correct it.", permanent=True)


def outcome(stage: Stage, *objects: plan.Manifest, kept: results.Record | None = None) -> results.Outcome | None:
    """Return how a run ends that is in ``stage`` and shows these objects."""
    record = kept or builders.record(*builders.before(stage), started_at=builders.at(-600))
    owner = builders.started()
    seen = observe.observe(builders.FakeView(owner, builders.remembered(record), *objects), owner)
    return failure.judge(seen, collect.collect(seen, builders.NOW), builders.NOW).outcome


def failed_run(stage: Stage, message: str, *, code: int = 1, reason: str = "Error", failures: int = 3) -> list[Any]:
    """Return a Job that has failed, and its last pod."""
    job = builders.job(stage, **builders.failed(failures=failures))
    return [job, builders.pod(of=job, phase="Failed", main=builders.ended(code, message=message, reason=reason))]


def test_permanent_error_fails_the_stage_in_its_own_words() -> None:
    """The pod knows what the user must change."""
    found = outcome(Stage.PREPARE, *failed_run(Stage.PREPARE, PERMANENT, code=42, failures=1))
    assert found is not None
    assert found.reason is TrainingReason.STAGE_FAILED
    assert found.message == "Stage Prepare: prompts.jsonl line 3 is not JSON; correct it."


@pytest.mark.parametrize(
    ("message", "code", "reason", "words"),
    [
        ("banner\nRuntimeError: CUDA error", 1, "Error", "exit code 1; its log ends: banner RuntimeError: CUDA error"),
        ("", 137, "OOMKilled", "OOMKilled: it used more memory than its limit"),
        ("", 139, "Error", "exit code 139"),
        (builders.reported(None, error="the server stopped answering"), 1, "Error", "the server stopped answering"),
    ],
)
def test_exhausted_retries_tell_the_last_error_in_words(message: str, code: int, reason: str, words: str) -> None:
    """Nobody has to look for the pod to know what happened."""
    found = outcome(Stage.TRAIN, *failed_run(Stage.TRAIN, message, code=code, reason=reason))
    assert found is not None
    assert found.reason is TrainingReason.RETRIES_EXHAUSTED
    assert f"failed 3 times, with spec.stageRetries 2; the last time: {words}." in found.message


def test_failed_job_without_its_pod_waits_a_moment_then_speaks() -> None:
    """The pod may be late in the cache; some minutes later the Job's own message has to do."""
    fresh = builders.job(Stage.TRAIN, **builders.failed(ago_s=5))
    old = builders.job(Stage.TRAIN, **builders.failed(ago_s=views.LOST_AFTER_S))
    assert outcome(Stage.TRAIN, fresh) is None
    found = outcome(Stage.TRAIN, old)
    assert found is not None
    assert "Job has reached the specified backoff limit" in found.message


def test_second_death_for_memory_ends_the_run_before_its_retries() -> None:
    """Case 30: one retry at most, and the reason is named."""
    job = builders.job(Stage.TRAIN, failed=2)
    dead = [builders.pod(f"p{n}", of=job, phase="Failed", main=builders.ended(137, reason="OOMKilled")) for n in (1, 2)]
    assert outcome(Stage.TRAIN, job, dead[0]) is None
    found = outcome(Stage.TRAIN, job, *dead)
    assert found is not None
    assert found.reason is TrainingReason.RETRIES_EXHAUSTED
    assert "OOMKilled 2 times. Raise spec.trainer.podTemplate.resources.limits.memory" in found.message


def test_preempted_pod_is_no_failure() -> None:
    """Case 34: what the cluster took away is not charged."""
    job = builders.job(Stage.TRAIN)
    gone = builders.pod(of=job, phase="Failed", main=builders.ended(143), told=[builders.preempted()])
    assert outcome(Stage.TRAIN, job, gone) is None


@pytest.mark.parametrize(
    ("restarts", "reason", "fails"), [(2, "Error", False), (3, "Error", True), (2, "OOMKilled", True)]
)
def test_engine_that_keeps_ending_uses_up_the_retries(restarts: int, reason: str, *, fails: bool) -> None:
    """Kubernetes would restart a sidecar for ever; for memory, a second death is enough."""
    last = builders.ended(1, message="ValueError: no kernel", reason=reason)["state"]
    job = builders.job(Stage.EXTRACT)
    pod = builders.pod(of=job, engine={"state": {"waiting": {}}, "lastState": last, "restartCount": restarts})
    found = outcome(Stage.EXTRACT, job, pod)
    assert (found is not None) is fails
    assert found is None or f"the engine ended {restarts} times" in found.message


@pytest.mark.parametrize("length", [1.499, 0.0])
def test_head_below_the_gate_ends_with_its_numbers(length: float) -> None:
    """The message has both numbers and what to change."""
    measured = builders.RESULTS[Stage.EVALUATE].model_copy(update={"acceptance_length": length})
    kept = builders.record(*builders.before(Stage.EVALUATE)).with_stage(stage=Stage.EVALUATE, result=measured)
    found = outcome(Stage.PUBLISH, kept=kept)
    assert found is not None
    assert found.reason is TrainingReason.GATE_NOT_MET
    assert f"acceptance length is {length:.3f} at 3 speculative tokens" in found.message
    assert "asks for 1.5" in found.message


def test_gate_that_the_stage_itself_refused_tells_the_same() -> None:
    """Evaluate ends permanently with its measurement in the report."""
    measured = builders.RESULTS[Stage.EVALUATE].model_copy(update={"acceptance_length": 1.1})
    message = builders.reported(measured, error="too low", permanent=True)  # type: ignore[arg-type]
    found = outcome(Stage.EVALUATE, *failed_run(Stage.EVALUATE, message, code=42))
    assert found is not None
    assert found.reason is TrainingReason.GATE_NOT_MET


@pytest.mark.parametrize(
    "message",
    [
        "",
        "no report at all",
        builders.reported(builders.RESULTS[Stage.PREPARE]),
        builders.reported(stages.TrainResult(checkpoint="/etc/passwd", epochs=1)),
    ],
)
def test_success_without_a_usable_result_fails_the_stage(message: str) -> None:
    """An image that is not ours, another stage's result, a path outside the workspace: none is believed."""
    job = builders.job(Stage.TRAIN, **builders.complete())
    pod = builders.pod(of=job, phase="Succeeded", main=builders.ended(0, message=message))
    found = outcome(Stage.TRAIN, job, pod)
    assert found is not None
    assert found.reason is TrainingReason.STAGE_FAILED


def test_result_lost_too_often_ends_the_run() -> None:
    """Something deletes finished pods; running the stage for ever would not help."""
    kept = builders.record(*builders.before(Stage.TRAIN)).with_stage(stage=Stage.TRAIN, losses=2)
    found = outcome(Stage.TRAIN, builders.job(Stage.TRAIN, **builders.complete(ago_s=views.LOST_AFTER_S)), kept=kept)
    assert found is not None
    assert found.reason is TrainingReason.RETRIES_EXHAUSTED


def test_inspection_that_fails_ends_nothing() -> None:
    """The spec may still be edited, so the run is refused, not failed."""
    message = builders.reported(None, error="config.json is missing; name the model's folder.", permanent=True)
    job, pod = failed_run(Stage.INSPECT, message, code=42)
    seen = observe.observe(builders.FakeView(job, pod), builders.resource())
    assert failure.judge(seen, results.Record(), builders.NOW).outcome is None
    refused = failure.refusal(seen, results.Record())
    assert refused is not None
    assert "config.json is missing; name the model's folder." in refused


def test_longest_error_still_fits_a_message() -> None:
    """A pod that fills its report must not make the status unwritable."""
    message = builders.reported(None, error="x" * 1024, permanent=True)
    found = outcome(Stage.TRAIN, *failed_run(Stage.TRAIN, message, code=42))
    assert found is not None
    assert len(found.message) <= 1024
