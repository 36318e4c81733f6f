"""The ledger of devices: what open rollouts were promised, kept on their records, so that two never claim one node.

A rollout first *asks*: its record is written with the pods it would make. Only a later pass, whose picture holds that
record, may grant. One that asked earlier (by resourceVersion, which one watch delivers in order) comes first, and so
does everything that was granted. Of two that ask at once, the later one therefore always sees the earlier one, whoever
is faster; and the first need not see the second. Nothing is kept in memory: after a crash the ledger is still there.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paceline.api import names
from paceline.api.measurement import Purpose, RolloutRecord, Seating
from paceline.capacity import forecast
from paceline.planning import fleet, kinds, plan
from paceline.planning import view as views
from paceline.rollout import workloads

ASKED: Final = "asked"
GRANTED: Final = "granted"
_WHOLE: Final = frozenset({Purpose.BASELINE, Purpose.UNDO})


def of(record: RolloutRecord, *, replicas: int, slot: str = "") -> Mapping[str, int]:
    """Return the pods that an open rollout has, or asks for, by digest of their revision; nothing once it is decided.

    Args:
        record: the rollout.
        replicas: what the spec asks for.
        slot: digest of the arm whose turn it is, where arms take turns on one place.
    """
    if record.decision is not None:
        return {}
    if slot:
        return {slot: 1} if slot != record.stable else {}
    each = replicas if record.purpose in _WHOLE else 1
    arms = dict.fromkeys((record.candidate, record.control), each)
    return {digest: count for digest, count in arms.items() if digest and digest != record.stable}


def document(counts: Mapping[str, int], templates: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a claim as its record keeps it: whole, since another watch may show the revision later than the record.

    Args:
        counts: pods by digest of their revision.
        templates: rendered pod templates by digest.
    """
    found = {
        digest: forecast.Claim.of(templates[digest]["spec"], count)
        for digest, count in counts.items()
        if digest in templates
    }
    return {
        digest: {"count": claim.count, "requests": dict(claim.requests), "template": dict(claim.template)}
        for digest, claim in found.items()
    }


def labels(record: RolloutRecord, claim: Mapping[str, Any]) -> dict[str, str]:
    """Return the label by which the ledger finds a record."""
    if not claim:
        return {}
    return {names.LABEL_CLAIM: ASKED if record.seating is Seating.ASKED else GRANTED}


def annotations(claim: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotation that holds the claim."""
    return {names.ANNOTATION_CLAIM: json.dumps(claim, sort_keys=True)} if claim else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whose claim is asked about: others' come before it or after."""

    record_uid: str
    resource_version: str


def promised(view: views.View, world: fleet.Fleet, place: Place) -> Sequence[forecast.Claim]:
    """Return what was promised to others before ``place``, or asked for earlier, as far as its pods do not exist yet.

    What was granted comes first, then what was asked, each in the order of the writes.
    """
    found: list[tuple[tuple[bool, int, str], forecast.Claim]] = []
    for manifest in view.marked(kinds.CONFIG_MAP, names.LABEL_CLAIM):
        meta = plan.metadata(manifest)
        is_asked = meta["labels"][names.LABEL_CLAIM] == ASKED
        version = _number(meta["resourceVersion"])
        if meta["uid"] == place.record_uid or (is_asked and version > _number(place.resource_version)):
            continue
        found += [((is_asked, version, meta["uid"]), claim) for claim in _claims(world, manifest)]
    ordered = [claim for _, claim in sorted(found, key=lambda one: one[0])]
    return [*_training(view, world), *ordered]


def _claims(world: fleet.Fleet, manifest: plan.Manifest) -> Sequence[forecast.Claim]:
    meta = plan.metadata(manifest)
    owner = next((one["name"] for one in meta.get("ownerReferences") or () if one.get("controller")), "")
    try:
        claim = json.loads(meta["annotations"][names.ANNOTATION_CLAIM])
        return [
            forecast.Claim(
                count=max(0, int(one["count"]) - _existing(world, meta["namespace"], owner=owner, digest=digest)),
                requests={str(name): int(count) for name, count in one["requests"].items()},
                template=dict(one["template"]),
            )
            for digest, one in claim.items()
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        return []  # somebody's hand; the scheduler decides


def _existing(world: fleet.Fleet, namespace: str, *, owner: str, digest: str) -> int:
    wanted = {
        names.LABEL_DEPLOYMENT: names.label_value(owner),
        names.LABEL_PART: workloads.SERVER,
        names.LABEL_REVISION: names.short(digest),
    }
    return sum(one.namespace == namespace and wanted.items() <= one.labels.items() for one in world.holdings.values())


def _training(view: views.View, world: fleet.Fleet) -> Sequence[forecast.Claim]:
    """Return the pods of training stages whose Job is there and whose pod is not; a queue's Job is suspended."""
    pods = {(one.namespace, one.labels.get("batch.kubernetes.io/job-name")) for one in world.holdings.values()}
    return [
        forecast.Claim.of(job["spec"]["template"]["spec"], int(job["spec"].get("parallelism", 1)))
        for job in view.marked(kinds.JOB, names.LABEL_CLAIM)
        if not job["spec"].get("suspend")
        and not (job.get("status") or {}).get("conditions")
        and (plan.metadata(job)["namespace"], plan.metadata(job)["name"]) not in pods
    ]


def _number(version: str) -> int:
    """Return a resourceVersion as the number it is; one that is none comes last, so that nobody is overlooked."""
    return int(version) if version.isdigit() else 0
