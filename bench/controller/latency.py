"""How long after an edit the operator's first write to a child is seen, and how long the edit itself takes to be seen.

Both are taken from the same edits, by the same watcher, on the same connections: from the moment the edit is sent until
the watch tells of the edited resource (what this machine's API server takes, the operator left out), and until it tells
of the child. Edits come at a stated rate, whatever became of earlier ones.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import crowd

import harness
from paceline.controller import errors
from paceline.planning import kinds

_QUIET_S: Final = 2.0
_PATIENCE_S: Final = 120.0


@dataclass(slots=True)
class _Edit:
    """One edit, and when it was seen; seconds of one monotonic clock."""

    sent: float
    told: float | None = None
    followed: float | None = None


@dataclass(slots=True)
class _Seen:
    port: int
    lost: int = 0
    """Edits without an answer."""
    edits: dict[tuple[str, str], _Edit] = field(default_factory=dict)

    async def resources(self, api: harness.Api) -> None:
        """Note when an edit is told of."""
        async for one in crowd.changes(api, kinds.SPECULATIVE_DEPLOYMENT):
            edit = self._edit(one)
            if edit and edit.told is None and (one["spec"].get("traffic") or {}).get("port") == self.port:
                edit.told = time.monotonic()

    async def services(self, api: harness.Api) -> None:
        """Note when the front Service follows."""
        async for one in crowd.changes(api, kinds.SERVICE):
            edit = self._edit(one)
            if edit and edit.followed is None and one["spec"]["ports"][0]["port"] == self.port:
                edit.followed = time.monotonic()

    def _edit(self, manifest: dict[str, Any]) -> _Edit | None:
        meta = manifest["metadata"]
        return self.edits.get((meta["namespace"], meta["name"]))

    @property
    def is_complete(self) -> bool:
        """Whether everything that was edited has been seen."""
        return all(one.told is not None and one.followed is not None for one in self.edits.values())


async def measure(api: harness.Api, *, size: int, changes: int, per_s: float) -> dict[str, Any]:
    """Edit the port of as many resources as ``changes`` says, ``per_s`` of them a second; return what was seen."""
    seen = _Seen(port=8000 + random.randrange(1, 1000))  # noqa: S311 - another one than last time
    chosen = random.Random(size).sample(range(size), min(size, changes))  # noqa: S311 - which ones is no secret
    async with asyncio.TaskGroup() as tasks:
        watching = [tasks.create_task(seen.resources(api)), tasks.create_task(seen.services(api))]
        await asyncio.sleep(_QUIET_S)
        began = time.monotonic()
        async with asyncio.TaskGroup() as edits:
            for position, number in enumerate(chosen):
                await asyncio.sleep(max(0.0, began + position / per_s - time.monotonic()))
                edits.create_task(_edit(api, seen, number))
        async with asyncio.timeout(_PATIENCE_S):
            while not seen.is_complete:  # noqa: ASYNC110 - the watches complete it
                await asyncio.sleep(0.1)
        for task in watching:
            task.cancel()
    return {"perSecond": per_s, "lost": seen.lost, **_figures(list(seen.edits.values()))}


async def _edit(api: harness.Api, seen: _Seen, number: int) -> None:
    place = crowd.namespace(number), crowd.name(number)
    seen.edits[place] = _Edit(sent=time.monotonic())
    try:
        await api.merge(kinds.SPECULATIVE_DEPLOYMENT, *place, {"spec": {"traffic": {"port": seen.port}}})
    except errors.UnavailableError:
        # Nobody knows whether it was made; a machine that answers so slowly shows in the others' figures.
        del seen.edits[place]
        seen.lost += 1


def _figures(edits: Sequence[_Edit]) -> dict[str, Any]:
    to_event = quantiles([one.told - one.sent for one in edits if one.told is not None])
    to_write = quantiles([one.followed - one.sent for one in edits if one.followed is not None])
    return {
        "editToItsEventS": to_event,
        "editToChildWriteS": to_write,
        "ratio": {name: round(to_write[name] / to_event[name], 1) for name in ("p50", "p99")},
    }


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median, the 99th percentile and the worst, in seconds."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        "count": len(ordered),
        "p50": round(statistics.median(ordered), 3),
        "p99": round(ordered[min(last, round(0.99 * last))], 3),
        "worst": round(ordered[-1], 3),
    }
