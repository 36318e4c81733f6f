"""Whether the cache is at least as new as our own last write of a key.

A pass that reads a world older than what it wrote would write again, or decide against itself. Resource versions are
compared for equality only. The watch may tell of a write before the write's own answer is read, and of a newer version
by somebody else after that, so versions are collected from the moment a write is sent; a list that was asked for after
the answer contains the write, whatever version it shows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline.planning.kinds import Kind
from paceline.planning.plan import Key

Manifest = Mapping[str, Any]


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """One write on its way into the cache."""

    key: Key
    kind: Kind
    namespace: str
    name: str
    began_s: float
    seen: set[str] = field(default_factory=set)
    """Versions of the object that the cache held or was told of since the write was sent."""
    wanted: str | None = None
    """The version the write made; None while its answer is awaited."""
    gone_uid: str | None = None
    """For a delete: the object that must vanish, or be marked as going."""
    mark: int = 0


class Freshness:
    """Writes that the cache has not shown yet."""

    def __init__(self, *, caught_up: Callable[[Key], None]) -> None:
        """Start with no writes.

        Args:
            caught_up: told the key when the last of its writes has shown.
        """
        self._caught_up = caught_up
        self._tickets: dict[tuple[str, str, str], list[Ticket]] = {}
        self._open: dict[Key, int] = {}
        self._mark = 0

    def begin(self, key: Key, *, place: tuple[Kind, str, str], cached: Manifest | None, now: float) -> Ticket:
        """Note that a write of ``place`` (kind, namespace, name) is about to be sent on behalf of ``key``."""
        kind, namespace, name = place
        ticket = Ticket(key=key, kind=kind, namespace=namespace, name=name, began_s=now)
        if cached is not None:
            ticket.seen.add(_version(cached))
        self._tickets.setdefault(_place(kind, namespace, name), []).append(ticket)
        self._open[key] = self._open.get(key, 0) + 1
        return ticket

    def written(self, ticket: Ticket, answer: Manifest) -> None:
        """Note the version that the write made."""
        ticket.wanted = _version(answer)
        ticket.mark = self._mark
        if ticket.wanted in ticket.seen:
            self._close(ticket)

    def deleted(self, ticket: Ticket, uid: str, *, cached: Manifest | None) -> None:
        """Note that the object of ``uid`` was asked to go."""
        ticket.gone_uid = uid
        ticket.mark = self._mark
        if _is_gone(cached, uid):
            self._close(ticket)

    def dropped(self, ticket: Ticket) -> None:
        """Note that the write failed; when it did happen after all, the next pass finds the object as it is."""
        self._close(ticket)

    def observed(self, kind: Kind, manifest: Manifest, *, is_present: bool) -> None:
        """Note what the watch told of an object."""
        meta = manifest["metadata"]
        for ticket in tuple(self._tickets.get(_place(kind, meta.get("namespace", ""), meta["name"]), ())):
            ticket.seen.add(_version(manifest))
            if (ticket.wanted is not None and ticket.wanted in ticket.seen) or (
                ticket.gone_uid is not None and _is_gone(manifest if is_present else None, ticket.gone_uid)
            ):
                self._close(ticket)

    def list_begins(self) -> int:
        """Return a mark for a list about to be asked for."""
        self._mark += 1
        return self._mark

    def listed(self, kind: Kind, namespace: str | None, mark: int) -> None:
        """Note that the list of that mark has replaced the cache: it holds every write answered before it."""
        for place, tickets in tuple(self._tickets.items()):
            if place[0] == kind.kind and namespace in (None, place[1]):
                for ticket in tuple(tickets):
                    if (ticket.wanted or ticket.gone_uid) and ticket.mark < mark:
                        self._close(ticket)

    def is_current(self, key: Key) -> bool:
        """Return whether the cache shows all our writes of ``key``."""
        return not self._open.get(key)

    def overdue(self, *, before_s: float) -> set[Kind]:
        """Return the kinds with a write that was sent before ``before_s`` and has still not shown."""
        return {
            ticket.kind
            for tickets in self._tickets.values()
            for ticket in tickets
            if ticket.began_s < before_s and (ticket.wanted or ticket.gone_uid)
        }

    def _close(self, ticket: Ticket) -> None:
        place = _place(ticket.kind, ticket.namespace, ticket.name)
        tickets = self._tickets.get(place, [])
        if ticket not in tickets:
            return
        tickets.remove(ticket)
        if not tickets:
            del self._tickets[place]
        self._open[ticket.key] -= 1
        if not self._open[ticket.key]:
            del self._open[ticket.key]
            self._caught_up(ticket.key)


def _place(kind: Kind, namespace: str, name: str) -> tuple[str, str, str]:
    return kind.kind, namespace, name


def _version(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("resourceVersion", ""))


def _is_gone(manifest: Manifest | None, uid: str) -> bool:
    if manifest is None:
        return True
    meta = manifest["metadata"]
    return meta["uid"] != uid or "deletionTimestamp" in meta
