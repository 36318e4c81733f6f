"""What a reconcile may see: the watch cache, and what was last heard from pods over HTTP."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, Protocol, TypeVar

from paceline.api import stages
from paceline.planning import fleet
from paceline.planning.kinds import Kind
from paceline.planning.plan import Key, Manifest, Plan

FoundT = TypeVar("FoundT")

LOST_AFTER_S: Final = 150.0
"""Pods and Jobs reach the cache over separate watches: so long a pod may be missing beside a Job that is over.

Longer than a dead watch goes unnoticed (the controller's ``watch_silence``, and a new list).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPoll:
    """A pod that is worth asking, on behalf of a resource."""

    pod_uid: str
    """Of a log: with the time when its run ended, since each run has its own."""
    url: str
    """``http://IP:PORT/progress`` or ``.../metrics``; of a log or events the API server's path, ``/api/v1/...``."""
    wants: Literal["progress", "metrics", "log", "events"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """A warning event about a pod."""

    reason: str
    message: str


class Sight(StrEnum):
    """Whether objects of a foreign kind can be seen."""

    SEEN = "Seen"
    OFF = "Off"  # the operator is not told to watch them
    ABSENT = "Absent"  # the cluster has no such kind
    REFUSED = "Refused"  # the operator may not
    AWAITED = "Awaited"  # the first list is still to come


class View(Protocol):
    """A consistent picture of the cluster, at least as new as our own last write of the key."""

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Return one object, or None."""
        ...

    def owned(self, kind: Kind, owner_uid: str) -> Sequence[Manifest]:
        """Return the objects of ``kind`` whose controller is ``owner_uid``, sorted by name."""
        ...

    def labelled(self, kind: Kind, namespace: str, label: str, value: str) -> Sequence[Manifest]:
        """Return the objects of ``kind`` with this label, sorted by name: pods, whose controller is a Job."""
        ...

    def listed(self, kind: Kind, namespace: str) -> Sequence[Manifest]:
        """Return all cached objects of ``kind`` in a namespace, by name: our own resources, for cross references."""
        ...

    def marked(self, kind: Kind, label: str, read: Callable[[Manifest], FoundT]) -> Sequence[FoundT]:
        """Return what a pure function reads in each object of ``kind`` that carries a label, whatever its value.

        They are of all watched namespaces, in no order. Each version of an object is read once, not once a pass.
        """
        ...

    def once(self, question: str, find: Callable[[], FoundT]) -> FoundT:
        """Return what was found for a question in this picture; only who asks it first is let find it."""
        ...

    def told_to(self, kind: Kind) -> int | None:
        """Return the version up to which every watch of ``kind`` has told; None where one watch tells all of it.

        One watch tells in the order of the writes, so whoever sees an object sees all that was written before it.
        """
        ...

    def sight(self, kind: Kind) -> Sight:
        """Return whether objects of a kind of ``kinds.FOREIGN`` can be seen; none are listed while they cannot."""
        ...

    def fleet(self) -> fleet.Fleet | None:
        """Return nodes and who holds their devices; None where the operator may not see nodes."""
        ...

    def progress(self, pod_uid: str) -> stages.LiveProgress | None:
        """Return what a stage's or probe's pod last said of its progress."""
        ...

    def metrics_text(self, pod_uid: str) -> tuple[tuple[float, str], ...]:
        """Return recent scrapes of an engine's pod as (wall-clock seconds, text), oldest first."""
        ...

    def warnings(self, pod_uid: str) -> tuple[Warned, ...]:
        """Return the warning events about a pod that is asked about, newest first; empty while none is known."""
        ...

    def log(self, run: str) -> str:
        """Return the end of the log of one run of a container, named as in its poll; empty while it is not known."""
        ...


class Room(Protocol):
    """A kind's reconcile, as the controller drives it."""

    kind: Kind

    def reconcile(self, view: View, key: Key, now: float) -> Plan | None:
        """Return the plan for ``key``; None when the resource is gone.

        Args:
            view: what is known of the cluster.
            key: the resource.
            now: wall-clock seconds since the epoch.
        """
        ...

    def dependents(self, view: View, changed: Manifest) -> Sequence[Key]:
        """Return further resources to look at when ``changed`` changes, beside its controlling owner.

        A SpeculativeDeployment that waits for a DraftTrainingJob is one.
        """
        ...

    def polled(self, view: View, key: Key) -> Sequence[PodPoll]:
        """Return which pods the controller should ask, and for what, on behalf of ``key``."""
        ...
