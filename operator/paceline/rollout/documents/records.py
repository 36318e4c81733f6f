"""Rollout records: the durable memory from which stable, rejected and handled verbs are computed.

One ConfigMap a rollout, named by the rollout's number: two passes that both believe they open number 7 collide on its
name instead of opening two. A record is changed only with the resourceVersion it was read at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pydantic

from paceline.api import names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Decision, Purpose, RolloutRecord
from paceline.capacity import ledger
from paceline.planning import conditions, kinds, plan

PART: Final = "rollout"
KEY: Final = "record.json"
# Rejected digests are remembered longer than the rest of the history; so many fit the status too.
REMEMBERED_REJECTIONS: Final = 32
# Reasons that hold for the prompts and concurrencies that were measured; a head that does not load fails on all.
_MEASURED: Final = frozenset(
    {
        RolloutReason.SLOWER_THAN_CONTROL,
        RolloutReason.SLOWER_THAN_STABLE,
        RolloutReason.NO_GAIN,
        RolloutReason.BAND_BELOW_FLOOR,
        RolloutReason.LATENCY_ABOVE_LIMIT,
        RolloutReason.INCONCLUSIVE,
        RolloutReason.ANALYSIS_DEADLINE_EXCEEDED,
        RolloutReason.WARM_UP_DEADLINE_EXCEEDED,
        RolloutReason.LIVE_BELOW_BASELINE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A record as it lies in the cluster; without a UID it is about to be created."""

    record: RolloutRecord
    name: str
    uid: str | None = None
    resource_version: str | None = None
    claims: plan.Manifest | None = None
    """The ConfigMap that was read, of which the ledger's notes are asked; None for one that is about to be created."""


class DamagedRecordError(ValueError):
    """A record cannot be read, so nobody knows what it decided."""


def read(manifest: plan.Manifest) -> Stored:
    """Return the record in a ConfigMap.

    Raises:
        DamagedRecordError: when the document is missing or is no record.
    """
    meta = plan.metadata(manifest)
    try:
        record = RolloutRecord.model_validate_json(manifest["data"][KEY])
    except (KeyError, TypeError, pydantic.ValidationError) as error:
        raise DamagedRecordError(
            f"ConfigMap {meta['name']} holds no readable rollout record in {KEY}; restore it, or delete it to forget "
            "what it decided"
        ) from error
    return Stored(
        record=record,
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta.get("resourceVersion"),
        claims=manifest,
    )


def write(
    stored: Stored, *, owner: plan.Manifest, labels: Mapping[str, str], claim: Mapping[str, Any] | None = None
) -> plan.Create | plan.Apply:
    """Return the write that makes the cluster hold ``stored``, with what it claims in the ledger."""
    meta = plan.metadata(owner)
    manifest: dict[str, Any] = {
        "apiVersion": kinds.CONFIG_MAP.api_version,
        "kind": kinds.CONFIG_MAP.kind,
        "metadata": {
            "name": stored.name,
            "namespace": meta["namespace"],
            "labels": {
                **labels,
                names.LABEL_PART: PART,
                names.LABEL_REVISION: names.short(stored.record.candidate),
                **ledger.labels(claim or {}),
            },
            "ownerReferences": [plan.owner_reference(owner)],
        },
        "data": {KEY: _document(stored.record)},
    }
    if claim:
        manifest["metadata"]["annotations"] = ledger.annotations(claim)
    if stored.uid is None:
        return plan.Create(manifest=manifest)
    return plan.Apply(manifest=manifest, uid=stored.uid, resource_version=stored.resource_version)


def _document(record: RolloutRecord) -> str:
    """Return the record without what is a default: a hundred blocks must fit an object of 1 MiB many times over."""
    return record.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All records of one resource, oldest first, and what follows from them."""

    owner: str
    owner_uid: str
    stored: tuple[Stored, ...] = ()
    floor: int = 0
    """Number of a decision that is known to have been made, even if its record was deleted since."""

    @property
    def open(self) -> Stored | None:
        """The rollout under way; None when the newest is decided."""
        return self.stored[-1] if self.stored and self.stored[-1].record.decision is None else None

    @property
    def decided(self) -> Sequence[RolloutRecord]:
        """Decided records, oldest first."""
        return [one.record for one in self.stored if one.record.decision is not None]

    @property
    def last(self) -> RolloutRecord | None:
        """The newest decided record."""
        decided = self.decided
        return decided[-1] if decided else None

    @property
    def stable(self) -> str:
        """Digest of the revision that is to serve users; empty before the first."""
        return next((one.serving for one in reversed(self.decided) if one.serving), "")

    @property
    def last_change(self) -> RolloutRecord | None:
        """The newest decision that gave the users another revision."""
        return next((one for one in reversed(self.decided) if one.serving and one.serving != one.stable), None)

    @property
    def last_confirmation(self) -> RolloutRecord | None:
        """The guard's newest decision about the revision that serves, since it serves."""
        since = self.last_change.number if self.last_change else 0
        found = (one for one in reversed(self.decided) if one.purpose is Purpose.GUARD and one.number > since)
        return next(found, None)

    @property
    def next_number(self) -> int:
        """Number of the next rollout."""
        return max(self.floor, self.stored[-1].record.number if self.stored else 0) + 1

    @property
    def rejected(self) -> Sequence[str]:
        """Digests that are not tried again unless asked for, newest first."""
        seen = dict.fromkeys(one.candidate for one in reversed(self.decided))
        return [digest for digest in seen if self.refused(digest) is not None]

    def refused(self, digest: str, *, workload: str = "") -> RolloutRecord | None:
        """Return the record for which ``digest`` is not tried again; None when it may be.

        The newest record that says anything of the digest counts: a revision that a later decision serves, as a control
        may after the guard, is no longer refused. Asked about a workload, verdicts on other workloads do not count.
        """
        for record in reversed(self.decided):
            if record.serving == digest:
                return None
            if record.candidate == digest and _refuses(record) and not _is_of_another(record, workload):
                return record
        return None

    def handled(self, verb: str) -> bool:
        """Whether a verb annotation, as ``verb=value``, was acted on."""
        return any(verb in one.record.handled or verb in one.record.remembered for one in self.stored)

    def promotion_of(self, digest: str) -> RolloutRecord | None:
        """Return the newest rollout that promoted ``digest`` after measuring it."""
        return next(
            (
                one
                for one in reversed(self.decided)
                if one.candidate == digest and one.decision is Decision.PROMOTED and one.measurements
            ),
            None,
        )

    def with_(self, record: RolloutRecord) -> "History":
        """Return the history after ``record`` was stored: changed where its number exists, else appended."""
        known = next((one for one in self.stored if one.record.number == record.number), None)
        if known is not None:
            return replace(
                self,
                stored=tuple(replace(one, record=record) if one is known else one for one in self.stored),
            )
        name = names.child(self.owner, PART, f"{self.owner_uid}/{record.number}")
        return replace(self, stored=(*self.stored, Stored(record=record, name=name)))

    def numbered(self, number: int) -> Stored:
        """Return the record with this number.

        Raises:
            KeyError: when there is none.
        """
        found = next((one for one in self.stored if one.record.number == number), None)
        if found is None:
            raise KeyError(f"no rollout has number {number}")
        return found


def decide(
    record: RolloutRecord, decision: Decision, *, serving: str, reason: str, message: str, now: float
) -> RolloutRecord:
    """Return ``record``, decided."""
    return record.model_copy(
        update={
            "decision": decision,
            "serving": serving,
            "reason": reason,
            "message": message[:1024],
            "decided_at": conditions.timestamp(now),
        }
    )


def superfluous(history: History, *, limit: int) -> Sequence[Stored]:
    """Return the records that may go.

    The newest ``limit`` stay, and what stable, the guard's pause and the rejected digests rest on.
    """
    basis = [history.promotion_of(history.stable), history.last_change, history.last_confirmation]
    rejections = [history.refused(digest) for digest in history.rejected[:REMEMBERED_REJECTIONS]]
    kept = {record.number for record in (*basis, *rejections) if record is not None}
    return [one for one in history.stored[:-limit] if one.record.number not in kept]


def _is_of_another(record: RolloutRecord, workload: str) -> bool:
    """Whether a decision rests on measurements of another workload than the one that is asked about."""
    return bool(workload) and record.reason in _MEASURED and record.workload != workload


def _refuses(record: RolloutRecord) -> bool:
    """Whether a decision speaks against its candidate: a rejection does, an edit in mid-rollout does not."""
    if record.decision is Decision.ABORTED:
        return any(verb.startswith("abort=") for verb in record.handled)
    return record.decision is Decision.REJECTED
