"""``spec.suspend``: nothing runs, and what is finished stays on the workspace for the resumed run."""

from paceline.training import observe, results, step


def hold(seen: observe.Observed, record: results.Record) -> step.Step | None:
    """Return the step of a suspended run; None when it is not suspended.

    The Job is deleted, not suspended in place: a queue such as Kueue owns a Job's own ``suspend``.
    """
    if not seen.spec.suspend:
        return None
    stage = record.current
    job = seen.stage_jobs.get(stage) if stage else None
    return step.Step() if job is None or job.finished else step.end_job(seen, job)
