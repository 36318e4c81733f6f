"""What the operator's cache shows: each kind by a watch of its own, as late as it likes, but never without our writes.

A watch skips what lies between two looks (merged events). Whether somebody is woken by what it brings is up to the
caller, so that an event may also be lost.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from machine.server import Objects, Server
from paceline.api import stages
from paceline.capacity import reading
from paceline.controller import slimming
from paceline.planning import fleet, kinds, plan, view

# Longer than this no healthy watch is behind; the product waits for a minute before it takes a silence for an absence.
LAG_S = 50.0

Scrapes = tuple[tuple[float, str], ...]
# The cache keeps a part of them; of others it keeps all that rooms could read.
_SLIMMED = (kinds.POD, kinds.DEPLOYMENT)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A View of one state, or of one that is put together from several."""

    objects: Objects
    heard: Mapping[str, stages.LiveProgress] = field(default_factory=dict)
    scraped: Mapping[str, Scrapes] = field(default_factory=dict)
    nodes: Mapping[str, int] | None = None
    """GPUs by node; None where the operator may not see nodes."""

    def get(self, kind: kinds.Kind, namespace: str, name: str) -> plan.Manifest | None:  # noqa: ARG002 - one namespace
        """Return one object."""
        found = self.objects.get((kind.kind, name))
        return None if found is None else _kept(kind, found)

    def owned(self, kind: kinds.Kind, owner_uid: str) -> Sequence[plan.Manifest]:
        """Return objects by controller."""
        return [_kept(kind, one) for one in self._of(kind) if plan.controller_uid(one) == owner_uid]

    def labelled(self, kind: kinds.Kind, namespace: str, label: str, value: str) -> Sequence[plan.Manifest]:  # noqa: ARG002 - one namespace
        """Return objects by label."""
        found = [one for one in self._of(kind) if (one["metadata"].get("labels") or {}).get(label) == value]
        return [_kept(kind, one) for one in found]

    def listed(self, kind: kinds.Kind, namespace: str) -> Sequence[plan.Manifest]:  # noqa: ARG002 - one namespace
        """Return all objects of a kind."""
        return self._of(kind)

    def marked(
        self, kind: kinds.Kind, label: str, read: Callable[[plan.Manifest], view.FoundT]
    ) -> Sequence[view.FoundT]:
        """Return what is read in the objects that carry a label, whatever its value."""
        return [read(one) for one in self._of(kind) if label in (one["metadata"].get("labels") or {})]

    def once(self, question: str, find: Callable[[], view.FoundT]) -> view.FoundT:  # noqa: ARG002 - no cost to save
        """Return what is found."""
        return find()

    def told_to(self, kind: kinds.Kind) -> int | None:  # noqa: ARG002 - one namespace
        """Return that one watch tells all of a kind."""
        return None

    def sight(self, kind: kinds.Kind) -> view.Sight:  # noqa: ARG002 - there is one foreign kind
        """Return that foreign objects are seen."""
        return view.Sight.SEEN

    def fleet(self) -> fleet.Fleet | None:
        """Return the nodes' devices, and the pods in this picture that hold them; None where nobody may see them."""
        if self.nodes is None:
            return None
        manifests = [_node(name, gpus) for name, gpus in self.nodes.items()]
        known = [one for one in map(reading.node, manifests) if one is not None]
        held = [one for one in map(reading.holding, self._of(kinds.POD)) if one is not None]
        return fleet.Fleet(nodes={one.name: one for one in known}, holdings={one.uid: one for one in held})

    def progress(self, pod_uid: str) -> stages.LiveProgress | None:
        """Return what a pod said."""
        return self.heard.get(pod_uid)

    def metrics_text(self, pod_uid: str) -> Scrapes:
        """Return what an engine counted."""
        return self.scraped.get(pod_uid, ())

    def log(self, run: str) -> str:  # noqa: ARG002 - engines say their last words in their termination message
        """Return nothing."""
        return ""

    def warnings(self, uid: str) -> tuple[str, ...]:  # noqa: ARG002 - the model's cluster warns of nothing
        """Return nothing."""
        return ()

    def _of(self, kind: kinds.Kind) -> list[dict[str, Any]]:
        return [one for (found, _), one in sorted(self.objects.items()) if found == kind.kind]


def _kept(kind: kinds.Kind, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what the operator's cache keeps of an object."""
    return slimming.slim(kind, manifest) if kind in _SLIMMED else manifest


def _node(name: str, gpus: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}}


class Watches:
    """Where each kind's watch stands."""

    def __init__(self, server: Server, *, scraped: Callable[[], Mapping[str, Scrapes]] = dict) -> None:
        self._server = server
        self._scraped = scraped
        self.nodes: Callable[[], Mapping[str, int] | None] = lambda: None
        """GPUs by node, where the operator may see them."""
        self._shown: dict[str, int] = {}
        """By kind, the number of the state it shows; 0 is the empty beginning."""

    def deliver(self, names: Iterable[str] | None = None) -> bool:
        """Let the watches of these kinds, by default of all, show what is; return whether that was news."""
        newest = len(self._server.states) - 1
        now, news = self._server.objects, False
        for kind in self._kinds() if names is None else names:
            before = self._server.states[self._shown.get(kind, 0)].objects
            news = news or _of(before, kind) != _of(now, kind)
            self._shown[kind] = newest
        return news

    def catch_up(self) -> None:
        """Show our own writes, without which no pass begins, and whatever is older than a watch may lag."""
        for kind, number in self._server.own.items():
            self._shown[kind] = max(self._shown.get(kind, 0), number)
        horizon = self._server.now - LAG_S
        for kind in self._kinds():
            shown = self._shown.get(kind, 0)
            while shown + 1 < len(self._server.states) and self._server.states[shown + 1].at <= horizon:
                shown += 1
            self._shown[kind] = shown

    def picture(self) -> Picture:
        """Return what a pass sees."""
        objects = {
            key: one
            for kind in self._kinds()
            for key, one in self._server.states[self._shown.get(kind, 0)].objects.items()
            if key[0] == kind
        }
        return Picture(objects=objects, scraped=self._scraped(), nodes=self.nodes())

    def old(self, age: int) -> Picture:
        """Return what was true ``age`` states back, our own writes left out: what a leader that was cut off sees."""
        objects = self._server.states[max(0, len(self._server.states) - 1 - age)].objects
        return Picture(objects=objects, nodes=self.nodes())

    def _kinds(self) -> set[str]:
        shown = {kind for number in set(self._shown.values()) for kind, _ in self._server.states[number].objects}
        return shown | {kind for kind, _ in self._server.objects} | set(self._shown)


def _of(objects: Objects, kind: str) -> dict[str, str]:
    return {name: one["metadata"]["resourceVersion"] for (found, name), one in objects.items() if found == kind}
