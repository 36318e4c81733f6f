"""What is said when nothing is on its way: how the last rollout ended, or why none begins."""

from typing import Final

from paceline.api import names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Decision, Purpose, RolloutRecord
from paceline.rollout import opening
from paceline.rollout.resolving import resolve
from paceline.rollout.steps import Step
from paceline.rollout.view import observe

# A reason has one status, and a wait's is True: a wait that is over has a reason of its own.
OVERDUE: Final = {
    RolloutReason.SCHEDULING: RolloutReason.SCHEDULING_DEADLINE_EXCEEDED,
    RolloutReason.INSUFFICIENT_GPU: RolloutReason.SCHEDULING_DEADLINE_EXCEEDED,
    RolloutReason.STARTING: RolloutReason.STARTING_DEADLINE_EXCEEDED,
    RolloutReason.VOLUME_UNAVAILABLE: RolloutReason.STARTING_DEADLINE_EXCEEDED,
    RolloutReason.LOADING: RolloutReason.LOADING_DEADLINE_EXCEEDED,
    RolloutReason.WARMING_UP: RolloutReason.WARM_UP_DEADLINE_EXCEEDED,
}


def describe(seen: observe.Observed, wanted: opening.Goal, resolution: resolve.Resolution) -> Step:
    """Return where a settled resource stands."""
    history = seen.history
    if not wanted.known:
        return Step(reason=RolloutReason.INSPECTING, message=resolution.message)
    refusal = history.refused(wanted.digest) if wanted.inputs else None
    last = history.last
    if refusal is not None and last is not None and last.purpose is Purpose.RECOVERY:
        return _after(last)
    if refusal is not None:
        return _refused(refusal, is_newest=refusal is history.last)
    if resolution.awaiting:
        return Step(reason=RolloutReason.AWAITING_HEAD, message=resolution.awaiting, progressing=False)
    if last is None:
        message = "Nothing serves; see condition Accepted."
        return Step(reason=RolloutReason.SETTLED, message=message, progressing=False)
    return _after(last)


def condition_reason(record: RolloutRecord) -> RolloutReason:
    """Return the reason of condition Progressing for a decided record."""
    if record.decision is Decision.PROMOTED:
        return RolloutReason.PROMOTED
    known = {reason.value: reason for reason in RolloutReason}
    reason = known.get(record.reason, RolloutReason.ROLLED_BACK)
    return OVERDUE.get(reason, reason)


def _refused(record: RolloutRecord, *, is_newest: bool) -> Step:
    short = names.short(record.candidate)
    again = f"Change the spec, or annotate paceline.dev/retry: {short} to have it measured again."
    if is_newest:
        message = f"{record.message} {again}"
        return Step(reason=condition_reason(record), message=message[:1024], progressing=False)
    message = f"Revision {short} ended rollout {record.number} as {record.decision} ({record.reason}). {again}"
    return Step(reason=RolloutReason.REJECTED_BEFORE, message=message[:1024], progressing=False)


def _after(record: RolloutRecord) -> Step:
    reason = condition_reason(record)
    if reason is RolloutReason.HEALTHY:
        reason = RolloutReason.SETTLED
    return Step(reason=reason, message=record.message, progressing=False)
