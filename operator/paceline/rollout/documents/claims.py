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

_COPY_MARK: Final = f"/{workloads.COPY}"
_WHOLE: Final = frozenset({Purpose.BASELINE, Purpose.UNDO})
_IN_STABLES_PLACE: Final = frozenset({Seating.TAKEN, Seating.TAKEN_SHARED, Seating.STOPPED})


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


def of(record: RolloutRecord, sizes: Sizes) -> Mapping[str, int]:
    """Return the pods that an open rollout has, or asks for, by digest of their revision; nothing once it is decided.

    A measuring copy's go by its digest and a mark.
    """
    if record.decision is not None or (record.seating is Seating.ASKED and (record.capacity_held or record.paused)):
        # While a person is waited for nothing is made, so nothing is kept from others.
        return {}
    counts = dict(_of_arms(record, sizes))
    if sizes.full:
        counts[sizes.full] = sizes.replicas
    counts.pop(record.stable, None)
    return counts | ({sizes.copied + _COPY_MARK: 1} if sizes.copied else {})


def _of_arms(record: RolloutRecord, sizes: Sizes) -> Mapping[str, int]:
    if record.weight:
        # Nothing is measured any more, and the control has gone.
        return {record.candidate: sizes.share}
    if sizes.slot:
        return {sizes.slot: 1}
    each = sizes.replicas if record.purpose in _WHOLE and record.seating not in _IN_STABLES_PLACE else 1
    return {digest: each for digest in (record.candidate, record.control) if digest}


def document(
    record: RolloutRecord, counts: Mapping[str, int], templates: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the claim as the record keeps it.

    Args:
        record: the rollout.
        counts: as ``of`` gave them.
        templates: rendered pod templates by digest; a revision that is about to be written has none yet.
    """
    wishes = {
        name: ledger.Wish(
            count=count,
            pod_spec=template["spec"],
            asked=record.measuring_copy is CopyState.ASKED if is_copy else record.seating is Seating.ASKED,
            part=workloads.COPY if is_copy else "",
        )
        for name, count in counts.items()
        for is_copy in (name.endswith(_COPY_MARK),)
        if (template := templates.get(name.removesuffix(_COPY_MARK))) is not None
    }
    return ledger.document(wishes)
