"""What a reconcile asks for: ordered writes, the whole status, events, and when to look again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from paceline.planning.kinds import Kind

Manifest: TypeAlias = Mapping[str, Any]
"""A Kubernetes object as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Which of our resources a pass is about."""

    kind: Kind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Make an object that must not exist; one that exists and is ours is adopted, a foreign one is an error."""

    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Server-side apply of an object that exists; carries its UID so that a namesake is never touched.

    The manifest is whole: a field that an earlier create or apply of ours set and this one leaves out is removed.
    """

    manifest: Manifest
    uid: str
    resource_version: str | None = None
    """Precondition for selector flips and scale-downs: the version the decision was made on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete exactly this object."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    resource_version: str | None = None
    propagation: Literal["Background", "Foreground"] = "Background"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amend:
    """Change some fields of an object that belongs to somebody else, in the very version that was seen.

    A merge patch, so lists in it are whole. An apply would not do: it owns what it sets, and removes a list that it
    owns when it lets go.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    resource_version: str
    patch: Manifest
    is_last: bool = False
    """Whether nothing of ours is left with it: what we own of the object is given up, so that its owner's next apply
    meets no conflict with us."""


Action: TypeAlias = Create | Apply | Delete | Amend


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Recorded on the resource after the pass's writes succeeded."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer of a reconcile.

    Actions are carried out in order; after the first that fails the rest is dropped and the pass repeated later. Then
    comes the one status write, when ``status`` differs from what is stored, then the events.
    """

    actions: Sequence[Action] = ()
    status: Mapping[str, Any] | None = None
    """The whole status to be; None leaves it alone."""
    requeue_after_s: float | None = None
    """Look again so soon even if nothing happens: for deadlines and polls."""
    events: Sequence[Event] = ()


def metadata(manifest: Manifest) -> Mapping[str, Any]:
    """Return an object's metadata."""
    found: Mapping[str, Any] = manifest["metadata"]
    return found


def owner_reference(owner: Manifest) -> dict[str, Any]:
    """Return the controller reference to ``owner``, which makes the garbage collector take the child with it."""
    meta = metadata(owner)
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_uid(manifest: Manifest) -> str | None:
    """Return the UID of an object's controller."""
    for reference in metadata(manifest).get("ownerReferences", ()):
        if reference.get("controller"):
            return str(reference["uid"])
    return None


@dataclass(slots=True, kw_only=True)
class Draft:
    """A plan in the making: policies add to it in order, ``plan`` seals it."""

    actions: list[Action] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    requeue_after_s: float | None = None

    def look_again(self, after_s: float) -> None:
        """Ask for another pass within ``after_s`` seconds."""
        wanted = max(after_s, 0.0)
        self.requeue_after_s = wanted if self.requeue_after_s is None else min(self.requeue_after_s, wanted)

    def plan(self, status: Mapping[str, Any] | None) -> Plan:
        """Return the finished plan."""
        return Plan(
            actions=tuple(self.actions),
            status=status,
            requeue_after_s=self.requeue_after_s,
            events=tuple(self.events),
        )
