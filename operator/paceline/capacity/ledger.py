"""The ledger of devices: who was promised what and has no pod for it yet, so that two never claim one node.

A claim lies on the record of whoever makes it, a ConfigMap with ``names.LABEL_CLAIM``. It is *asked* first. Only a
later pass, whose picture holds that very version of the record, may *grant* it, by one write that holds for that
version only. What was granted comes before every other; of what is asked, the lower resourceVersion comes first, which
one watch delivers in order.

So two never grant themselves one node. Of two records that ask, let A's version be the lower when both grant. B's
picture holds all that was written up to B's version, A's asking or what became of it among it; so B yields. Whoever
rewrites a record that asks gives its place away, since a grant holds for the version it was decided on. Where several
watches share the kind, a picture is whole only up to what the slowest of them has told.

Nothing is kept in memory: after a crash the ledger is still there. Here is how a claim is written and read;
``precedence`` says who comes before whom.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from paceline.api import names
from paceline.capacity import forecast, reading
from paceline.planning import fleet, plan

ASKED: Final = "asked"
GRANTED: Final = "granted"
SERVER: Final = "server"


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
class Line:
    """One entry of one record's claim."""

    record_uid: str
    version: int
    """resourceVersion of the record."""
    name: str
    asked: bool
    claim: forecast.Claim
    beside: int
    """As in ``Wish``."""
    namespace: str
    job: str
    """As in ``Wish``."""
    maker: fleet.Maker
    """Of the pods."""


def lines(record: plan.Manifest) -> tuple[Line, ...]:
    """Return the entries of a record that has the ledger's label; none where somebody's hand has spoiled them."""
    try:
        # Of claims that older versions wrote the label speaks.
        asked = plan.metadata(record)["labels"][names.LABEL_CLAIM] == ASKED
        entries = json.loads(_noted(plan.metadata(record)).get(names.ANNOTATION_CLAIM, ""))
        return tuple(_line(plan.metadata(record), name, one, asked=asked) for name, one in entries.items())
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()  # the scheduler decides


def _line(meta: Mapping[str, Any], name: str, entry: Mapping[str, Any], *, asked: bool) -> Line:
    owner = next((one["name"] for one in meta.get("ownerReferences") or () if one.get("controller")), "")
    job = str(entry.get("job", ""))
    labels_of_pods = {
        names.LABEL_DEPLOYMENT: names.label_value(owner),
        names.LABEL_PART: str(entry.get("part", SERVER)),
        names.LABEL_REVISION: names.short(name),
    }
    return Line(
        record_uid=meta["uid"],
        version=number(meta["resourceVersion"]),
        name=name,
        asked=bool(entry.get("asked", asked)),
        claim=forecast.Claim(
            count=int(entry["count"]),
            requests={str(name): int(count) for name, count in entry["requests"].items()},
            template=dict(entry["template"]),
        ),
        beside=int(entry.get("beside", 0)),
        namespace=meta["namespace"],
        job=job,
        maker=reading.maker(meta["namespace"], {reading.LABEL_JOB: job} if job else labels_of_pods),
    )


def _noted(meta: Mapping[str, Any]) -> Mapping[str, str]:
    return meta.get("annotations") or {}


def number(version: str) -> int:
    """Return a resourceVersion as the number it is; one that is none comes last, so that nobody is overlooked."""
    return int(version) if version.isdigit() else 0
