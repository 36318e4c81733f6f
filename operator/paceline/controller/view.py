"""A pass's picture of the cluster: the cache, read once for each question, so that one pass never gets two answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paceline.api import stages
from paceline.controller import cache, poller
from paceline.planning import fleet as devices
from paceline.planning.kinds import Kind
from paceline.planning.plan import Manifest
from paceline.planning.view import FoundT, Sight, Warned


class CacheView:
    """What one reconcile sees."""

    def __init__(
        self,
        *,
        known: cache.Cache,
        heard: poller.Heard,
        fleet: devices.Fleet | None = None,
        told: Mapping[Kind, int] | None = None,
        sights: Mapping[str, Sight] | None = None,
    ) -> None:
        """Start with no questions asked.

        Args:
            known: what the watches told.
            heard: what pods said.
            fleet: nodes and who holds their devices.
            told: what ``told_to`` returns, taken before anything is looked at.
            sights: by the name of a foreign kind.
        """
        self._fleet = fleet
        self._told = told or {}
        self._sights = sights or {}
        self._cache = known
        self._heard = heard
        self._found: dict[object, Any] = {}

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Return one object, or None."""
        return self._once(("one", kind.kind, namespace, name), lambda: self._cache.store(kind).get(namespace, name))

    def owned(self, kind: Kind, owner_uid: str) -> Sequence[Manifest]:
        """Return the objects of ``kind`` whose controller is ``owner_uid``, sorted by name."""
        return self._once(("owned", kind.kind, owner_uid), lambda: self._cache.store(kind).owned(owner_uid))

    def labelled(self, kind: Kind, namespace: str, label: str, value: str) -> Sequence[Manifest]:
        """Return the objects of ``kind`` with this label, sorted by name."""
        question = ("labelled", kind.kind, namespace, label, value)
        return self._once(question, lambda: self._cache.store(kind).labelled(namespace, label, value))

    def listed(self, kind: Kind, namespace: str) -> Sequence[Manifest]:
        """Return all cached objects of ``kind`` in a namespace, sorted by name."""
        return self._once(("listed", kind.kind, namespace), lambda: self._cache.store(kind).listed(namespace))

    def marked(self, kind: Kind, label: str, read: Callable[[Manifest], FoundT]) -> Sequence[FoundT]:
        """Return what a pure function reads in each object of ``kind`` anywhere that carries a label, in no order."""
        return self._once(("marked", kind.kind, label, read), lambda: self._cache.store(kind).marked(label, read))

    def once(self, question: str, find: Callable[[], FoundT]) -> FoundT:
        """Return what was found for a question in this picture."""
        return self._once(question, find)

    def _once(self, question: object, find: Callable[[], FoundT]) -> FoundT:
        if question not in self._found:
            self._found[question] = find()
        found: FoundT = self._found[question]
        return found

    def told_to(self, kind: Kind) -> int | None:
        """Return the version up to which every watch of ``kind`` has told; None where one watch tells all of it."""
        return self._told.get(kind)

    def sight(self, kind: Kind) -> Sight:
        """Return whether objects of a foreign kind can be seen."""
        return self._sights.get(kind.kind, Sight.OFF)

    def fleet(self) -> devices.Fleet | None:
        """Return nodes and who holds their devices; None where the operator may not see nodes."""
        return self._fleet

    def progress(self, pod_uid: str) -> stages.LiveProgress | None:
        """Return what a stage's or probe's pod last said of its progress."""
        return self._heard.progress(pod_uid)

    def metrics_text(self, pod_uid: str) -> tuple[tuple[float, str], ...]:
        """Return recent scrapes of an engine's pod as (wall-clock seconds, text), oldest first."""
        return self._once(("metrics", pod_uid), lambda: self._heard.metrics_text(pod_uid))

    def warnings(self, pod_uid: str) -> tuple[Warned, ...]:
        """Return the warning events about a pod, newest first; empty while none is known."""
        return self._heard.warnings(pod_uid)

    def log(self, run: str) -> str:
        """Return the end of the log of one run of a container; empty while it is not known."""
        return self._heard.log(run)
