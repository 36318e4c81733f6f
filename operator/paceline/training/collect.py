"""Moves what Jobs and pods show into the record: results, attempts, and the time that pods held a node."""

from collections.abc import Iterable

from paceline.api.drafttrainingjob import Stage
from paceline.planning import conditions
from paceline.training import attempts, observe, places, reports, results


def collect(seen: observe.Observed, now: float) -> results.Record:
    """Return the record with everything that is over entered into it."""
    record = _about_this_spec(seen)
    if record.started_at is None and seen.start_time is not None:
        # The pass that claimed the start wrote only status; from here on it outlives a status that is lost.
        record = record.model_copy(update={"started_at": seen.start_time})
    for job in seen.stage_jobs.values():
        record = charge(record, job, pods=[pod for pod in job.pods if pod.over or pod.deleting], now=now)
    folders = places.locate(seen.spec, seen.uid)
    for stage in Stage:
        if record.of(stage).result is not None:
            continue
        finished = seen.stage_jobs.get(stage)
        if finished is None:
            break
        answer = reports.answer(finished, folders, now)
        if answer is None or isinstance(answer, reports.Unfit):
            break
        record = retire(record, finished, now=now, lost=isinstance(answer, reports.Lost))
        if isinstance(answer, reports.Lost):
            break
        record = record.with_stage(
            stage=stage,
            result=answer,
            input_digest=seen.inspect_digest if stage is Stage.INSPECT else None,
            started_at=finished.started_at,
            finished_at=conditions.timestamp(finished.complete.at if finished.complete else now),
        )
    return record


def charge(
    record: results.Record, job: observe.StageJob, *, pods: Iterable[attempts.Attempt], now: float
) -> results.Record:
    """Return the record with the time of ``pods`` added, of each once.

    Pods that the cluster takes away vanish, so this cannot wait for the Job's end. Inspect is free: it runs before the
    run starts, and asks for no accelerator.
    """
    before = record.of(job.stage)
    new = [pod for pod in pods if pod.uid not in before.charged and pod.started_s is not None]
    if not new or job.stage is Stage.INSPECT:
        return record
    return record.with_stage(
        stage=job.stage,
        spent_s=before.spent_s + round(sum(pod.ran_s(now) for pod in new)),
        charged=results.remember(before.charged, *(pod.uid for pod in new)),
    )


def retire(record: results.Record, job: observe.StageJob, *, now: float, lost: bool = False) -> results.Record:
    """Return the record with a Job that is over, or about to be deleted, added to it once."""
    record = charge(record, job, pods=job.pods, now=now)
    before = record.of(job.stage)
    if job.uid in before.retired:
        return record
    return record.with_stage(
        stage=job.stage,
        attempts=before.attempts + pods_tried(job),
        losses=before.losses + int(lost),
        retired=results.remember(before.retired, job.uid),
        started_at=before.started_at or job.started_at,
    )


def pods_tried(job: observe.StageJob) -> int:
    """Return how many pods of ``job`` were charged, succeeded, or still run."""
    lives = not job.finished and any(not pod.over for pod in job.pods)
    return job.failures + int(lives or job.complete is not None)


def spent_s(seen: observe.Observed, record: results.Record, now: float) -> float:
    """Return for how long the run's pods have held a node, those that still run included."""
    total = float(sum(one.spent_s for one in record.entries))
    for job in seen.stage_jobs.values():
        if job.stage is not Stage.INSPECT:
            charged = record.of(job.stage).charged
            total += sum(pod.ran_s(now) for pod in job.pods if pod.uid not in charged)
    return total


def _about_this_spec(seen: observe.Observed) -> results.Record:
    """Return the record, without an inspection of what the spec said before an edit."""
    digest = seen.record.of(Stage.INSPECT).input_digest
    if seen.start_time is None and digest not in {None, seen.inspect_digest}:
        return seen.record.without(Stage.INSPECT)
    return seen.record
