"""The cluster's devices as the watches told them: nodes, and every pod that holds or waits for a device.

A second, smaller cache beside the one of our children: it is not confined to our labels, so it keeps no manifests.
Where the operator may not read nodes there is none, and scheduling deadlines alone decide.
"""

import threading
from collections.abc import Sequence
from typing import Any

from paceline.capacity import reading
from paceline.controller import metrics
from paceline.planning import fleet, kinds, plan
from paceline.planning.kinds import Kind


class FleetStore:
    """Fed by two reflectors; read by passes in threads as immutable snapshots."""

    def __init__(self, *, measured: metrics.Metrics) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._nodes: dict[str, fleet.Node] = {}
        self._holdings: dict[str, fleet.Holding] = {}
        self._snapshot: fleet.Fleet | None = None
        self._metrics = measured

    def snapshot(self) -> fleet.Fleet:
        """Return what is known now; the same value until something changes."""
        with self._lock:
            if self._snapshot is None:
                self._snapshot = fleet.Fleet(nodes=dict(self._nodes), holdings=dict(self._holdings))
            return self._snapshot

    def slim(self, kind: Kind, manifest: dict[str, Any]) -> dict[str, Any] | None:
        """Return what is worth keeping of a listed object; None when it has nothing to do with devices."""
        if kind is kinds.NODE:
            return None if reading.node(manifest) is None else reading.node_part(manifest)
        return None if reading.holding(manifest) is None else reading.pod_part(manifest)

    def put(self, kind: Kind, manifest: dict[str, Any]) -> None:
        """Take in an added or modified object."""
        with self._lock:
            self._put(kind, manifest)
        self._count(kind)

    def remove(self, kind: Kind, manifest: dict[str, Any]) -> None:
        """Take in a deleted object."""
        meta = plan.metadata(manifest)
        with self._lock:
            self._forget(kind, meta["name"], meta["uid"])
        self._count(kind)

    def replace(self, kind: Kind, namespace: str | None, manifests: Sequence[dict[str, Any]], *, mark: int) -> None:
        """Take in a whole list; both are watched in the whole cluster."""
        del namespace, mark
        with self._lock:
            (self._nodes if kind is kinds.NODE else self._holdings).clear()
            self._snapshot = None
            for manifest in manifests:
                self._put(kind, manifest)
        self._count(kind)

    def _put(self, kind: Kind, manifest: dict[str, Any]) -> None:
        meta = plan.metadata(manifest)
        if kind is kinds.NODE:
            node = reading.node(manifest)
            if node is None:
                self._forget(kind, meta["name"], meta["uid"])
            elif self._nodes.get(node.name) != node:
                # A node's status is written every few seconds; a snapshot is made anew only when devices change.
                self._nodes[node.name] = node
                self._snapshot = None
            return
        holding = reading.holding(manifest)
        if holding is None:
            self._forget(kind, meta["name"], meta["uid"])
        elif self._holdings.get(holding.uid) != holding:
            self._holdings[holding.uid] = holding
            self._snapshot = None

    def _forget(self, kind: Kind, name: str, uid: str) -> None:
        gone = self._nodes.pop(name, None) if kind is kinds.NODE else self._holdings.pop(uid, None)
        if gone is not None:
            self._snapshot = None

    def _count(self, kind: Kind) -> None:
        kept = self._nodes if kind is kinds.NODE else self._holdings
        self._metrics.cached.labels(kind=f"{kind.kind} (devices)").set(len(kept))
