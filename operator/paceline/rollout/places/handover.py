"""From one serving revision to the next where there is no room for both: one replica after the other.

The decision is made and stands; what is left is a level. As many replicas of the new revision are wanted as are ready,
and one more, unless that one could land on a node that somebody else was promised. The old one gives up a replica only
when a pod of the new one waits for its GPUs, and otherwise only what the new one has made good, so that all but one of
``spec.replicas`` serve all along. Meanwhile the front Service selects both; it selects the new one alone once that
has all its replicas.
"""

from dataclasses import dataclass
from typing import Final

from paceline.api import base, names
from paceline.api.conditions import RolloutReason
from paceline.api.speculativedeployment import Strategy
from paceline.capacity import forecast
from paceline.planning import conditions
from paceline.rollout.documents import claims, records
from paceline.rollout.places import seats
from paceline.rollout.steps import Case, Step
from paceline.rollout.view import observe, readiness

_LACKS_NODE: Final = frozenset({RolloutReason.SCHEDULING, RolloutReason.INSUFFICIENT_GPU})
_AGAIN_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Replicas of the revision that serves from now on, and of the one before."""

    new: int
    old: int


def rolls(case: Case, digest: str) -> bool:
    """Whether a revision that won has to take over one replica after the other, for want of room for all at once."""
    seen, replicas = case.seen, case.seen.owner.spec.replicas
    if replicas <= 1 or not case.record.stable:
        return False
    if case.record.seating in claims.IN_STABLES_PLACE:
        return True
    server = seen.server(digest)
    missing = replicas - (len(server.pods) if server else 0)
    found = seats.room_for(case, digest, missing) if missing > 0 else None
    return seen.owner.spec.rollout.strategy is Strategy.AUTO and found is not None and not found.is_enough


def may_roll(case: Case, failed: readiness.Failed) -> bool:
    """Whether replicas that found no node may come one after the other instead: all the forecast could not tell."""
    spec = case.seen.owner.spec
    others = spec.replicas > 1 and bool(case.record.stable) and spec.rollout.strategy is not Strategy.SURGE
    return others and failed.reason in _LACKS_NODE


def sizes(seen: observe.Observed, history: records.History) -> Sizes | None:
    """Return what both revisions are to have; None when nothing is handed over."""
    change = history.last_change
    if change is None or not change.rolls or not change.stable:
        return None
    new, old = seen.server(change.serving), seen.server(change.stable)
    replicas = seen.owner.spec.replicas
    ready = len(new.ready) if new else 0
    if new is None or old is None or ready >= replicas:
        return None
    if not old.replicas and not old.pods:
        # It has given up all it had; what the new one still lacks waits for others' GPUs.
        return None
    more = 0 if new.replicas <= ready and _takes_promised(seen, change.serving) else 1
    waits = any(pod.scheduled_at is None and pod.unschedulable for pod in new.pods)
    front = seen.front
    alone = front is not None and not front.is_pool and front.selected == names.short(change.stable)
    # What the new revision has ready serves nobody while the Service still selects the old one alone.
    least = replicas - 1 if alone else 0
    return Sizes(
        new=min(replicas, ready + more),
        old=min(old.replicas, max(least, replicas - ready - (1 if waits else 0))),
    )


def _takes_promised(seen: observe.Observed, digest: str) -> bool:
    """Whether the next pod would land on what others were promised, while it waits for a place of the old one."""
    revision = seen.revisions.get(digest)
    if seen.devices is None or revision is None:
        return False
    next_one = forecast.Claim.of(revision.template["spec"], 1)
    return forecast.takes_promised(seen.devices, seen.standing.promised, next_one)


def is_pool(seen: observe.Observed, history: records.History) -> bool:
    """Whether users are to reach both revisions: while both have endpoints, and nobody else could get the traffic."""
    change = history.last_change
    if sizes(seen, history) is None or change is None:
        return False
    new, old = seen.server(change.serving), seen.server(change.stable)
    both = frozenset({names.short(change.serving), names.short(change.stable)})
    return bool(new and new.ready and old and old.ready) and seen.living <= both


def describe(seen: observe.Observed, now: float) -> Step | None:
    """Return where a handover stands; None when there is none, or when it has taken so long that others may begin."""
    found = _under_way(seen)
    if found is None or now >= found.until:
        return None
    return Step(
        reason=RolloutReason.RELEASING,
        message=f"{found.said}; {found.old} serves with it and makes way one by one.",
        look_again_s=min(_AGAIN_S, found.until - now),
    )


def overdue(seen: observe.Observed, now: float) -> Step | None:
    """Return what is said of a handover that has outlasted its deadline; None when there is none, or it has not.

    It is a level, so it goes on whenever a node is free; only others need not wait for it any more.
    """
    found = _under_way(seen)
    if found is None or now < found.until:
        return None
    deadlines = seen.owner.spec.rollout.deadlines
    return Step(
        reason=RolloutReason.HANDOVER_DEADLINE_EXCEEDED,
        message=f"{found.said}, and {found.old} serves with it. rollout.deadlines.scheduling ({deadlines.scheduling})"
        f" and loading ({deadlines.loading}) are over for every replica. It goes on when GPUs are free: free"
        " a node, or see the events of its pods.",
        progressing=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnderWay:
    said: str
    old: str
    until: float


def _under_way(seen: observe.Observed) -> _UnderWay | None:
    change = seen.history.last_change
    if sizes(seen, seen.history) is None or change is None or change.decided_at is None:
        return None
    deadlines, replicas = seen.owner.spec.rollout.deadlines, seen.owner.spec.replicas
    each = sum(base.parse_duration(span).total_seconds() for span in (deadlines.scheduling, deadlines.loading))
    new = seen.server(change.serving)
    ready = len(new.ready) if new else 0
    return _UnderWay(
        said=f"Revision {names.short(change.serving)} has {ready} of {replicas} replicas",
        old=names.short(change.stable),
        until=conditions.parse_timestamp(change.decided_at) + each * replicas,
    )
