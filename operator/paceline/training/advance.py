"""The next stage: begun when the one before has left its result in the record, and never twice at once."""

from dataclasses import replace
from typing import Final

from paceline.api.drafttrainingjob import Stage
from paceline.planning import kinds, plan
from paceline.planning import view as views
from paceline.training import deadline, devices, jobs, observe, results, step

# Beside the event of a stray pod's end, which may be missed.
_STRAY_S: Final = 5.0


def next_stage(seen: observe.Observed, record: results.Record, now: float) -> step.Step:
    """Return the step of a run that goes on."""
    stage = record.current
    if stage is None:
        raise AssertionError("a run whose stages all have results has an outcome")
    job = seen.stage_jobs.get(stage)
    if job is None and seen.strays:
        return step.Step(look_again_s=_STRAY_S)
    if job is None:
        return _begin(seen, record, stage)
    # Until the stage has its result, its place is its own: also between two pods, or two Jobs.
    return replace(_goes_on(seen, record, job, now), claim=devices.claim_of(seen, job.name))


def _goes_on(seen: observe.Observed, record: results.Record, job: observe.StageJob, now: float) -> step.Step:
    if job.deleting:
        return step.Step()
    if job.complete is not None and job.uid in record.of(job.stage).retired:
        # Its result was lost with its pod; the next Job finds the work on the workspace and reports it again.
        return step.end_job(seen, job)
    actions = (*_restored(seen, record, job), *_swept(seen))
    return step.Step(actions=actions, look_again_s=_look_again_s(seen, record, job, now))


def _begin(seen: observe.Observed, record: results.Record, stage: Stage) -> step.Step:
    """Return the writes that begin ``stage``; before Prepare, a pass of its own claims the start.

    Its status write makes the API server refuse further edits of the spec. Only a pass that sees it written spends
    anything, so an edit cannot slip between the decision and the Job.
    """
    if stage is not Stage.INSPECT and seen.start_time is None:
        return step.Step(claims_start=True, look_again_s=1.0)
    rendered = jobs.render(seen, record, stage)
    seat = devices.seat(seen, rendered.job)
    if seat.waits:
        return step.Step(claim=seat.claim, waits=seat.waits, look_again_s=seat.look_again_s)
    config = () if rendered.config_name in seen.configs else (plan.Create(manifest=rendered.config_map),)
    return step.Step(actions=(*_stale(seen), *config, plan.Create(manifest=rendered.job)), claim=seat.claim)


def _restored(seen: observe.Observed, record: results.Record, job: observe.StageJob) -> tuple[plan.Action, ...]:
    """Return the creation of a configuration that somebody deleted under its Job, whose next pod would wait in vain."""
    if job.finished:
        return ()
    config_map = jobs.render(seen, record, job.stage).config_map
    name = config_map["metadata"]["name"]
    is_missing = name in seen.mounted_configs and name not in seen.configs
    return (plan.Create(manifest=config_map),) if is_missing else ()


def _stale(seen: observe.Observed) -> tuple[plan.Action, ...]:
    """Return the deletion of inspections of a spec that was edited since."""
    metas = [plan.metadata(job) for job in seen.stale_jobs]
    return tuple(
        plan.Delete(kind=kinds.JOB, namespace=seen.namespace, name=meta["name"], uid=meta["uid"])
        for meta in metas
        if "deletionTimestamp" not in meta
    )


def _swept(seen: observe.Observed) -> tuple[plan.Action, ...]:
    """Return the deletion of what no Job uses: stale inspections and configurations."""
    metas = [plan.metadata(one) for name, one in seen.configs.items() if name not in seen.mounted_configs]
    unused = tuple(
        plan.Delete(kind=kinds.CONFIG_MAP, namespace=seen.namespace, name=meta["name"], uid=meta["uid"])
        for meta in metas
        if "deletionTimestamp" not in meta
    )
    return (*_stale(seen), *unused)


def _look_again_s(seen: observe.Observed, record: results.Record, job: observe.StageJob, now: float) -> float | None:
    """Return when time alone may change the answer: the deadline, or a pod that does not turn up.

    Progress is no reason: who asks the pod wakes the run when it hears something new.
    """
    if job.finished:
        return views.LOST_AFTER_S if job.ended is None else None
    pod = job.newest
    if pod is None or pod.over or pod.started_s is None:
        return None
    return max(0.0, deadline.left_s(seen, record, now))
