"""What a run is doing or waiting for, as the Progressing condition tells it. No number in it ticks."""

from collections.abc import Mapping
from typing import Final

from paceline.api.conditions import ConditionType, TrainingReason
from paceline.api.drafttrainingjob import Stage
from paceline.planning import conditions
from paceline.training import attempts, observe, results, suitability, wording

RUNNING: Final[Mapping[Stage, TrainingReason]] = {
    Stage.INSPECT: TrainingReason.INSPECTING,
    Stage.PREPARE: TrainingReason.PREPARING,
    Stage.EXTRACT: TrainingReason.EXTRACTING,
    Stage.TRAIN: TrainingReason.TRAINING,
    Stage.EVALUATE: TrainingReason.EVALUATING,
    Stage.PUBLISH: TrainingReason.PUBLISHING,
}


def progressing(
    seen: observe.Observed, record: results.Record, refused: suitability.Refusal | None, *, lacks: str = ""
) -> conditions.Said:
    """Return what the Progressing condition says; ``lacks`` tells what a stage's Job has to wait for."""
    stage = record.current
    if record.outcome is not None:
        return _waits(record.outcome.reason, record.outcome.message)
    if refused is not None:
        return _waits(refused.reason, refused.message)
    if seen.spec.suspend:
        return _waits(TrainingReason.SUSPENDED_BY_USER, "spec.suspend is set; clear it to go on.")
    if stage is None:
        raise AssertionError("a run whose stages all have results has an outcome")
    if lacks:
        return _waits(TrainingReason.INSUFFICIENT_GPU, f"Stage {stage} waits: {lacks}")
    return _of_job(seen, stage)


def _of_job(seen: observe.Observed, stage: Stage) -> conditions.Said:
    job = seen.stage_jobs.get(stage)
    if job is None and seen.strays:
        return _waits(
            TrainingReason.ENDING, f"Stage {stage} begins when pod {seen.strays[0]} of an earlier Job is gone."
        )
    if job is None:
        return _goes_on(RUNNING[stage], f"Stage {stage} begins.")
    if job.deleting:
        return _waits(TrainingReason.ENDING, f"Stage {stage} starts anew once its last pod is gone.")
    if job.suspended and not job.finished:
        queue = f" by queue {seen.spec.queue.local_queue}" if seen.spec.queue else ""
        return _waits(TrainingReason.SCHEDULING, f"Stage {stage} waits for admission{queue}.")
    return _of_pod(stage, job)


def _of_pod(stage: Stage, job: observe.StageJob) -> conditions.Said:
    running, pod = RUNNING[stage], job.newest
    if pod is None:
        return _goes_on(running, f"Stage {stage} waits for its pod.")
    disrupted = next((one.disruption for one in reversed(job.pods) if one.disruption), None)
    if pod.disruption or (disrupted and not pod.placed):
        waiting = f" The next pod waits: {pod.unscheduled}" if pod.unscheduled else ""
        return _waits(
            TrainingReason.DISRUPTED,
            f"The cluster took the pod of stage {stage} away ({disrupted}); that is not charged to "
            f"spec.stageRetries.{waiting}",
        )
    if pod.placed or pod.over:
        return _goes_on(running, _on_node(stage, pod))
    words = f"waits: {pod.unscheduled}" if pod.unscheduled else "waits for a node."
    return _waits(TrainingReason.SCHEDULING, f"Pod {pod.name} of stage {stage} {words}")


def _on_node(stage: Stage, pod: attempts.Attempt) -> str:
    if pod.blocked:
        return f"Stage {stage} cannot start on node {pod.node}: {pod.blocked}"
    if pod.running:
        return f"Stage {stage} runs on node {pod.node}."
    if pod.over:
        return f"Stage {stage}: pod {pod.name} has ended."
    if pod.engine and not pod.engine.started:
        return f"Stage {stage} waits on node {pod.node} for its engine to load the target."
    return f"Stage {stage} starts on node {pod.node}."


def _goes_on(reason: TrainingReason, message: str) -> conditions.Said:
    return conditions.Said(type=ConditionType.PROGRESSING, status=True, reason=reason, message=wording.clip(message))


def _waits(reason: TrainingReason, message: str) -> conditions.Said:
    return conditions.Said(type=ConditionType.PROGRESSING, status=False, reason=reason, message=wording.clip(message))
