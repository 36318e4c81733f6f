"""Whose pass a change calls for: the resource itself, the controller of a child, and whoever a room says depends."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from paceline.api import names
from paceline.controller import logs
from paceline.planning import kinds, plan
from paceline.planning.kinds import Kind
from paceline.planning.plan import Key, Manifest
from paceline.planning.view import Room, View

# A pod's controller is a Job or a ReplicaSet, so its resource is known by label.
_OWNER_LABELS: Final = (
    (names.LABEL_DEPLOYMENT, kinds.SPECULATIVE_DEPLOYMENT),
    (names.LABEL_TRAINING_JOB, kinds.DRAFT_TRAINING_JOB),
)
_OURS: Final = {kind.kind: kind for kind in kinds.OURS}


class Triggers:
    """Turns changes of the cache into keys."""

    def __init__(self, *, rooms: Mapping[str, Room], look: Callable[[], View], enqueue: Callable[[Key], None]) -> None:
        """Prepare.

        Args:
            rooms: by the name of their kind; other kinds of ours get no pass.
            look: returns a fresh view.
            enqueue: takes the keys.
        """
        self._rooms = rooms
        self._look = look
        self._enqueue = enqueue
        # Label values are cut at 63 characters, so the names beyond that must be remembered.
        self._long_names: dict[tuple[str, str, str], str] = {}

    def changed(self, kind: Kind, before: Manifest | None, after: Manifest | None) -> None:
        """Enqueue every resource that a change concerns, also those that only the earlier version points to."""
        keys: dict[Key, None] = {}
        for manifest in (before, after):
            if manifest is not None:
                keys.update(dict.fromkeys(self._concerned(kind, manifest)))
        latest = after or before
        if latest is not None:
            keys.update(dict.fromkeys(self._dependents(latest)))
        for key in keys:
            if key.kind.kind in self._rooms:
                self._enqueue(key)

    def _concerned(self, kind: Kind, manifest: Manifest) -> Iterator[Key]:
        meta = plan.metadata(manifest)
        if kind.kind in _OURS:
            self._remember(kind, meta["namespace"], meta["name"])
            yield Key(kind=kind, namespace=meta["namespace"], name=meta["name"])
            return
        for reference in meta.get("ownerReferences") or ():
            owner = _OURS.get(reference["kind"])
            if reference.get("controller") and owner and reference["apiVersion"] == owner.api_version:
                yield Key(kind=owner, namespace=meta["namespace"], name=reference["name"])
        yield from self._labelled(meta["namespace"], meta.get("labels") or {})

    def _labelled(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Key]:
        for label, owner in _OWNER_LABELS:
            value = labels.get(label)
            if value:
                name = self._long_names.get((owner.kind, namespace, value), value)
                yield Key(kind=owner, namespace=namespace, name=name)

    def _dependents(self, manifest: Manifest) -> Iterator[Key]:
        seen = self._look()
        for room in self._rooms.values():
            try:
                yield from room.dependents(seen, manifest)
            except Exception:  # noqa: BLE001 - a room's bug must not end the watch that feeds all rooms
                logs.get().exception("dependents_crashed", **{logs.KIND: room.kind.kind})

    def _remember(self, kind: Kind, namespace: str, name: str) -> None:
        value = names.label_value(name)
        if value != name:
            self._long_names[kind.kind, namespace, value] = name
