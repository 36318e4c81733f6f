"""``spec.activeDeadline``: over the time that pods held a node, so that a long queue costs nobody a run."""

from paceline.api import base
from paceline.api.conditions import TrainingReason
from paceline.planning import conditions
from paceline.training import collect, observe, results, wording


def left_s(seen: observe.Observed, record: results.Record, now: float) -> float:
    """Return how many seconds stages may still run."""
    return base.parse_duration(seen.spec.active_deadline).total_seconds() - collect.spent_s(seen, record, now)


def judge(seen: observe.Observed, record: results.Record, now: float) -> results.Record:
    """Return the record with the outcome DeadlineExceeded when the time is used up, or without it when there is more.

    The deadline may be raised while everything else is fixed. A run that it ended then goes on from its workspace,
    instead of losing a day of training to a number.
    """
    ended_by_it = record.outcome is not None and record.outcome.reason is TrainingReason.DEADLINE_EXCEEDED
    if left_s(seen, record, now) > 0:
        return record.model_copy(update={"outcome": None}) if ended_by_it else record
    if record.outcome is not None or record.current is None:
        return record
    stage = record.current
    job = seen.stage_jobs.get(stage)
    if job is not None:
        # Entered now: pods that are deleted take their time with them, and the run would seem to have some left.
        record = collect.retire(record, job, now=now)
    return record.model_copy(
        update={
            "outcome": results.Outcome(
                reason=TrainingReason.DEADLINE_EXCEEDED,
                message=wording.clip(
                    f"Stages ran for the whole spec.activeDeadline of {seen.spec.active_deadline} and stopped in "
                    f"{stage}. What is finished is kept: raise spec.activeDeadline to go on from there."
                ),
                at=conditions.timestamp(now),
                stage=stage,
            )
        }
    )
