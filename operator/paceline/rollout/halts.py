"""How long a rollout waits for a person: paused, or held without a verdict, it keeps GPUs that others want."""

from paceline.api import base
from paceline.api.measurement import RolloutRecord
from paceline.planning import conditions
from paceline.rollout.steps import Case


def begun(case: Case) -> RolloutRecord | None:
    """Return the record with the beginning of the wait; None when it holds one."""
    if case.record.halted_since is not None:
        return None
    return case.record.model_copy(update={"halted_since": conditions.timestamp(case.now)})


def left_s(case: Case) -> float:
    """Return the seconds until the wait is over."""
    since = case.record.halted_since
    began = case.now if since is None else conditions.parse_timestamp(since)
    return began + base.parse_duration(case.deadlines.held).total_seconds() - case.now


def is_over(case: Case) -> bool:
    """Whether nobody decided in time."""
    return left_s(case) <= 0
