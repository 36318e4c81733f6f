"""Makes way for users on a server that the probe shares with them.

What users wait for is taken from the server's own histogram of times to first token, less what the probe's requests
added to it. The probe times its own at its end of the wire, so it takes a little too much off: users' mean comes out
low by the network's share, never high.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Self

from paceline.engines import metrics
from paceline.podside import clock as clocks
from paceline.probe import exchange, watch

_WINDOW_S: Final = 10.0
"""Span over which users' mean is taken: long enough for several requests, short enough to make way in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The server's count at one moment, and ours."""

    at_s: float
    server: metrics.Spent
    ours: metrics.Spent


@dataclass(slots=True)
class Yielded:
    """Whether a block made way."""

    why: str = ""


class _Pause:
    """Tells once that a pause begins, and that it is over."""

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self._tell = tell
        self._is_on = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_on:
            self._tell(False)  # noqa: FBT003 - the one thing that is told

    def begin(self) -> None:
        if not self._is_on:
            self._is_on = True
            self._tell(True)  # noqa: FBT003 - the one thing that is told


class Manners:
    """Keeps the probe from a server whose users wait too long."""

    def __init__(
        self, watcher: watch.Watcher, asker: exchange.Asker, clock: clocks.Clock, *, limit_ms: int | None
    ) -> None:
        """Look as often as the watcher does; without a limit, never."""
        self._watcher = watcher
        self._asker = asker
        self._clock = clock
        self._limit_ms = limit_ms
        self._pause_s = watcher.patience.pause_s
        self._longest_s = 2 * watcher.patience.idle_s
        self._looks: deque[_Look] = deque()
        self._has_yielded = False

    async def clear(self, on_pause: Callable[[bool], None] = lambda _: None) -> str:
        """Return empty text once users wait no longer than the limit, or why they still do after a long while.

        ``on_pause`` hears when the wait for users begins, and when it ends either way; nothing where there is none.
        """
        if self._limit_ms is None:
            return ""
        began_s = self._clock.monotonic()
        # After having made way, a whole window without us is looked at before the next request.
        least_s = _WINDOW_S if self._has_yielded else 0.0
        self._looks.clear()
        await self._users_mean_ms()
        with _Pause(on_pause) as pause:
            while self._clock.monotonic() - began_s < self._longest_s:
                if self._has_yielded:
                    pause.begin()
                await asyncio.sleep(self._pause_s)
                mean_ms = await self._users_mean_ms()
                looked_s = self._clock.monotonic() - began_s
                if looked_s >= least_s and (mean_ms is None or mean_ms <= self._limit_ms):
                    self._has_yielded = False
                    return ""
                pause.begin()
        return f"users waited longer than {self._limit_ms} ms for their first tokens, also without the probe"

    @contextlib.asynccontextmanager
    async def watching(self, make_way: Callable[[], None]) -> AsyncIterator[Yielded]:
        """Call ``make_way``, once, when users wait too long in the ``async with`` block; yields why."""
        yielded = Yielded()
        if self._limit_ms is None:
            yield yielded
            return
        task = asyncio.create_task(self._watch(self._limit_ms, make_way, yielded))
        try:
            yield yielded
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _watch(self, limit_ms: int, make_way: Callable[[], None], yielded: Yielded) -> None:
        self._looks.clear()
        while not yielded.why:
            mean_ms = await self._users_mean_ms()
            if mean_ms is not None and mean_ms > limit_ms:
                self._has_yielded = True
                yielded.why = f"users waited {mean_ms:.0f} ms for their first tokens; the limit is {limit_ms} ms"
                make_way()
            await asyncio.sleep(self._pause_s)

    async def _users_mean_ms(self) -> float | None:
        """Return users' mean time to first token over the window; None when none of them got one."""
        reading = await self._watcher.scrape()
        if not isinstance(reading, metrics.Reading) or reading.ttft is None:
            return None
        # Ours is read after the scrape: a request of ours is rather taken off too early than taken for a user's.
        look = _Look(at_s=self._clock.monotonic(), server=reading.ttft, ours=self._asker.waited)
        self._looks.append(look)
        while look.at_s - self._looks[0].at_s > _WINDOW_S:
            self._looks.popleft()
        first = self._looks[0]
        count = (look.server.count - first.server.count) - (look.ours.count - first.ours.count)
        seconds = (look.server.seconds - first.server.seconds) - (look.ours.seconds - first.ours.seconds)
        return seconds / count * 1000.0 if count > 0 and seconds > 0 else None
