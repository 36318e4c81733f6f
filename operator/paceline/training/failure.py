"""When a run has failed, and why, in words that say what to change.

A stage's retries are its Job's: the Job controller counts pods that failed and leaves out those that the cluster took
away. What it cannot tell apart is judged here: a second death for memory, an engine that keeps ending before it
answers, and a Job that succeeded without a result.
"""

from typing import Final

from paceline.api import stages
from paceline.api.conditions import TrainingReason
from paceline.api.drafttrainingjob import DraftTrainingJobSpec, Stage
from paceline.planning import conditions
from paceline.planning import view as views
from paceline.training import observe, places, reports, results, wording

# The same pod on the same data needs the same memory: one more try is for a neighbour's fault, a third is waste.
_OOM_LIMIT: Final = 2


def judge(seen: observe.Observed, record: results.Record, now: float) -> results.Record:
    """Return the record, with an outcome when the run has failed."""
    if record.outcome is not None:
        return record
    found = _gate(seen.spec, record.evaluation, now) or _of_current_job(seen, record, now)
    return record if found is None else record.model_copy(update={"outcome": found})


def refusal(seen: observe.Observed, record: results.Record) -> str | None:
    """Return why Inspect could not read its source; None while it may, or when it has.

    That ends nothing: before the run starts the spec may be edited, which inspects anew.
    """
    job = seen.stage_jobs.get(Stage.INSPECT)
    if record.inspection is not None or job is None or not job.finished:
        return None
    where = f"spec.target.uri {seen.spec.target.uri}"
    again = f"Correct the spec, or delete Job {job.name} to read it once more."
    if job.failed is None:
        return wording.clip(f"{where} was inspected without a usable result. {again}")
    if job.ended is None or job.ended.ending is None:
        return wording.clip(f"{where} could not be inspected: {job.failed.message}. {again}")
    return wording.clip(f"{where} could not be read: {reports.words(job.ended.ending)} {again}")


def _gate(spec: DraftTrainingJobSpec, measured: stages.EvaluateResult | None, now: float) -> results.Outcome | None:
    """Return the outcome of a head that accepts too little; a number that compares with nothing passes no gate."""
    wanted = float(spec.evaluation.min_acceptance_length)
    if measured is None or measured.acceptance_length >= wanted:
        return None
    return _outcome(
        TrainingReason.GATE_NOT_MET,
        f"On {measured.prompts} held-out prompts the head's acceptance length is {measured.acceptance_length:.3f} at "
        f"{measured.speculative_tokens} speculative tokens; spec.evaluation.minAcceptanceLength asks for {wanted:g}. "
        "Make a new DraftTrainingJob with more prompts or epochs, or with a lower gate if that pays for this engine.",
        stage=Stage.EVALUATE,
        now=now,
    )


def _of_current_job(seen: observe.Observed, record: results.Record, now: float) -> results.Outcome | None:
    stage = record.current
    job = seen.stage_jobs.get(stage) if stage else None
    if stage is None or stage is Stage.INSPECT or job is None:
        return None
    if job.failed is not None:
        return _job_failed(seen, job, now)
    if job.complete is not None:
        return _no_result(seen, record, job, now)
    return _hopeless(seen, job, now)


def _job_failed(seen: observe.Observed, job: observe.StageJob, now: float) -> results.Outcome | None:
    ended, failed = job.ended, job.failed
    if failed is None or (ended is None and now - failed.at < views.LOST_AFTER_S):
        return None
    ending = ended.ending if ended else None
    said = reports.read(ending) if ending else None
    if said is not None and isinstance(said.result, stages.EvaluateResult):
        gate = _gate(seen.spec, said.result, now)
        if gate is not None:
            return gate
    if said is not None and said.permanent:
        return _outcome(TrainingReason.STAGE_FAILED, f"Stage {job.stage}: {said.error}", stage=job.stage, now=now)
    last = reports.words(ending) if ending else failed.message
    tries = max(job.failures, 1)
    return _outcome(
        TrainingReason.RETRIES_EXHAUSTED,
        f"Stage {job.stage} failed {tries} times, with spec.stageRetries {seen.spec.stage_retries}; the last time: "
        f"{last}. What it finished is kept on the workspace; see the pods of Job {job.name}.",
        stage=job.stage,
        now=now,
    )


def _no_result(
    seen: observe.Observed, record: results.Record, job: observe.StageJob, now: float
) -> results.Outcome | None:
    """Return the outcome of a Job that succeeded for nothing; a result lost with its pod is worth running again."""
    answer = reports.answer(job, places.locate(seen.spec, seen.uid), now)
    if isinstance(answer, reports.Unfit):
        return _outcome(TrainingReason.STAGE_FAILED, answer.message, stage=job.stage, now=now)
    if record.of(job.stage).losses <= seen.spec.stage_retries:
        return None
    return _outcome(
        TrainingReason.RETRIES_EXHAUSTED,
        f"Stage {job.stage} succeeded {record.of(job.stage).losses} times, and each time its pod was deleted before "
        "its result was read; find out what deletes finished pods in this namespace.",
        stage=job.stage,
        now=now,
    )


def _hopeless(seen: observe.Observed, job: observe.StageJob, now: float) -> results.Outcome | None:
    """Return the outcome of a Job that would go on, though more tries change nothing."""
    killed = sum(1 for pod in job.pods if pod.ending and pod.ending.out_of_memory)
    if killed >= _OOM_LIMIT:
        return _outcome(
            TrainingReason.RETRIES_EXHAUSTED,
            f"Stage {job.stage} was OOMKilled {killed} times. Raise spec.trainer.podTemplate.resources.limits.memory, "
            "or lower spec.training.totalSequenceLength and spec.data.sequenceLength in a new DraftTrainingJob.",
            stage=job.stage,
            now=now,
        )
    return _engine_gives_up(seen, job, now)


def _engine_gives_up(seen: observe.Observed, job: observe.StageJob, now: float) -> results.Outcome | None:
    """Return the outcome of a sidecar that Kubernetes would restart for ever."""
    pod = job.newest
    engine = pod.engine if pod else None
    if engine is None or engine.last is None:
        return None
    allowed = min(seen.spec.stage_retries, _OOM_LIMIT - 1) if engine.last.out_of_memory else seen.spec.stage_retries
    if engine.restarts <= allowed:
        return None
    memory = "Raise spec.engine.podTemplate.resources.limits.memory." if engine.last.out_of_memory else ""
    return _outcome(
        TrainingReason.RETRIES_EXHAUSTED,
        f"Stage {job.stage}: the engine ended {engine.restarts} times; the last time: {reports.words(engine.last)}. "
        f"{memory or 'Correct spec.engine (image, args, tensorParallelSize) in a new DraftTrainingJob.'}",
        stage=job.stage,
        now=now,
    )


def _outcome(reason: TrainingReason, message: str, *, stage: Stage, now: float) -> results.Outcome:
    return results.Outcome(reason=reason, message=wording.clip(message), at=conditions.timestamp(now), stage=stage)
