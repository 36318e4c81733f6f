"""Which weights an HTTPRoute is to carry, and what keeps it from that.

The candidate comes into the route at weight 0 with its rollout, so that a route that will not have it is found out
while nobody depends on it. Then it has its share; at the end of it 0 at once, and it leaves the rules only when its
streams have had their time. An arm without a ready endpoint has weight 0. Each weight is written once: where somebody
else has changed it since, that is told and not written over, except on the way back to what the user had.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paceline.api import base, names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Purpose, RolloutRecord, Seating
from paceline.planning import conditions, kinds, plan
from paceline.planning.view import Sight
from paceline.rollout.documents import records, routes, workloads
from paceline.rollout.steps import Case
from paceline.rollout.view import observe, readiness

# Without pods beside stable's there is nothing to share with.
_NO_SHARE: Final = frozenset({Seating.ASKED, Seating.STOPPED})
_UNSEEN: Final[Mapping[Sight, str]] = {
    Sight.OFF: "The operator does not watch HTTPRoutes; set gateway.enabled in its chart.",
    Sight.ABSENT: "The cluster has no HTTPRoute of gateway.networking.k8s.io/v1; install the Gateway API's CRDs.",
    Sight.REFUSED: "The operator may not list HTTPRoutes; set gateway.enabled in its chart, which grants it.",
    Sight.AWAITED: "HTTPRoutes have not been listed yet.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """What keeps the route from its weights."""

    reason: RolloutReason
    message: str

    @property
    def is_final(self) -> bool:
        """Whether waiting for its end would be a fight with whoever else writes the route."""
        return self.reason is RolloutReason.ROUTE_CONFLICT


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """Condition Routed."""

    is_fine: bool
    reason: RolloutReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """The writes of one pass."""

    withdrawals: Sequence[plan.Action] = ()
    """They take traffic from a revision; nothing may hold them up."""
    actions: Sequence[plan.Action] = ()
    look_again_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aim:
    """The revision that is to stand beside stable in the named route, and its percent."""

    digest: str
    percent: int

    @property
    def revision(self) -> str:
        return names.short(self.digest)


def is_on(seen: observe.Observed) -> bool:
    """Whether the spec names a route."""
    return seen.owner.spec.traffic.http_route is not None


def name(seen: observe.Observed) -> str:
    """Return the name of the route in the spec; empty without one."""
    named = seen.owner.spec.traffic.http_route
    return named.name if named else ""


def replicas(seen: observe.Observed, record: RolloutRecord) -> int:
    """Return how many replicas a share takes, so that none gets more than one of stable's has at rest."""
    if record.seating not in {None, Seating.BESIDE}:
        return 1
    return max(1, math.ceil(seen.owner.spec.replicas * record.weight / routes.WHOLE))


def percent(seen: observe.Observed, record: RolloutRecord) -> int:
    """Return what a weight comes to: itself, unless the candidate has too few places for it."""
    return min(record.weight, _bearable(seen, replicas(seen, record)))


def shown(seen: observe.Observed, record: RolloutRecord) -> int:
    """Return the percent that the route gives to a record's candidate."""
    found = _named(seen)
    service = workloads.backend_name(seen.owner, names.short(record.candidate))
    return found.shown[1] if found and found.shown and found.shown[0] == service else 0


def leads_to(seen: observe.Observed, digest: str) -> bool:
    """Whether any route still sends users to a revision by itself."""
    service = workloads.backend_name(seen.owner, names.short(digest))
    return any(one.shown is not None and one.shown[0] == service and one.shown[1] for one in seen.http_routes.values())


def left_at(seen: observe.Observed, digest: str) -> float:
    """Return when the last weight of a revision was written; 0 when no route tells."""
    marks = [one.mark for one in seen.http_routes.values() if one.mark and one.mark.revision == names.short(digest)]
    return max((conditions.parse_timestamp(one.since) for one in marks), default=0.0)


def is_in_place(case: Case) -> bool:
    """Whether the route carries the open rollout's share, and every gateway that has accepted it knows."""
    found, aim = _named(case.seen), _aim(case.seen, case.seen.history, case.now)
    if found is None or aim is None or not aim.percent or _trouble(case.seen) is not None:
        return False
    return _shows(case.seen, found, aim) and found.gateways.current


def obstacle(case: Case) -> Obstacle | None:
    """Return what keeps the open rollout from its share; None while nothing does, or no route is named."""
    if not is_on(case.seen):
        return None
    return _conflict(case.seen, case.record, case.now) or _trouble(case.seen)


def describe(seen: observe.Observed, history: records.History, now: float) -> Described | None:
    """Return condition Routed; None where no route is named."""
    if not is_on(seen):
        return None
    opened = history.open.record if history.open else None
    found = _trouble(seen) or (_conflict(seen, opened, now) if opened else None)
    if found is not None:
        return Described(is_fine=False, reason=found.reason, message=found.message)
    message = f"HTTPRoute {name(seen)} leads users to Service {names.front(seen.owner.name)}."
    return Described(is_fine=True, reason=RolloutReason.ROUTE_ACCEPTED, message=message)


def carry_out(seen: observe.Observed, history: records.History, now: float) -> Weighed:
    """Return the writes that bring routes, and the Services of single revisions, to where the history wants them."""
    if seen.route_sight is not Sight.SEEN:
        # A Service that nobody can see the routes to stays: a route may still lead to it.
        return Weighed()
    aim = _aim(seen, history, now)
    weighed = [
        _towards(seen, one, aim, now) if aim and _is_free(seen, one, aim) else _away(seen, history, one, now)
        for one in seen.http_routes.values()
    ]
    return Weighed(
        withdrawals=[action for one in weighed for action in one.withdrawals],
        actions=[*_made(seen, aim), *(action for one in weighed for action in one.actions), *_gone(seen, aim)],
        look_again_s=min((one.look_again_s for one in weighed if one.look_again_s is not None), default=None),
    )


def _is_free(seen: observe.Observed, route: routes.Route, aim: _Aim) -> bool:
    """Whether a route is the one that is named, and holds no other revision that has to leave it first."""
    return route.name == name(seen) and (route.mark is None or route.mark.revision in {"", aim.revision})


def _towards(seen: observe.Observed, route: routes.Route, aim: _Aim, now: float) -> Weighed:
    """Return the write of a weight; none when it has been written before, whatever the route shows."""
    mark, owner = route.mark, seen.owner
    has = mark.percent if mark and mark.revision == aim.revision else None
    if has == aim.percent:
        return Weighed()
    lowers = has is not None and aim.percent < has
    if route.unfit:
        return Weighed(withdrawals=[routes.cleared(route, owner, now=now)] if lowers else ())
    written = routes.weighted(route, owner, revision=aim.revision, percent=aim.percent, now=now)
    return Weighed(withdrawals=[written]) if lowers else Weighed(actions=[written])


def _away(seen: observe.Observed, history: records.History, route: routes.Route, now: float) -> Weighed:
    """Return the write that brings a route back to what its owner had: no share, then no trace."""
    mark, owner = route.mark, seen.owner
    if route.is_clean:
        return Weighed(actions=[routes.released(route, owner)] if mark else ())
    if mark is None or not mark.revision:
        return Weighed(withdrawals=[routes.cleared(route, owner, now=now)])
    if seen.front and mark.revision == names.short(history.stable) != seen.front.selected:
        return Weighed()  # it has won, and the Service does not select it yet: until then its share stays
    if mark.percent:
        nothing = routes.weighted(route, owner, revision=mark.revision, percent=0, now=now)
        return Weighed(withdrawals=[routes.cleared(route, owner, now=now) if route.unfit else nothing])
    left = conditions.parse_timestamp(mark.since) + _draining_s(seen) - now
    if mark.highest and left > 0:
        return Weighed(look_again_s=left)
    return Weighed(actions=[routes.cleared(route, owner, now=now)])


def _aim(seen: observe.Observed, history: records.History, now: float) -> _Aim | None:
    """Return what the open rollout wants of the named route; None when no revision stands beside stable."""
    record = history.open.record if history.open else None
    if not is_on(seen) or record is None or record.purpose is not Purpose.CANDIDATE or record.seating in _NO_SHARE:
        return None
    if not record.stable or record.stable != history.stable or not (record.weight or seen.owner.spec.rollout.steps):
        return None
    return _Aim(digest=record.candidate, percent=_percent_now(seen, record, now))


def _percent_now(seen: observe.Observed, record: RolloutRecord, now: float) -> int:
    """Return the share that ready endpoints bear; while replicas for a higher one load, the lower one stays."""
    candidate, stable = seen.server(record.candidate), seen.server(record.stable)
    ready = len(candidate.ready) if candidate else 0
    if not record.weight or not ready:
        return 0
    if not (stable and stable.ready):
        return routes.WHOLE
    wanted = replicas(seen, record)
    if ready >= wanted:
        return percent(seen, record)
    most = min(record.weight, _bearable(seen, ready))
    found = Case(seen=seen, record=record, now=now).readiness(record.candidate, wanted=wanted)
    if isinstance(found, readiness.Failed):
        return most
    route = _named(seen)
    mark = route.mark if route else None
    return min(mark.percent, most) if mark and mark.revision == names.short(record.candidate) else 0


def _bearable(seen: observe.Observed, count: int) -> int:
    """Return the percent at which each of ``count`` pods has what one of stable's has at rest."""
    return max(1, min(routes.WHOLE, routes.WHOLE * count // max(1, seen.owner.spec.replicas)))


def _conflict(seen: observe.Observed, record: RolloutRecord, now: float) -> Obstacle | None:
    """Return the obstacle that somebody else has changed what we wrote; None when the route is as we left it."""
    route, aim = _named(seen), _aim(seen, seen.history, now)
    if route is None or aim is None:
        return None
    mark = route.mark
    told = mark is not None and (mark.revision, mark.percent) == (aim.revision, aim.percent)
    lost = record.weight_since is not None and record.route == route.name
    if (told and not _shows(seen, route, aim)) or (lost and (mark is None or mark.revision != aim.revision)):
        message = (
            f"Somebody else has changed backendRefs of HTTPRoute {route.name} since revision {aim.revision} was given "
            f"{aim.percent} % there. Leave them alone during a rollout: whoever applies the route must ignore them."
        )
        return Obstacle(reason=RolloutReason.ROUTE_CONFLICT, message=message)
    return None


def _trouble(seen: observe.Observed) -> Obstacle | None:
    """Return why the named route cannot be weighted, or why weights in it would reach nobody."""
    if seen.route_sight is not Sight.SEEN:
        return Obstacle(reason=RolloutReason.ROUTES_UNSEEN, message=_UNSEEN[seen.route_sight])
    route, service = _named(seen), names.front(seen.owner.name)
    if route is None:
        message = f"HTTPRoute {name(seen)} does not exist; make it, with a rule to Service {service} alone."
        return Obstacle(reason=RolloutReason.ROUTE_NOT_FOUND, message=message)
    if route.unfit:
        return Obstacle(reason=RolloutReason.ROUTE_UNFIT, message=route.unfit)
    if not route.gateways.accepted or route.gateways.complaint:
        why = route.gateways.complaint or "no gateway has accepted it"
        message = f"HTTPRoute {route.name} leads users nowhere yet: {why}"[:1024]
        return Obstacle(reason=RolloutReason.ROUTE_NOT_ACCEPTED, message=message)
    return None


def _named(seen: observe.Observed) -> routes.Route | None:
    return seen.http_routes.get(name(seen))


def _shows(seen: observe.Observed, route: routes.Route, aim: _Aim) -> bool:
    return routes.shows(route, seen.owner, revision=aim.revision, percent=aim.percent)


def _made(seen: observe.Observed, aim: _Aim | None) -> Sequence[plan.Action]:
    """Return the write of the Service that the aim's revision is reached by."""
    route = _named(seen)
    if aim is None or route is None or route.unfit:
        return ()
    there, manifest = seen.backends.get(aim.revision), workloads.backend(seen.owner, aim.digest)
    if there is None:
        return (plan.Create(manifest=manifest),)
    return () if there.port == seen.owner.spec.traffic.port else (plan.Apply(manifest=manifest, uid=there.uid),)


def _gone(seen: observe.Observed, aim: _Aim | None) -> Sequence[plan.Action]:
    """Return the deletion of Services that no rule holds any more."""
    kept = {one.mark.revision for one in seen.http_routes.values() if one.mark} | ({aim.revision} if aim else set())
    if not all(one.is_clean or one.mark for one in seen.http_routes.values()):
        return ()
    return [
        workloads.delete(seen.owner, kinds.SERVICE, name=one.name, uid=one.uid)
        for revision, one in sorted(seen.backends.items())
        if revision not in kept
    ]


def _draining_s(seen: observe.Observed) -> float:
    return base.parse_duration(seen.owner.spec.rollout.deadlines.draining).total_seconds()
