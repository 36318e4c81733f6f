"""HTTPRoutes of the Gateway API as documents: which rules lead to the front Service, and what a share makes of them.

The route is a user's. In its rules ``backendRefs`` are one value to the API server (an atomic list inside an atomic
list), and an apply would own all rules and remove them when it lets go. So what changes is patched into the very
version that was seen, a mark on the route says what it was made to show and how it was before, and with the mark our
ownership goes too.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pydantic

from paceline.api import names
from paceline.api.base import ApiModel, ShortText
from paceline.planning import conditions, kinds, plan
from paceline.rollout.documents import workloads

WHOLE: Final = 100
_MARK: Final = "paceline.dev/weights-"
_HASH: Final = re.compile(r"[0-9a-f]{8}")


class Mark(ApiModel):
    """What stands on a route while there is anything of ours in it."""

    deployment: ShortText
    """The SpeculativeDeployment whose mark it is: the annotation's name holds its hash only."""
    revision: ShortText
    """Short hash of the revision that has a place in the rules."""
    percent: int
    """Its share, as it was written."""
    highest: int = 0
    """The highest it ever had: streams may still be on it."""
    since: ShortText
    """When that was written."""
    before: list[int] = []
    """The front Service's own weights, by rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateways:
    """What gateways say of a route."""

    accepted: bool
    """Whether one has accepted it."""
    current: bool
    """Whether those have seen its newest version, and found its backends."""
    complaint: str
    """What one says against it; empty when none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One HTTPRoute, as far as it concerns one SpeculativeDeployment."""

    name: str
    uid: str
    resource_version: str
    rules: Sequence[Mapping[str, Any]]
    led: Sequence[int]
    """Positions of the rules that lead to the front Service."""
    unfit: str
    """Why they cannot be weighted; empty when they can."""
    mark: Mark | None
    shown: tuple[str, int] | None
    """The Service and the percent of the revision beside stable, as all rules show them; None when no rule holds one,
    or when they differ."""
    is_clean: bool
    """Whether no rule holds a backend of ours but the front Service."""
    gateways: Gateways


def annotation(owner: workloads.Owner) -> str:
    """Return the name of the mark: several resources may have rules in one route."""
    return f"{_MARK}{names.short(names.digest(owner.name))}"


def owners(manifest: plan.Manifest) -> Sequence[str]:
    """Return the resources that have left a mark on a route."""
    notes = plan.metadata(manifest).get("annotations") or {}
    marks = [_mark(text) for name, text in notes.items() if name.startswith(_MARK)]
    return [one.deployment for one in marks if one is not None and one.deployment]


def shows(route: Route, owner: workloads.Owner, *, revision: str, percent: int) -> bool:
    """Return whether the rules give a revision exactly this share."""
    return route.shown == (workloads.backend_name(owner, revision), percent)


def read(manifest: plan.Manifest, owner: workloads.Owner) -> Route:
    """Return what a route says of ``owner``."""
    meta = plan.metadata(manifest)
    rules: Sequence[Mapping[str, Any]] = (manifest.get("spec") or {}).get("rules") or []
    legs = {at: _leg(rule, owner) for at, rule in enumerate(rules)}
    led = [at for at, leg in legs.items() if leg is not None]
    found = [leg for leg in legs.values() if leg is not None]
    shares = {leg.share for leg in found}
    mark = _mark((meta.get("annotations") or {}).get(annotation(owner)))
    return Route(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=str(meta["resourceVersion"]),
        rules=rules,
        led=led,
        unfit=_unfit(meta["name"], legs, owner, is_marked=mark is not None),
        mark=mark,
        shown=next(iter(shares)) if len(shares) == 1 else None,
        is_clean=all(not leg.ours for leg in found),
        gateways=_gateways(manifest),
    )


def weighted(route: Route, owner: workloads.Owner, *, revision: str, percent: int, now: float) -> plan.Amend:
    """Return the patch by which a revision has ``percent`` of what the front Service's rules carry."""
    mark = route.mark if route.mark and route.mark.revision == revision else None
    own = [_weight(front) for rule in route.led if (front := _front(route.rules[rule], owner)) is not None]
    made = Mark(
        deployment=owner.name,
        revision=revision,
        percent=percent,
        highest=max(percent, mark.highest if mark else 0),
        since=conditions.timestamp(now),
        before=mark.before if mark else own,
    )
    rules = [_split(rule, owner, revision, percent) if at in route.led else rule for at, rule in enumerate(route.rules)]
    return _amend(route, owner, mark=made, rules=rules)


def cleared(route: Route, owner: workloads.Owner, *, now: float) -> plan.Amend:
    """Return the patch that makes the rules what they were; the mark stays for one more, which gives up the route."""
    mark = route.mark
    before = mark.before if mark else []
    rules = [
        _whole(rule, owner, before[route.led.index(at)] if len(before) == len(route.led) else 1)
        if at in route.led
        else rule
        for at, rule in enumerate(route.rules)
    ]
    kept = Mark(deployment=owner.name, revision="", percent=0, since=conditions.timestamp(now))
    return _amend(route, owner, mark=kept, rules=rules)


def released(route: Route, owner: workloads.Owner) -> plan.Amend:
    """Return the patch that takes our mark, and with it our ownership of the rules, off the route."""
    return _amend(route, owner, mark=None, rules=None)


def _amend(
    route: Route, owner: workloads.Owner, *, mark: Mark | None, rules: Sequence[Mapping[str, Any]] | None
) -> plan.Amend:
    note = None if mark is None else json.dumps(mark.wire(), separators=(",", ":"))
    patch: dict[str, Any] = {"metadata": {"annotations": {annotation(owner): note}}}
    if rules is not None:
        patch["spec"] = {"rules": [dict(one) for one in rules]}
    return plan.Amend(
        kind=kinds.HTTP_ROUTE,
        namespace=owner.namespace,
        name=route.name,
        uid=route.uid,
        resource_version=route.resource_version,
        patch=patch,
        is_last=mark is None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leg:
    """A rule that leads to the front Service."""

    front: int
    """The front Service's weight."""
    ours: Sequence[tuple[str, int]]
    """Our Services of single revisions beside it, with their weights."""
    others: bool
    """Whether the rule has backends that are not ours."""

    @property
    def share(self) -> tuple[str, int] | None:
        """The one revision beside stable, with its percent; None when there is none, or weights are not as we write."""
        if len(self.ours) != 1 or self.front + self.ours[0][1] != WHOLE:
            return None
        return self.ours[0]


def _leg(rule: Mapping[str, Any], owner: workloads.Owner) -> _Leg | None:
    front = _front(rule, owner)
    if front is None:
        return None
    beside = [one for one in rule.get("backendRefs") or () if one is not front]
    ours = [(_service(one, owner), _weight(one)) for one in beside if _is_ours(one, owner)]
    return _Leg(front=_weight(front), ours=ours, others=len(ours) < len(beside))


def _front(rule: Mapping[str, Any], owner: workloads.Owner) -> Mapping[str, Any] | None:
    name = names.front(owner.name)
    return next((one for one in rule.get("backendRefs") or () if _service(one, owner) == name), None)


def _service(backend: Mapping[str, Any], owner: workloads.Owner) -> str:
    """Return the Service of our namespace that a backend names; empty when it is something else."""
    is_service = backend.get("kind", "Service") == "Service" and not backend.get("group")
    is_here = backend.get("namespace", owner.namespace) == owner.namespace
    return str(backend["name"]) if is_service and is_here else ""


def _is_ours(backend: Mapping[str, Any], owner: workloads.Owner) -> bool:
    """Whether a backend is the Service of one of our revisions, which may be forgotten by now."""
    name, like = _service(backend, owner), workloads.backend_name(owner, "")
    return name[:-8] == like[:-8] and _HASH.fullmatch(name[-8:]) is not None


def _weight(backend: Mapping[str, Any]) -> int:
    return int(backend.get("weight", 1))


def _split(rule: Mapping[str, Any], owner: workloads.Owner, revision: str, percent: int) -> dict[str, Any]:
    """Return a rule that leads to the front Service and one revision: what the user said of the one holds for both."""
    front = dict(_front(rule, owner) or {})
    beside = {**front, "name": workloads.backend_name(owner, revision), "weight": percent}
    return {**rule, "backendRefs": [{**front, "weight": WHOLE - percent}, beside]}


def _whole(rule: Mapping[str, Any], owner: workloads.Owner, weight: int) -> dict[str, Any]:
    """Return a rule without our revisions; a front Service that nobody has weighted since gets its own weight back."""
    kept = [one for one in rule.get("backendRefs") or () if not _is_ours(one, owner)]
    leg = _leg(rule, owner)
    if leg is None or leg.share is None:
        return {**rule, "backendRefs": kept}
    return {**rule, "backendRefs": [{**one, "weight": weight} for one in kept]}


def _mark(text: str | None) -> Mark | None:
    if text is None:
        return None
    try:
        return Mark.model_validate_json(text)
    except pydantic.ValidationError:
        # Somebody has written over it. What it said is lost, but that something of ours may be left is not.
        return Mark(deployment="", revision="", percent=0, since=conditions.timestamp(0.0))


def _unfit(name: str, legs: Mapping[int, _Leg | None], owner: workloads.Owner, *, is_marked: bool) -> str:
    service = names.front(owner.name)
    if not any(legs.values()):
        return f"No rule of HTTPRoute {name} has Service {service} as a backend; add one."
    for at, leg in legs.items():
        if leg is not None and leg.others:
            return f"Rule {at} of HTTPRoute {name} has backends beside Service {service}; give {service} a rule alone."
        if leg is not None and not leg.front and not is_marked:
            return f"Rule {at} of HTTPRoute {name} gives Service {service} weight 0; give it a weight."
    return ""


def _gateways(manifest: plan.Manifest) -> Gateways:
    generation = int(plan.metadata(manifest).get("generation", 0))
    parents = (manifest.get("status") or {}).get("parents") or ()
    told = [{one["type"]: one for one in parent.get("conditions") or ()} for parent in parents]
    accepting = [one for one in told if one.get("Accepted", {}).get("status") == "True"]
    against = [
        str(condition.get("message") or condition.get("reason") or kind)
        for one in (accepting or told)
        for kind in ("Accepted", "ResolvedRefs")
        if (condition := one.get(kind)) is not None and condition["status"] == "False"
    ]
    seen = [int(said.get("observedGeneration", 0)) >= generation for one in accepting for said in one.values()]
    return Gateways(
        accepted=bool(accepting),
        current=bool(accepting) and all(seen) and not against,
        complaint=against[0] if against else "",
    )
