"""What the watches told, by kind: read by passes in threads, written by the event loop.

Indexes answer what rooms ask for: the children of an owner, the objects with a label of ours, those of a namespace.
Every reader and writer holds one lock for microseconds, or milliseconds where many marked objects are read for the
first time; manifests themselves are replaced, never changed.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from paceline.api import names
from paceline.controller import freshness, metrics, slimming
from paceline.planning import plan
from paceline.planning.kinds import Kind

FoundT = TypeVar("FoundT")
Manifest = Mapping[str, Any]
_INDEXED_LABELS: Final = ("paceline.dev/", "batch.kubernetes.io/")
# Asked for across namespaces, whatever the value.
_MARKS: Final = frozenset({names.LABEL_CLAIM, names.LABEL_REVISION})
Place = tuple[str, str]
"""Namespace and name."""
Change = tuple[Manifest | None, Manifest | None]
"""Before and after; None stands for absence."""


class Store:
    """The objects of one kind."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._objects: dict[Place, Manifest] = {}
        self._by_namespace: dict[str, dict[Place, Manifest]] = {}
        self._by_owner: dict[str, dict[Place, Manifest]] = {}
        self._by_label: dict[tuple[str, str, str], dict[Place, Manifest]] = {}
        self._by_mark: dict[str, dict[Place, Manifest]] = {}
        self._read: dict[tuple[str, Callable[[Manifest], Any]], dict[Place, Any]] = {}

    def put(self, manifest: Manifest) -> Manifest | None:
        """Keep an object; return what it replaces."""
        with self._lock:
            before = self._remove(_place(manifest))
            self._insert(manifest)
            return before

    def remove(self, manifest: Manifest) -> Manifest | None:
        """Forget an object; return what was kept of it."""
        with self._lock:
            return self._remove(_place(manifest))

    def replace(self, namespace: str | None, manifests: Iterable[Manifest]) -> list[Change]:
        """Make ``manifests`` all there is in ``namespace`` (None: everywhere); return what changed by that."""
        fresh = {_place(manifest): manifest for manifest in manifests}
        with self._lock:
            stale = [place for place in self._objects if place not in fresh and namespace in (None, place[0])]
            changes: list[Change] = [(self._remove(place), None) for place in stale]
            for place, manifest in fresh.items():
                before = self._remove(place)
                self._insert(manifest)
                if before is None or _identity(before) != _identity(manifest):
                    changes.append((before, manifest))
            return changes

    def get(self, namespace: str, name: str) -> Manifest | None:
        """Return one object."""
        with self._lock:
            return self._objects.get((namespace, name))

    def owned(self, owner_uid: str) -> tuple[Manifest, ...]:
        """Return the objects whose controller is ``owner_uid``, sorted by name."""
        with self._lock:
            found = tuple(self._by_owner.get(owner_uid, {}).values())
        return _sorted(found)

    def labelled(self, namespace: str, label: str, value: str) -> tuple[Manifest, ...]:
        """Return the objects with a label, sorted by name."""
        with self._lock:
            if label.startswith(_INDEXED_LABELS):
                found = tuple(self._by_label.get((namespace, label, value), {}).values())
            else:
                found = tuple(self._objects.values())
        return _sorted(one for one in found if _has_label(one, namespace, label, value))

    def marked(self, label: str, read: Callable[[Manifest], FoundT]) -> tuple[FoundT, ...]:
        """Return what ``read`` says of the objects that carry a label of those asked for across namespaces.

        Each version of an object is read once: where a thousand objects wait for each other, every pass asks this.
        """
        with self._lock:
            marked = self._by_mark.get(label, {})
            known = self._read.setdefault((label, read), {})
            # What is known is of objects that stand, so it is all of them where it is as many.
            if len(known) < len(marked):
                known |= {place: read(marked[place]) for place in marked.keys() - known.keys()}
            return tuple(known.values())

    def listed(self, namespace: str) -> tuple[Manifest, ...]:
        """Return the objects in a namespace, sorted by name."""
        with self._lock:
            found = tuple(self._by_namespace.get(namespace, {}).values())
        return _sorted(found)

    def all(self) -> tuple[Manifest, ...]:
        """Return every object."""
        with self._lock:
            return tuple(self._objects.values())

    def __len__(self) -> int:
        """Return how many objects there are."""
        return len(self._objects)

    def _insert(self, manifest: Manifest) -> None:
        place = _place(manifest)
        self._objects[place] = manifest
        self._by_namespace.setdefault(place[0], {})[place] = manifest
        owner = plan.controller_uid(manifest)
        if owner is not None:
            self._by_owner.setdefault(owner, {})[place] = manifest
        for entry in _label_entries(manifest):
            self._by_label.setdefault(entry, {})[place] = manifest
        for label in _marks(manifest):
            self._by_mark.setdefault(label, {})[place] = manifest

    def _remove(self, place: Place) -> Manifest | None:
        manifest = self._objects.pop(place, None)
        if manifest is None:
            return None
        _discard(self._by_namespace, place[0], place)
        owner = plan.controller_uid(manifest)
        if owner is not None:
            _discard(self._by_owner, owner, place)
        for entry in _label_entries(manifest):
            _discard(self._by_label, entry, place)
        for label in _marks(manifest):
            _discard(self._by_mark, label, place)
        for known in self._read.values():
            known.pop(place, None)
        return manifest


Listener = Callable[[Kind, Manifest | None, Manifest | None], None]
"""Told of each change: kind, before, after; None stands for absence."""


class Cache:
    """The stores of all watched kinds, and who is told of changes."""

    def __init__(
        self, kinds: Sequence[Kind], *, fresh: freshness.Freshness, listener: Listener, measured: metrics.Metrics
    ) -> None:
        """Start empty."""
        self._stores: dict[str, Store] = {kind.kind: Store() for kind in kinds}
        self._fresh = fresh
        self._listener = listener
        self._metrics = measured

    def store(self, kind: Kind) -> Store:
        """Return the store of ``kind``.

        Raises:
            KeyError: the kind is not watched.
        """
        return self._stores[kind.kind]

    def slim(self, kind: Kind, manifest: dict[str, Any]) -> dict[str, Any] | None:
        """Return what of an object is kept."""
        return slimming.slim(kind, manifest)

    def put(self, kind: Kind, manifest: dict[str, Any]) -> None:
        """Take in an added or modified object."""
        after = slimming.slim(kind, manifest)
        before = self.store(kind).put(after)
        self._fresh.observed(kind, after, is_present=True)
        self._tell(kind, [(before, after)])

    def remove(self, kind: Kind, manifest: dict[str, Any]) -> None:
        """Take in a deleted object."""
        gone = slimming.slim(kind, manifest)
        before = self.store(kind).remove(gone)
        self._fresh.observed(kind, gone, is_present=False)
        self._tell(kind, [(before or gone, None)])

    def replace(self, kind: Kind, namespace: str | None, manifests: Sequence[dict[str, Any]], *, mark: int) -> None:
        """Take in a whole list, slimmed as it came; ``mark`` is what ``Freshness.list_begins`` gave before it."""
        changes = self.store(kind).replace(namespace, manifests)
        self._fresh.listed(kind, namespace, mark)
        self._tell(kind, changes)

    def _tell(self, kind: Kind, changes: Iterable[Change]) -> None:
        self._metrics.cached.labels(kind=kind.kind).set(len(self.store(kind)))
        for before, after in changes:
            self._listener(kind, before, after)


def _place(manifest: Manifest) -> Place:
    meta = plan.metadata(manifest)
    return meta.get("namespace", ""), meta["name"]


def _identity(manifest: Manifest) -> tuple[str, str]:
    meta = plan.metadata(manifest)
    return meta["uid"], meta["resourceVersion"]


def _sorted(manifests: Iterable[Manifest]) -> tuple[Manifest, ...]:
    return tuple(sorted(manifests, key=_place))


def _label_entries(manifest: Manifest) -> list[tuple[str, str, str]]:
    meta = plan.metadata(manifest)
    namespace = meta.get("namespace", "")
    return [
        (namespace, label, value)
        for label, value in (meta.get("labels") or {}).items()
        if label.startswith(_INDEXED_LABELS)
    ]


def _marks(manifest: Manifest) -> frozenset[str]:
    return _MARKS & (plan.metadata(manifest).get("labels") or {}).keys()


def _has_label(manifest: Manifest, namespace: str, label: str, value: str) -> bool:
    meta = plan.metadata(manifest)
    return bool(meta.get("namespace", "") == namespace and (meta.get("labels") or {}).get(label) == value)


def _discard(index: dict[Any, dict[Place, Manifest]], entry: Any, place: Place) -> None:
    bucket = index.get(entry, {})
    bucket.pop(place, None)
    if not bucket:
        index.pop(entry, None)
