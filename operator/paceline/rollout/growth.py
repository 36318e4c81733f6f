"""Replicas of a rollout's newcomer beyond those it was seated with: asked for in the ledger before any of them is made.

A share of users' traffic, and the way to all replicas, take nodes as an arm does, so they ask as an arm does: the
record is written with what is asked, and a later pass, whose picture holds that version, grants. Whatever policy a step
came from, it passes here last, so that none can forget to ask.

What was promised to others before is waited for. Where the cluster has no room even without those promises the replicas
are made all the same: they wait in the scheduler's queue, and scheduling deadlines decide.
"""

from dataclasses import replace
from typing import Final

from paceline.api import names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import RolloutRecord
from paceline.capacity import forecast
from paceline.planning import conditions
from paceline.rollout.documents import claims
from paceline.rollout.places import seats, turns
from paceline.rollout.steps import Case, Step
from paceline.rollout.traffic import weights
from paceline.rollout.view import observe

_AGAIN_S: Final = 15.0


def settle(case: Case, step: Step) -> Step:
    """Return ``step``, or what comes before the replicas that it would make."""
    record = step.record or case.record
    if record.decision is not None:
        return step
    wanted = _wanted(case.seen, record, step)
    if wanted <= bounded(case.seen, record, wanted):
        return _settled(step, record, wanted)
    held = replace(step, full="")
    if record.asked_replicas != wanted:
        return _asks(case, held, record, wanted)
    if step.record is not None or not case.seen.standing.has_asked:
        # Its place in the ledger will be that of this pass's write.
        return held
    return _answered(case, step, wanted)


def _answered(case: Case, step: Step, wanted: int) -> Step:
    """Return what becomes of replicas that were asked for, given who asked before."""
    digest, record = turns.newcomer(case.record), case.record
    if not case.seen.standing.is_whole:
        unread = seats.unread(case)
        return replace(step, full="", reason=unread.reason, message=unread.message, look_again_s=unread.look_again_s)
    if seats.takes_promised(case, digest, wanted - _has(case.seen, record)):
        return replace(step, full="", look_again_s=min(_AGAIN_S, step.look_again_s or _AGAIN_S))
    granted = _noted(step, record, asked_replicas=0, granted_replicas=wanted, waiting_since=_moment(case))
    message = f"Revision {names.short(digest)} is brought to {wanted} replicas."
    return replace(granted, reason=RolloutReason.SCHEDULING, message=message)


def bounded(seen: observe.Observed, record: RolloutRecord, count: int) -> int:
    """Return how many of ``count`` replicas a rollout's newcomer may have now: what it was granted, and what it has."""
    revision = seen.revisions.get(turns.newcomer(record))
    if seen.devices is None or revision is None or not forecast.Claim.of(revision.template["spec"], 1).requests:
        return count
    return min(count, _has(seen, record))


def _has(seen: observe.Observed, record: RolloutRecord) -> int:
    """Return the replicas that need not be asked for: an older version may have made some without asking."""
    server = seen.server(turns.newcomer(record))
    seated = claims.seated_with(record, seen.owner.spec.replicas)
    return max(seated, record.granted_replicas, server.replicas if server else 0)


def _wanted(seen: observe.Observed, record: RolloutRecord, step: Step) -> int:
    """Return the replicas that a step would give to the newcomer; 0 where it does not grow."""
    if record.paused:
        return 0
    if step.full:
        return seen.owner.spec.replicas
    return weights.share(seen, record).replicas if record.weight else 0


def _settled(step: Step, record: RolloutRecord, wanted: int) -> Step:
    """Return the step of a newcomer that has what it wants: what it does not want any more it has to ask for again."""
    granted = min(record.granted_replicas, wanted)
    if not record.asked_replicas and granted == record.granted_replicas:
        return step
    return _noted(step, record, asked_replicas=0, granted_replicas=granted)


def _asks(case: Case, step: Step, record: RolloutRecord, wanted: int) -> Step:
    noted = _noted(step, record, asked_replicas=wanted, waiting_since=_moment(case))
    if step.record is not None:
        return noted
    message = f"Revision {names.short(turns.newcomer(record))} asks for the devices of {wanted} replicas."
    return replace(noted, reason=RolloutReason.SCHEDULING, message=message, look_again_s=_AGAIN_S)


def _noted(step: Step, record: RolloutRecord, **changed: object) -> Step:
    return replace(step, record=record.model_copy(update=changed))


def _moment(case: Case) -> str:
    return conditions.timestamp(case.now)
