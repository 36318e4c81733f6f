"""The one status write of a pass: only what differs, only on the version that was looked at, never twice in vain."""

from collections.abc import Mapping
from typing import Any, Final

from paceline.api import names
from paceline.controller import executor, logs
from paceline.planning import conditions, plan
from paceline.planning.plan import Event, Key, Manifest

# The condition that both kinds have; what the API server refuses, or a foreign object blocks, is told there.
_ACCEPTED: Final = "Accepted"
_MAX_MESSAGE: Final = 1024


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7396) that makes ``before`` equal ``after``."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            inner = merge_patch(old, value)
            if inner:
                patch[name] = inner
        elif value != old:
            patch[name] = value
    return patch


def refused(
    status: Mapping[str, Any] | None, resource: Manifest, *, reason: str, message: str, now: float
) -> tuple[dict[str, Any], list[Event]]:
    """Return ``status`` with Accepted=False for a write that cannot succeed, and the event if that is news."""
    stored = resource.get("status") or {}
    wanted = dict(status if status is not None else stored)
    said = conditions.Said(type=_ACCEPTED, status=False, reason=reason, message=message[:_MAX_MESSAGE], warning=True)
    told, events = conditions.merge(
        stored.get("conditions") or (), [said], generation=plan.metadata(resource).get("generation", 0), now=now
    )
    others = [one for one in wanted.get("conditions") or () if one["type"] != _ACCEPTED]
    wanted["conditions"] = sorted([*others, *told], key=lambda one: str(one["type"]))
    return wanted, events


class StatusWriter:
    """Writes statuses."""

    def __init__(self, *, writes: executor.Executor) -> None:
        """Start with nothing written."""
        self._writes = writes
        # What the API server made of a status it was asked to keep: its schema may drop fields that we compute.
        self._pruned: dict[Key, tuple[str, str]] = {}

    async def write(self, key: Key, resource: Manifest, status: Mapping[str, Any]) -> str | None:
        """Make ``status`` the stored one; return the resource's new version, or None when it is stored already.

        Raises:
            ControllerError: the write failed; the pass must be repeated.
        """
        stored = resource.get("status") or {}
        patch = merge_patch(stored, status)
        if not patch or self._pruned.get(key) == (names.digest(status), names.digest(stored)):
            return None
        answer = await self._writes.patch_status(key, resource, patch)
        kept = answer.get("status") or {}
        if merge_patch(kept, status):
            self._pruned[key] = (names.digest(status), names.digest(kept))
            lost = sorted(merge_patch(kept, status))
            logs.bind(key).warning("status_pruned", fields=lost)
        else:
            self._pruned.pop(key, None)
        return str(plan.metadata(answer)["resourceVersion"])

    def forget(self, key: Key) -> None:
        """Drop what is known of a resource that is gone."""
        self._pruned.pop(key, None)
