"""The cluster's devices as the watches told them: nodes, and every pod that holds or waits for a device.

Beside them stand the volume claims that one node or one pod has alone, where the operator may see claims.

A second, smaller cache beside the one of our children: it is not confined to our labels, so it keeps no manifests.
Where the operator may not read nodes there is none, and scheduling deadlines alone decide.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from paceline.capacity import reading
from paceline.controller import metrics
from paceline.planning import fleet, kinds, plan
from paceline.planning.kinds import Kind

_PARTS: Final[Mapping[Kind, Callable[[plan.Manifest], dict[str, Any]]]] = {
    kinds.NODE: reading.node_part,
    kinds.POD: reading.pod_part,
    kinds.PERSISTENT_VOLUME_CLAIM: reading.claim_part,
}


class FleetStore:
    """Fed by three reflectors; read by passes in threads as immutable snapshots."""

    def __init__(self, *, measured: metrics.Metrics) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._nodes: dict[str, fleet.Node] = {}
        self._holdings: dict[str, fleet.Holding] = {}
        self._claims: dict[tuple[str, str], str] = {}
        self._snapshot: fleet.Fleet | None = None
        self._metrics = measured

    def snapshot(self) -> fleet.Fleet:
        """Return what is known now; the same value until something changes."""
        with self._lock:
            if self._snapshot is None:
                self._snapshot = fleet.Fleet(
                    nodes=dict(self._nodes), holdings=dict(self._holdings), claims=dict(self._claims)
                )
            return self._snapshot

    def slim(self, kind: Kind, manifest: dict[str, Any]) -> dict[str, Any] | None:
        """Return what is worth keeping of a listed object; None when it has nothing to do with devices."""
        return _PARTS[kind](manifest) if _read(kind, manifest) else None

    def put(self, kind: Kind, manifest: dict[str, Any]) -> None:
        """Take in an added or modified object."""
        with self._lock:
            self._put(kind, manifest)
        self._count(kind)

    def remove(self, kind: Kind, manifest: dict[str, Any]) -> None:
        """Take in a deleted object."""
        with self._lock:
            self._forget(kind, plan.metadata(manifest))
        self._count(kind)

    def replace(self, kind: Kind, namespace: str | None, manifests: Sequence[dict[str, Any]], *, mark: int) -> None:
        """Take in a whole list; all are watched in the whole cluster."""
        del namespace, mark
        with self._lock:
            self._kept(kind).clear()
            self._snapshot = None
            for manifest in manifests:
                self._put(kind, manifest)
        self._count(kind)

    def _put(self, kind: Kind, manifest: dict[str, Any]) -> None:
        meta = plan.metadata(manifest)
        read = _read(kind, manifest)
        if not read:
            self._forget(kind, meta)
            return
        kept, place = self._kept(kind), _place(kind, meta)
        if kept.get(place) != read:
            # A node's status is written every few seconds; a snapshot is made anew only when devices change.
            kept[place] = read
            self._snapshot = None

    def _forget(self, kind: Kind, meta: Mapping[str, Any]) -> None:
        if self._kept(kind).pop(_place(kind, meta), None) is not None:
            self._snapshot = None

    def _kept(self, kind: Kind) -> dict[Any, Any]:
        if kind is kinds.NODE:
            return self._nodes
        return self._claims if kind is kinds.PERSISTENT_VOLUME_CLAIM else self._holdings

    def _count(self, kind: Kind) -> None:
        self._metrics.cached.labels(kind=f"{kind.kind} (devices)").set(len(self._kept(kind)))


def _read(kind: Kind, manifest: dict[str, Any]) -> fleet.Node | fleet.Holding | str | None:
    """Return what of an object concerns devices; nothing when that is nothing."""
    if kind is kinds.NODE:
        return reading.node(manifest)
    return reading.alone(manifest) if kind is kinds.PERSISTENT_VOLUME_CLAIM else reading.holding(manifest)


def _place(kind: Kind, meta: Mapping[str, Any]) -> str | tuple[str, str]:
    if kind is kinds.PERSISTENT_VOLUME_CLAIM:
        return meta["namespace"], meta["name"]
    name: str = meta["name"] if kind is kinds.NODE else meta["uid"]
    return name
