"""After the end: nothing holds a node, and the job goes when its time to live is over. The published head stays."""

from paceline.api import base
from paceline.planning import conditions, kinds, plan
from paceline.training import observe, results, step


def after_finish(seen: observe.Observed, record: results.Record, now: float) -> step.Step | None:
    """Return the step of a run that has ended; None while it has not."""
    if record.outcome is None:
        return None
    running = next((job for job in seen.stage_jobs.values() if not job.finished), None)
    if running is not None:
        return step.end_job(seen, running)
    if seen.spec.ttl_after_finished is None:
        return step.Step()
    lives_s = base.parse_duration(seen.spec.ttl_after_finished).total_seconds()
    left_s = conditions.parse_timestamp(record.outcome.at) + lives_s - now
    if left_s > 0:
        return step.Step(look_again_s=left_s)
    job = plan.Delete(kind=kinds.DRAFT_TRAINING_JOB, namespace=seen.namespace, name=seen.name, uid=seen.uid)
    return step.Step(actions=(job,))
