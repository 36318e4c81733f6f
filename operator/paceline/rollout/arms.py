"""Which Deployments are wanted, and with how many replicas: stable's, the open rollout's, and what still drains."""

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.api import base, names
from paceline.api.measurement import RolloutRecord, Seating
from paceline.planning import kinds, plan
from paceline.rollout import growth
from paceline.rollout.documents import claims, records, revisions, workloads
from paceline.rollout.places import copies, handover, turns
from paceline.rollout.traffic import weights
from paceline.rollout.view import observe, parts


def wanted(
    seen: observe.Observed, history: records.History, *, full: str, now: float
) -> tuple[Mapping[str, int], float | None]:
    """Return replicas by short hash (a measuring copy's by its key), and in how many seconds a draining one is over.

    Args:
        seen: what exists.
        history: the records as they will be after this pass's write.
        full: digest of an arm that gets all replicas before it serves; empty for none.
        now: wall clock.
    """
    replicas = seen.owner.spec.replicas
    arms: dict[str, int] = {}
    if history.open is not None:
        arms.update(_of_rollout(seen, history.open.record))
        copied = copies.wanted_for(history.open.record, replicas=replicas)
        if copied and not full:
            arms[workloads.copy_key(names.short(copied))] = 1
    if full:
        arms[names.short(full)] = replicas
    if history.stable:
        arms[names.short(history.stable)] = max(0, replicas - _given_up(history))
    handed = handover.sizes(seen, history)
    change = history.last_change
    if handed is not None and change is not None:
        arms |= {names.short(change.serving): handed.new, names.short(change.stable): handed.old}
        return arms, None
    front, taken_back = seen.front, weights.taken_back(history)
    if front is None:
        return arms, None
    if not history.stable:
        # Somebody has deleted the records: what users are on serves until a new baseline takes over.
        return _kept(arms, seen, front.selected, most=replicas), None
    left = weights.draining_s(seen, history, now)
    if taken_back is not None and left is not None:
        return _kept(arms, seen, names.short(taken_back.candidate)), left
    if front.selected != names.short(history.stable):
        # Users are still on the revision before: it stays as it is until the Service is flipped.
        return _kept(arms, seen, front.selected), None
    return _with_drained(arms, seen, history, front=front, now=now)


def _of_rollout(seen: observe.Observed, record: RolloutRecord) -> dict[str, int]:
    if record.seating is Seating.ASKED:
        return {}
    if record.weight:
        # Nothing is measured any more: the control has gone, and the candidate has what its share takes.
        share = weights.share(seen, record).replicas
        return {names.short(record.candidate): growth.bounded(seen, record, share)}
    slot = turns.slot(seen, record)
    if slot:
        return {names.short(slot): 1}
    each = claims.seated_with(record, seen.owner.spec.replicas)
    return {names.short(digest): each for digest in (record.control, record.candidate) if digest}


def _given_up(history: records.History) -> int:
    """Return how many of stable's replicas have made way for the open rollout."""
    opened = history.open.record if history.open else None
    return 1 if opened and opened.seating in claims.IN_STABLES_PLACE and opened.released_at else 0


def _kept(arms: dict[str, int], seen: observe.Observed, short: str, *, most: int | None = None) -> dict[str, int]:
    """Return ``arms`` with one more that stays at the size it has, or shrinks to ``most``."""
    server = seen.servers.get(short)
    if server is None or short in arms:
        return arms
    return {**arms, short: server.replicas if most is None else min(server.replicas, most)}


def _with_drained(
    arms: dict[str, int], seen: observe.Observed, history: records.History, *, front: parts.Front, now: float
) -> tuple[Mapping[str, int], float | None]:
    change = history.last_change
    if change is None or not change.stable or change.number != front.decision:
        return arms, None
    draining = base.parse_duration(seen.owner.spec.rollout.deadlines.draining).total_seconds()
    left = front.selected_at + draining - now
    short = names.short(change.stable)
    if left <= 0 or short in arms or short not in seen.servers:
        return arms, None
    return _kept(arms, seen, short), left


def create_and_scale(seen: observe.Observed, arms: Mapping[str, int]) -> Sequence[plan.Action]:
    """Return the writes that bring wanted Deployments to their size, each from its own revision's template."""
    by_short = {revision.short: revision for revision in seen.revisions.values()}
    actions: list[plan.Action] = []
    for short, replicas in sorted(arms.items()):
        revision, server = by_short.get(workloads.revision_of(short)), seen.servers.get(short)
        if revision is None or (server is not None and server.replicas == replicas):
            continue
        if server is None and not weights.may_come(seen, short):
            continue
        manifest = _manifest(seen.owner, short, revision, replicas=replicas)
        if server is None:
            actions.append(plan.Create(manifest=manifest))
        else:
            shrinks = replicas < server.replicas
            version = server.resource_version if shrinks else None
            actions.append(plan.Apply(manifest=manifest, uid=server.uid, resource_version=version))
    return actions


def _manifest(owner: workloads.Owner, key: str, revision: revisions.Revision, *, replicas: int) -> dict[str, Any]:
    if workloads.is_copy(key):
        return workloads.measuring_copy(owner, revision)
    return workloads.deployment(owner, revision, replicas=replicas)


def delete_unwanted(seen: observe.Observed, arms: Mapping[str, int]) -> Sequence[plan.Action]:
    """Return the deletion of Deployments that nothing wants any more."""
    return [
        workloads.delete(
            seen.owner,
            kinds.DEPLOYMENT,
            name=server.name,
            uid=server.uid,
            resource_version=server.resource_version,
        )
        for short, server in sorted(seen.servers.items())
        if short not in arms
    ]
