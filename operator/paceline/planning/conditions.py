"""Conditions by transition: the time moves with the status only, the message with anything, events with reasons."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from paceline.planning.plan import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a pass says about one condition type."""

    type: str
    status: bool | None
    """None is Unknown."""
    reason: str
    message: str
    warning: bool = False
    """Whether people should see a transition to this as a warning event."""


def timestamp(now: float) -> str:
    """Return wall-clock seconds as RFC 3339 text with whole seconds, as Kubernetes writes it."""
    return datetime.fromtimestamp(now, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> float:
    """Return RFC 3339 text as wall-clock seconds."""
    return datetime.fromisoformat(text).timestamp()


def merge(
    previous: Iterable[Mapping[str, Any]], said: Iterable[Said], *, generation: int, now: float
) -> tuple[list[dict[str, Any]], list[Event]]:
    """Return the conditions to store, sorted by type, and an event for each change of status or reason."""
    before = {condition["type"]: condition for condition in previous}
    after: list[dict[str, Any]] = []
    events: list[Event] = []
    for item in sorted(said, key=lambda one: one.type):
        status = {True: "True", False: "False", None: "Unknown"}[item.status]
        old = before.get(item.type)
        moved = old is None or old["status"] != status
        after.append(
            {
                "type": item.type,
                "status": status,
                "reason": item.reason,
                "message": item.message,
                "lastTransitionTime": timestamp(now) if old is None or moved else old["lastTransitionTime"],
                "observedGeneration": generation,
            }
        )
        if old is None or moved or old["reason"] != item.reason:
            events.append(Event(reason=item.reason, message=item.message, warning=item.warning))
    return after, events
