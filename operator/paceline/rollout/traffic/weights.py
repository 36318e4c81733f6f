"""Steps: shares of users' traffic that a candidate gets after the probe's verdict and before its promotion.

The share is noted in the record before any traffic moves, so that a restart goes on at the same share; it is counted
from the moment it was seen in place. Behind the front Service alone a share is made of whole replicas: the candidate
gets as many as make it, stable keeps all of its own, and the Service selects both once no other server's pod is left.
Where the spec names an HTTPRoute its weights make the share (``routing``), and the Service goes on selecting stable. A
candidate that is taken back keeps its pods until its streams have ended.
"""

import math
from dataclasses import dataclass
from typing import Final

from paceline.api import base, names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Decision, RolloutRecord, Seating
from paceline.planning import conditions
from paceline.rollout import rollback, steps
from paceline.rollout.documents import records, workloads
from paceline.rollout.places import handover
from paceline.rollout.steps import Case, Step
from paceline.rollout.traffic import exposure, routing
from paceline.rollout.view import observe, readiness

_AGAIN_S: Final = 15.0
_WHOLE: Final = 100
# Stable has given up a replica for the candidate.
_TAKEN: Final = frozenset({Seating.TAKEN, Seating.TAKEN_SHARED})
_SETTLING_S: Final = 10.0
"""After the other arms were asked to go, before the Service selects whatever server's pod there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a weight comes to."""

    replicas: int
    """Of the candidate."""
    percent: int
    """Of users' traffic, as far as replicas can tell."""


def begin(case: Case, verdict: str) -> Step | None:
    """Return the step that notes the first share; None when there are no steps, or nothing to share with."""
    spec = case.seen.owner.spec
    can_share = spec.replicas > 1 or (spec.replicas == 1 and routing.is_on(case.seen))
    if not case.record.stable or not can_share or case.record.seating is Seating.STOPPED:
        return None
    weight = _next(case, above=0)
    return _noted(case, weight, verdict=verdict) if weight else None


def advance(case: Case) -> Step | None:
    """Return the next step of a candidate that has a share; None when it has had all of them, and may be promoted."""
    record = case.record
    found = share(case.seen, record)
    ready = case.readiness(record.candidate, wanted=found.replicas)
    if isinstance(ready, readiness.Failed) and not _has_endpoint(case.seen, record.candidate):
        return rollback.reject(case, ready.reason, ready.message)
    if record.weight_since is None:
        return _until_in_place(case, ready, found)
    off = _off_course(case, found)
    return off or _watched(case, found, since=conditions.parse_timestamp(record.weight_since))


def _off_course(case: Case, found: Share) -> Step | None:
    """Return the step of a share that does not stand as it was seen in place; None while it does."""
    record = case.record
    if record.route != routing.name(case.seen):
        # The spec has been edited: what makes the share now has to be in place first.
        return _noted(case, record.weight, verdict=record.verdict)
    obstacle = routing.obstacle(case)
    return _hindered(case, found, obstacle) if obstacle is not None else None


def _watched(case: Case, found: Share, *, since: float) -> Step | None:
    """Return what users' traffic on the share leads to; None when it has been watched for long enough, as the last."""
    record = case.record
    seen = exposure.of_candidate(case.seen, since=since)
    limit_ms = case.seen.owner.spec.rollout.analysis.users_ttft_limit_ms
    fault = exposure.fault(seen, ttft_limit_ms=limit_ms)
    if fault is not None:
        return rollback.reject(case, fault.reason, f"with {found.percent} % of users' traffic, {fault.message}")
    until = since + _pause_s(case)
    if case.now < until:
        return _watching(case, found, until)
    if seen.requests is None:
        return _blind(case, found, until)
    weight = _next(case, above=record.weight)
    return _noted(case, weight, verdict=record.verdict) if weight else None


def share(seen: observe.Observed, record: RolloutRecord) -> Share:
    """Return what an open rollout's weight comes to: a candidate that has a place for one keeps to that."""
    if routing.is_on(seen):
        return Share(replicas=routing.replicas(seen, record), percent=routing.percent(seen, record))
    stable = max(1, seen.owner.spec.replicas - (1 if record.seating in _TAKEN else 0))
    if record.seating in {None, Seating.BESIDE}:
        return of_replicas(stable, record.weight)
    return Share(replicas=1, percent=round(_WHOLE / (1 + stable)))


def of_replicas(stable: int, asked: int) -> Share:
    """Return the share nearest to ``asked`` percent beside a stable that keeps its replicas: half at most."""
    wanted = stable if asked >= _WHOLE else round(asked * stable / (_WHOLE - asked))
    replicas = min(stable, max(1, wanted))
    return Share(replicas=replicas, percent=round(_WHOLE * replicas / (replicas + stable)))


def is_pool(seen: observe.Observed, history: records.History, now: float) -> bool:
    """Whether users are to reach stable and the candidate: both have endpoints, and nothing of another server is left.

    A pod that was made just before its Deployment went may not be seen yet, hence the moment between.
    """
    record = history.open.record if history.open else None
    if record is None or not record.weight or record.stable != history.stable or routing.is_on(seen):
        return False
    if seen.front is not None and seen.front.is_pool:
        # One of them may lose its endpoints for a while: the Service then leads to the other by itself.
        return True
    both = frozenset({names.short(record.candidate), names.short(record.stable)})
    ready = all(_has_endpoint(seen, one) for one in (record.candidate, record.stable))
    strangers = {key for key in seen.servers if not workloads.is_copy(key)} - both
    noted = conditions.parse_timestamp(record.waiting_since or record.started_at)
    return ready and not strangers and seen.living <= both and now >= noted + _SETTLING_S


def may_come(seen: observe.Observed, key: str) -> bool:
    """Whether a Deployment may be made now: a pool leads users to every server's pod, so no stranger may come to it."""
    if seen.front is None or not seen.front.is_pool or workloads.is_copy(key):
        return True
    if handover.sizes(seen, seen.history) is not None:
        # The handover's own rule: a stranger's pod takes the Service out of its pool.
        return True
    newest = seen.history.stored[-1].record if seen.history.stored else None
    sharing = newest.candidate if newest and newest.weight else ""
    return key in {seen.front.selected, names.short(seen.history.stable), names.short(sharing)}


def in_place(seen: observe.Observed, record: RolloutRecord) -> int:
    """Return the percent of users' traffic that the candidate has, as far as replicas can tell; 0 when it has none."""
    if routing.is_on(seen):
        return routing.shown(seen, record) if record.decision is None else 0
    shared = record.decision is None and record.weight and seen.front is not None and seen.front.is_pool
    return share(seen, record).percent if shared else 0


def taken_back(history: records.History) -> RolloutRecord | None:
    """Return the newest decision if it took a share of users' traffic away from its candidate."""
    last = history.last
    if last is None or not last.weight or last.decision is Decision.PROMOTED or last.serving == last.candidate:
        return None
    return last


def draining_s(seen: observe.Observed, history: records.History, now: float) -> float | None:
    """Return how long a candidate that was taken back still keeps its pods; None when none was, or it is over."""
    last, front = taken_back(history), seen.front
    if last is None or front is None or last.decided_at is None:
        return None
    decided_at = conditions.parse_timestamp(last.decided_at)
    # Until the Service selects stable alone, and no route leads to the candidate, users still come.
    still = front.is_pool or routing.leads_to(seen, last.candidate)
    began = now if still else max(front.selected_at, decided_at, routing.left_at(seen, last.candidate))
    left = began + base.parse_duration(seen.owner.spec.rollout.deadlines.draining).total_seconds() - now
    return left if left > 0 else None


def _noted(case: Case, weight: int, *, verdict: str) -> Step:
    changed = {
        "weight": weight,
        "weight_since": None,
        "route": "",
        "verdict": verdict[:1024],
        "waiting_since": conditions.timestamp(case.now),
    }
    record = case.record.model_copy(update=changed)
    percent = share(case.seen, record).percent
    short = names.short(record.candidate)
    return Step(
        reason=RolloutReason.SHIFTING,
        message=f"Candidate {short} is given {percent} % of users' traffic (a step of {weight} %).",
        record=record,
    )


def _until_in_place(case: Case, ready: readiness.Readiness, found: Share) -> Step:
    """Return the wait for replicas and the Service; replicas that find no node are done without."""
    front = case.seen.front
    settled = isinstance(ready, readiness.Ready | readiness.Failed)
    if settled and (routing.is_in_place(case) if routing.is_on(case.seen) else front is not None and front.is_pool):
        noted = {"weight_since": conditions.timestamp(case.now), "route": routing.name(case.seen)}
        record = case.record.model_copy(update=noted)
        return Step(reason=RolloutReason.SHIFTING, message=_said(case, found), record=record)
    obstacle, limit = routing.obstacle(case), _limit(case)
    if obstacle is not None and obstacle.is_final:
        return rollback.inconclusive(case, obstacle.message)
    if case.now >= limit:
        return rollback.inconclusive(case, "Its share of users' traffic was not in place in time.")
    if isinstance(ready, readiness.Waiting):
        return steps.waiting(ready, case.now)
    message = f"The front Service waits to select candidate {names.short(case.record.candidate)} beside stable."
    if routing.is_on(case.seen):
        message = obstacle.message if obstacle else f"HTTPRoute {routing.name(case.seen)} is being weighted."
    return Step(reason=RolloutReason.SHIFTING, message=message, look_again_s=min(_AGAIN_S, limit - case.now))


def _hindered(case: Case, found: Share, obstacle: routing.Obstacle) -> Step:
    """Return the wait for a route that cannot be weighted any more: what users see meanwhile proves nothing."""
    since = conditions.parse_timestamp(case.record.weight_since or case.record.started_at)
    limit = since + _pause_s(case) + base.parse_duration(case.deadlines.analysis).total_seconds()
    if obstacle.is_final or case.now >= limit:
        return rollback.inconclusive(case, f"While it had {found.percent} % of users' traffic: {obstacle.message}")
    again_s = min(_AGAIN_S, limit - case.now)
    return Step(reason=RolloutReason.SHIFTING, message=obstacle.message, look_again_s=again_s)


def _watching(case: Case, found: Share, until: float) -> Step:
    return Step(reason=RolloutReason.SHIFTING, message=_said(case, found), look_again_s=min(_AGAIN_S, until - case.now))


def _blind(case: Case, found: Share, until: float) -> Step:
    """Return the wait for metrics that can be read: a share that nobody could watch proves nothing."""
    limit = until + base.parse_duration(case.deadlines.analysis).total_seconds()
    if case.now >= limit:
        return rollback.inconclusive(case, f"With {found.percent} % of users' traffic its metrics could not be read.")
    message = f"{_said(case, found)} Its metrics cannot be read, so the step goes on."
    return Step(reason=RolloutReason.SHIFTING, message=message, look_again_s=min(_AGAIN_S, limit - case.now))


def _said(case: Case, found: Share) -> str:
    return f"Candidate {names.short(case.record.candidate)} has {found.percent} % of users' traffic."


def _next(case: Case, *, above: int) -> int:
    """Return the next weight; 0 after the last. By weight, not by place: the spec may have been edited meanwhile."""
    return next((one.weight for one in case.seen.owner.spec.rollout.steps if one.weight > above), 0)


def _pause_s(case: Case) -> float:
    """Return how long the share is watched: by its own step, or the next lower one that an edit of the spec left."""
    known = [one for one in case.seen.owner.spec.rollout.steps if one.weight <= case.record.weight]
    return base.parse_duration(known[-1].pause).total_seconds() if known else 0.0


def _limit(case: Case) -> float:
    record, deadlines = case.record, case.deadlines
    since = conditions.parse_timestamp(record.waiting_since or record.started_at)
    spans = (deadlines.scheduling, deadlines.loading, deadlines.draining)
    return since + math.fsum(base.parse_duration(one).total_seconds() for one in spans)


def _has_endpoint(seen: observe.Observed, digest: str) -> bool:
    server = seen.server(digest)
    return bool(server and server.ready)
