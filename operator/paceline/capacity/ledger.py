"""The ledger of devices: who was promised what and has no pod for it yet, so that two never claim one node.

A claim lies on the record of whoever makes it, a ConfigMap with ``names.LABEL_CLAIM``. It is *asked* first. Only a
later pass, whose picture holds that very version of the record, may *grant* it, by one write that holds for that
version only. What was granted comes before every other; of what is asked, the lower resourceVersion comes first, which
one watch delivers in order.

So two never grant themselves one node. Of two records that ask, let A's version be the lower when both grant. B's
picture holds all that was written up to B's version, A's asking or what became of it among it; so B yields. Whoever
rewrites a record that asks gives its place away, since a grant holds for the version it was decided on. Where several
watches share the kind, a picture is whole only up to what the slowest of them has told.

Pods that exist speak for themselves, as holdings; so do Deployments and Jobs of ours that still lack pods. Nothing is
kept in memory: after a crash the ledger is still there.
"""

import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from paceline.api import names
from paceline.capacity import forecast
from paceline.planning import fleet, kinds, plan
from paceline.planning import view as views

ASKED: Final = "asked"
GRANTED: Final = "granted"
SERVER: Final = "server"
_REMEMBERED: Final = 8192
_JOB_LABEL: Final = "batch.kubernetes.io/job-name"
_PODS: Final = (names.LABEL_DEPLOYMENT, names.LABEL_PART, names.LABEL_REVISION)
"""Labels that tell the pods of one Deployment from all others of a namespace."""
_Pods = tuple[str, str, str, str]
"""Namespace, and the values of those labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Pods of one shape that a record claims."""

    count: int
    pod_spec: Mapping[str, Any]
    """As rendered."""
    asked: bool = False
    """Whether it is only asked for; granted otherwise."""
    part: str = ""
    """Of the pods' labels, where it is not that of a server."""
    beside: int = 0
    """Pods of the same Deployment that another entry of the record claims."""
    job: str = ""
    """Name of the Job that will make the pods; empty where a Deployment does."""


def document(wishes: Mapping[str, Wish]) -> dict[str, Any]:
    """Return a claim as its record keeps it: whole, since another watch may show what it names later than the record.

    Args:
        wishes: by the digest of the pods' revision, or by what else tells them apart.
    """
    return {name: _entry(one) for name, one in wishes.items() if one.count}


def _entry(wish: Wish) -> dict[str, Any]:
    claim = forecast.Claim.of(wish.pod_spec, wish.count)
    entry = {"count": claim.count, "requests": dict(claim.requests), "template": dict(claim.template)}
    entry |= {"asked": True} if wish.asked else {}
    entry |= {"part": wish.part} if wish.part else {}
    entry |= {"beside": wish.beside} if wish.beside else {}
    return entry | ({"job": wish.job} if wish.job else {})


def labels(claim: Mapping[str, Any]) -> dict[str, str]:
    """Return the label by which the ledger finds a record."""
    if not claim:
        return {}
    return {names.LABEL_CLAIM: ASKED if all(one.get("asked") for one in claim.values()) else GRANTED}


def annotations(claim: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotation that holds the claim."""
    return {names.ANNOTATION_CLAIM: _text(claim)} if claim else {}


def _text(claim: Mapping[str, Any]) -> str:
    return json.dumps(claim, sort_keys=True)


def is_kept(manifest: plan.Manifest, claim: Mapping[str, Any]) -> bool:
    """Whether a record holds exactly this claim; without its label nobody reads what it notes."""
    label = (plan.metadata(manifest).get("labels") or {}).get(names.LABEL_CLAIM)
    if label != labels(claim).get(names.LABEL_CLAIM):
        return False
    return not claim or _noted(plan.metadata(manifest)).get(names.ANNOTATION_CLAIM) == _text(claim)


def read(manifest: plan.Manifest) -> dict[str, Any]:
    """Return the claim that a record holds, as ``document`` made it; empty when it holds none, or a spoiled one."""
    try:
        found = json.loads(_noted(plan.metadata(manifest)).get(names.ANNOTATION_CLAIM, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) and all(isinstance(one, dict) for one in found.values()) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whose claim is asked about: others' come before it or after."""

    record_uid: str
    resource_version: str


LAST: Final = Place(record_uid="", resource_version="")
"""Of one who asks for nothing: what was granted to anybody comes before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where the claim of one record stands in one picture."""

    promised: tuple[forecast.Claim, ...] = ()
    """What was promised to others before it, or asked for earlier, as far as its pods do not exist yet. What was
    granted comes first, then what was asked, each in the order of the writes."""
    own: tuple[forecast.Claim, ...] = ()
    """What was granted to the record itself, as far as its pods do not exist yet."""
    has_asked: bool = False
    """Whether the record, as it was seen, asks for anything; nothing may be granted otherwise."""
    is_whole: bool = True
    """Whether everybody's claims up to the record's version were seen; nothing may be granted otherwise."""


def stand(view: views.View, world: fleet.Fleet, place: Place) -> Standing:
    """Return where the claim of the record at ``place`` stands."""
    book, version = _Book(view, world), _number(place.resource_version)
    mine = [one for one in book.lines if one.record_uid == place.record_uid]
    others = [one for one in book.lines if one.record_uid != place.record_uid]
    before = [one for one in others if not one.asked or one.version <= version]
    before.sort(key=lambda one: (one.asked, one.version, one.record_uid, one.name))
    deployments = book.of_deployments(without={one.pods for one in mine})
    told = view.told_to(kinds.CONFIG_MAP)
    return Standing(
        promised=_left([*book.of_jobs(), *deployments, *map(book.missing, before)]),
        own=_left(book.missing(one) for one in mine if not one.asked),
        has_asked=any(one.asked for one in mine),
        is_whole=told is None or told >= version,
    )


def _left(claims: Iterable[forecast.Claim]) -> tuple[forecast.Claim, ...]:
    return tuple(one for one in claims if one.count and one.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One entry of one record's claim."""

    record_uid: str
    version: int
    name: str
    asked: bool
    namespace: str
    claim: forecast.Claim
    beside: int = 0
    job: str = ""
    pods: _Pods | None = None
    """Where a Deployment makes them."""


@dataclass(slots=True)
class _Book:
    """The ledger beside the pods that exist."""

    view: views.View
    world: fleet.Fleet
    lines: Sequence[_Line] = field(init=False)
    _servers: Counter[_Pods] = field(init=False)
    _workers: frozenset[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        """Count the pods, and read the records."""
        self._servers, self._workers = self.world.once(_servers), self.world.once(_workers)
        self.lines = [
            line
            for manifest in self.view.marked(kinds.CONFIG_MAP, names.LABEL_CLAIM)
            for line in _read(plan.metadata(manifest))
        ]

    def missing(self, line: _Line) -> forecast.Claim:
        """Return the pods of an entry that do not exist; a Job that exists speaks for its own."""
        if line.job:
            exists = self.view.get(kinds.JOB, line.namespace, line.job) is not None
            return _less(line.claim, line.claim.count if exists else 0)
        return _less(line.claim, max(0, self._servers[line.pods] - line.beside) if line.pods else 0)

    def of_deployments(self, *, without: set[_Pods | None]) -> Iterator[forecast.Claim]:
        """Yield the pods that Deployments of ours are about to make, where no record claims as many already."""
        claimed: Counter[_Pods] = Counter()
        for line in self.lines:
            if line.pods and not line.asked:
                claimed[line.pods] += line.claim.count
        for one in self.view.marked(kinds.DEPLOYMENT, names.LABEL_REVISION):
            meta = plan.metadata(one)
            pods = _pods(meta["namespace"], meta.get("labels") or {})
            wanted = int(one["spec"].get("replicas", 1))
            count = wanted - max(self._servers[pods], claimed[pods])
            if count > 0 and pods not in without and not _is_stuck(one):
                yield forecast.Claim.of(one["spec"]["template"]["spec"], count)

    def of_jobs(self) -> Iterator[forecast.Claim]:
        """Yield the pods of training stages whose Job is there and whose pod is not; a queue's Job is suspended."""
        for job in self.view.marked(kinds.JOB, names.LABEL_CLAIM):
            meta, spec = plan.metadata(job), job["spec"]
            over = bool((job.get("status") or {}).get("conditions"))
            if not spec.get("suspend") and not over and (meta["namespace"], meta["name"]) not in self._workers:
                yield forecast.Claim.of(spec["template"]["spec"], int(spec.get("parallelism", 1)))


def _is_stuck(deployment: plan.Manifest) -> bool:
    """Whether its pods cannot be made, for want of quota say; it would keep devices from others for nothing."""
    told = (deployment.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "ReplicaFailure" and one["status"] == "True" for one in told)


def _servers(world: fleet.Fleet) -> Counter[_Pods]:
    """Return how many pods there are of each Deployment."""
    return Counter(_pods(one.namespace, one.labels) for one in world.holdings.values())


def _workers(world: fleet.Fleet) -> frozenset[tuple[str, str]]:
    """Return namespace and name of the Jobs that have a pod."""
    return frozenset((one.namespace, one.labels.get(_JOB_LABEL, "")) for one in world.holdings.values())


def _read(meta: Mapping[str, Any]) -> Sequence[_Line]:
    owner = next((one["name"] for one in meta.get("ownerReferences") or () if one.get("controller")), "")
    label, text = meta["labels"][names.LABEL_CLAIM], _noted(meta).get(names.ANNOTATION_CLAIM, "")
    return _lines(_Record(meta["uid"], meta["resourceVersion"], meta["namespace"], owner), label, text)


class _Record(NamedTuple):
    """One version of the record of a claim."""

    uid: str
    resource_version: str
    namespace: str
    owner: str


# Each pass of a rollout that waits reads the claims of all that wait.
@functools.lru_cache(maxsize=_REMEMBERED)
def _lines(record: _Record, label: str, text: str) -> Sequence[_Line]:
    try:
        # Of claims that older versions wrote the label speaks.
        return tuple(_line(record, name, one, asked=label == ASKED) for name, one in json.loads(text).items())
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()  # somebody's hand; the scheduler decides


def _line(record: _Record, name: str, entry: Mapping[str, Any], *, asked: bool) -> _Line:
    job = str(entry.get("job", ""))
    values = {
        names.LABEL_DEPLOYMENT: names.label_value(record.owner),
        names.LABEL_PART: str(entry.get("part", SERVER)),
        names.LABEL_REVISION: names.short(name),
    }
    return _Line(
        record_uid=record.uid,
        version=_number(record.resource_version),
        name=name,
        asked=bool(entry.get("asked", asked)),
        namespace=record.namespace,
        claim=forecast.Claim(
            count=int(entry["count"]),
            requests={str(name): int(count) for name, count in entry["requests"].items()},
            template=dict(entry["template"]),
        ),
        beside=int(entry.get("beside", 0)),
        job=job,
        pods=None if job else _pods(record.namespace, values),
    )


def _less(claim: forecast.Claim, existing: int) -> forecast.Claim:
    if not existing:
        return claim
    count = max(0, claim.count - existing)
    return forecast.Claim(count=count, requests=claim.requests, template=claim.template)


def _pods(namespace: str, labels: Mapping[str, str]) -> _Pods:
    deployment, part, revision = (labels.get(one, "") for one in _PODS)
    return namespace, deployment, part, revision


def _noted(meta: Mapping[str, Any]) -> Mapping[str, str]:
    return meta.get("annotations") or {}


def _number(version: str) -> int:
    """Return a resourceVersion as the number it is; one that is none comes last, so that nobody is overlooked."""
    return int(version) if version.isdigit() else 0
