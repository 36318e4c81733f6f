"""What a rollout claims in the ledger: every pod beside stable's that it has, asks for, or is about to make.

It is written with the record that decides on those pods, before they are made, and renewed whenever it changes: with
the arm whose turn it is, a measuring copy, a share of users' traffic, and the way to all replicas.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from paceline.api.measurement import CopyState, Purpose, RolloutRecord, Seating
from paceline.capacity import ledger
from paceline.rollout.documents import workloads

_MORE: Final = "more"
WHOLE: Final = frozenset({Purpose.BASELINE, Purpose.UNDO})
"""Rollouts that measure nothing: the Service flips to nothing that is half there."""
IN_STABLES_PLACE: Final = frozenset({Seating.TAKEN, Seating.TAKEN_SHARED, Seating.STOPPED})
"""Where stable gives up a place for the newcomer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the pass decided of the arms."""

    replicas: int
    """What the spec asks for."""
    slot: str = ""
    """Digest of the arm whose turn it is, where arms take turns on one place."""
    share: int = 0
    """Replicas that make the candidate's share of users' traffic; 0 while it has none."""
    full: str = ""
    """Digest of an arm that gets all its replicas before it serves."""
    copied: str = ""
    """Digest of which there is, or is asked for, a measuring copy."""
    grows: str = ""
    """Digest that asks for ``RolloutRecord.asked_replicas``; empty when none does."""


def of(record: RolloutRecord, sizes: Sizes) -> Mapping[str, int]:
    """Return the pods that an open rollout has, or asks for, by digest of their revision; nothing once it is decided.

    A measuring copy's go by its digest and a mark, and so do replicas that are asked for beyond those an arm has.
    """
    if record.decision is not None or (record.seating is Seating.ASKED and (record.capacity_held or record.paused)):
        # While a person is waited for nothing is made, so nothing is kept from others.
        return {}
    counts = dict(_of_arms(record, sizes))
    if sizes.full:
        counts[sizes.full] = sizes.replicas
    counts.pop(record.stable, None)
    more = record.asked_replicas - counts.get(sizes.grows, 0) if sizes.grows else 0
    counts |= {f"{sizes.grows}/{_MORE}": more} if more > 0 else {}
    return counts | ({f"{sizes.copied}/{workloads.COPY}": 1} if sizes.copied else {})


def _of_arms(record: RolloutRecord, sizes: Sizes) -> Mapping[str, int]:
    if record.weight:
        # Nothing is measured any more, and the control has gone.
        return {record.candidate: sizes.share}
    if sizes.slot:
        return {sizes.slot: 1}
    each = seated_with(record, sizes.replicas)
    return {digest: each for digest in (record.candidate, record.control) if digest}


def seated_with(record: RolloutRecord, replicas: int) -> int:
    """Return the pods of each arm that are made as soon as it is seated: all, where nothing is to be measured first."""
    return replicas if record.purpose in WHOLE and record.seating not in IN_STABLES_PLACE else 1


def document(
    record: RolloutRecord, counts: Mapping[str, int], templates: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the claim as the record keeps it.

    Args:
        record: the rollout.
        counts: as ``of`` gave them.
        templates: rendered pod templates by digest; a revision that is about to be written has none yet.
    """
    wishes = {}
    for name, count in counts.items():
        digest, _, mark = name.partition("/")
        template = templates.get(digest)
        if template is None:
            continue
        wishes[name] = ledger.Wish(
            count=count,
            pod_spec=template["spec"],
            asked=_is_asked(record, mark),
            part=workloads.COPY if mark == workloads.COPY else "",
            beside=counts.get(digest, 0) if mark == _MORE else 0,
        )
    return ledger.document(wishes)


def _is_asked(record: RolloutRecord, mark: str) -> bool:
    if mark == workloads.COPY:
        return record.measuring_copy is CopyState.ASKED
    return mark == _MORE or record.seating is Seating.ASKED
