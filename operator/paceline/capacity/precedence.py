"""Where a claim stands in the ledger: what was promised to others before it, and has no pod yet.

Pods that exist speak for themselves, as holdings; so do Deployments and Jobs of ours that still lack pods.

A rollout that waits looks at everybody's claims in each of its passes, so what an object says of itself is read once a
version of it, and one look over a thousand of them takes less than a millisecond.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from paceline.api import names
from paceline.capacity import forecast, ledger, reading
from paceline.planning import fleet, kinds, plan
from paceline.planning import view as views


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
    book, version = _Book(view, world), ledger.number(place.resource_version)
    mine = [one for one in book.lines if one.record_uid == place.record_uid]
    before = [one for one in book.lines if one.record_uid != place.record_uid]
    before = [one for one in before if not one.asked or one.version <= version]
    before.sort(key=lambda one: (one.asked, one.version, one.record_uid, one.name))
    deployments = book.of_deployments(without={one.maker for one in mine})
    told = view.told_to(kinds.CONFIG_MAP)
    return Standing(
        promised=_left([*book.of_jobs(), *deployments, *map(book.missing, before)]),
        own=_left(book.missing(one) for one in mine if not one.asked),
        has_asked=any(one.asked for one in mine),
        is_whole=told is None or told >= version,
    )


def _left(claims: Iterable[forecast.Claim]) -> tuple[forecast.Claim, ...]:
    return tuple(one for one in claims if one.count and one.requests)


class _Intent(NamedTuple):
    """What a Deployment or a Job says of the pods that it makes."""

    place: tuple[str, str]
    """Namespace and name."""
    maker: fleet.Maker
    claim: forecast.Claim
    """Of all its pods; of none while it makes none."""


@dataclass(slots=True)
class _Book:
    """The ledger beside the pods that exist."""

    view: views.View
    world: fleet.Fleet
    lines: list[ledger.Line] = field(init=False)
    _made: Counter[fleet.Maker] = field(init=False)

    def __post_init__(self) -> None:
        """Count the pods, and read the records."""
        self._made = self.world.once(_made)
        records = self.view.marked(kinds.CONFIG_MAP, names.LABEL_CLAIM, ledger.lines)
        self.lines = [line for record in records for line in record]

    def missing(self, line: ledger.Line) -> forecast.Claim:
        """Return the pods of an entry that do not exist; a Job that exists speaks for its own."""
        if line.job:
            exists = self.view.get(kinds.JOB, line.namespace, line.job) is not None
            return _less(line.claim, line.claim.count if exists else 0)
        return _less(line.claim, max(0, self._made[line.maker] - line.beside))

    def of_deployments(self, *, without: Collection[fleet.Maker]) -> Iterable[forecast.Claim]:
        """Return the pods that Deployments of ours are about to make, where no record claims as many already."""
        claimed: Counter[fleet.Maker] = Counter()
        for line in self.lines:
            if not line.job and not line.asked:
                claimed[line.maker] += line.claim.count
        made = self._made.get
        intents = self.view.marked(kinds.DEPLOYMENT, names.LABEL_REVISION, _of_deployment)
        lacking = [one for one in intents if one.claim.count > made(one.maker, 0)]
        return [
            _less(one.claim, max(self._made[one.maker], claimed[one.maker]))
            for one in sorted(lacking)
            if one.maker not in without
        ]

    def of_jobs(self) -> Iterable[forecast.Claim]:
        """Return the pods of training stages whose Job is there and whose pod is not."""
        intents = self.view.marked(kinds.JOB, names.LABEL_CLAIM, _of_job)
        return [one.claim for one in sorted(intents) if one.maker not in self._made]


def _of_deployment(manifest: plan.Manifest) -> _Intent:
    meta, spec = plan.metadata(manifest), manifest["spec"]
    told = (manifest.get("status") or {}).get("conditions") or ()
    # For want of quota, say: it would keep devices from others for nothing.
    is_stuck = any(one["type"] == "ReplicaFailure" and one["status"] == "True" for one in told)
    return _Intent(
        place=(meta["namespace"], meta["name"]),
        maker=reading.maker(meta["namespace"], meta["labels"]),
        claim=forecast.Claim.of(spec["template"]["spec"], 0 if is_stuck else int(spec.get("replicas", 1))),
    )


def _of_job(manifest: plan.Manifest) -> _Intent:
    meta, spec = plan.metadata(manifest), manifest["spec"]
    # A queue's Job is suspended.
    makes_none = spec.get("suspend") or (manifest.get("status") or {}).get("conditions")
    return _Intent(
        place=(meta["namespace"], meta["name"]),
        maker=reading.maker(meta["namespace"], {reading.LABEL_JOB: meta["name"]}),
        claim=forecast.Claim.of(spec["template"]["spec"], 0 if makes_none else int(spec.get("parallelism", 1))),
    )


def _made(world: fleet.Fleet) -> Counter[fleet.Maker]:
    """Return how many pods there are of each Deployment and Job."""
    return Counter(one.maker for one in world.holdings.values() if one.maker)


def _less(claim: forecast.Claim, existing: int) -> forecast.Claim:
    if not existing:
        return claim
    count = max(0, claim.count - existing)
    return forecast.Claim(count=count, requests=claim.requests, template=claim.template)
