"""The Service that users call: it selects exactly one revision, the one that the newest decision serves.

The Service carries the number of the decision it follows. A pass that sees an older decision than that looks at an old
picture, and must not flip back.
"""

from collections.abc import Sequence
from typing import Final

from paceline.api import names
from paceline.planning import plan
from paceline.rollout.documents import records, workloads
from paceline.rollout.places import handover
from paceline.rollout.traffic import weights
from paceline.rollout.view import observe, parts

SETTLING_S: Final = 60.0


def is_outdated(seen: observe.Observed, now: float) -> bool:
    """Whether the Service has just been made to follow a decision that the records seen do not hold.

    After a while the picture cannot be old any more: then somebody has deleted the record, and what is left counts.
    """
    front = seen.front
    last = seen.history.last.number if seen.history.last else 0
    return front is not None and front.decision > last and now < front.selected_at + SETTLING_S


def actions(seen: observe.Observed, history: records.History, now: float) -> Sequence[plan.Action]:
    """Return the write that makes the Service follow the newest decision; none when it does."""
    stable, change = history.stable, history.last_change
    if not stable or change is None:
        return ()
    front, decision = seen.front, change.number
    if front is None:
        return (plan.Create(manifest=workloads.front(seen.owner, stable, decision=decision, now=now)),)
    pool = handover.is_pool(seen, history) or weights.is_pool(seen, history, now)
    if front.selected == names.short(stable) and front.is_pool == pool:
        if front.port == seen.owner.spec.traffic.port:
            return ()
        return (_apply(seen, front, stable, decision=front.decision, now=front.selected_at, pool=pool),)
    if not _may_flip(seen, front, stable):
        return ()
    return (_apply(seen, front, stable, decision=decision, now=now, pool=pool),)


def _may_flip(seen: observe.Observed, front: parts.Front, stable: str) -> bool:
    """Whether the new revision has an endpoint, or the old one has none to lose."""
    new, old = seen.server(stable), seen.servers.get(front.selected)
    return bool(new and new.ready) or not (old and old.ready)


def _apply(
    seen: observe.Observed, front: parts.Front, stable: str, *, decision: int, now: float, pool: bool
) -> plan.Action:
    return plan.Apply(
        manifest=workloads.front(seen.owner, stable, decision=decision, now=now, pool=pool),
        uid=front.uid,
        resource_version=front.resource_version,
    )
