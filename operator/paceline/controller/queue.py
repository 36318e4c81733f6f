"""The work queue: a key is worked on at most once at a time, and again if it changed meanwhile.

What changed goes before what merely came due: where a thousand guards look at their metrics every 15 seconds, a
person's edit must not wait behind them. A look that has waited for ``PATIENCE_S`` goes first all the same, so that
deadlines are noticed also where changes never end.

``Schedule`` holds the rules and knows no event loop, so that a test drives it by the clock alone; ``WorkQueue`` lets
workers wait on it.
"""

import asyncio
import contextlib
import heapq
import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from paceline.controller.clock import Clock

KeyT = TypeVar("KeyT", bound=Hashable)

PATIENCE_S: Final = 5.0
"""How long keys whose time has come let changes go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential delays: ``base_s * 2^n`` up to ``max_s``, each shortened by up to half so that retries spread out."""

    base_s: float
    max_s: float
    jitter: Callable[[], float] = random.random
    """Returns 0 to 1."""

    def delay(self, failures: int) -> float:
        """Return the delay before the next try after so many failures in a row."""
        full = min(self.max_s, self.base_s * 2.0 ** min(failures, 64))
        return full * (1.0 - 0.5 * self.jitter())


class Schedule(Generic[KeyT]):
    """Which key is due, and which is in work."""

    def __init__(self, *, backoff: Backoff) -> None:
        """Start empty."""
        self._backoff = backoff
        self._changed: dict[KeyT, float] = {}  # ready, since when; a dict keeps the order of arrival
        self._looks: dict[KeyT, float] = {}  # ready as well, but only because their time has come
        self._due: dict[KeyT, float] = {}  # the earliest future time asked for
        self._heap: list[tuple[float, int, KeyT]] = []  # may hold outdated entries; _due decides
        self._working: dict[KeyT, float] = {}
        self._dirty: set[KeyT] = set()
        self._failures: dict[KeyT, int] = {}
        self._ticks = 0

    def add(self, key: KeyT, now: float) -> None:
        """Make ``key`` due at once; one that is in work is due again when that ends."""
        if key in self._working:
            self._dirty.add(key)
        elif key not in self._changed:
            self._changed[key] = self._looks.pop(key, now)

    def add_at(self, key: KeyT, due: float) -> None:
        """Make ``key`` due at a time; the earliest of several times counts."""
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._ticks += 1
            heapq.heappush(self._heap, (due, self._ticks, key))

    def failed(self, key: KeyT, now: float, *, at_least_s: float = 0.0) -> float:
        """Make ``key`` due after its backoff; return the delay."""
        delay = max(self._backoff.delay(self._failures.get(key, 0)), at_least_s)
        self._failures[key] = self._failures.get(key, 0) + 1
        self.add_at(key, now + delay)
        return delay

    def succeeded(self, key: KeyT) -> None:
        """Forget the failures of ``key``."""
        self._failures.pop(key, None)

    def take(self, now: float) -> tuple[KeyT, float] | None:
        """Return the next key, now in work, and how long it was ready; None when none is.

        Of changes, and of looks, the one that has been ready longest comes first.
        """
        self._move_due(now)
        impatient = next(iter(self._looks.values()), now) <= now - PATIENCE_S
        ready = self._looks if impatient or not self._changed else self._changed
        if not ready:
            return None
        key = next(iter(ready))
        since = ready.pop(key)
        self._working[key] = now
        # The pass about to start sees everything, so a wish to look again later is settled by it as well.
        self._due.pop(key, None)
        return key, now - since

    def done(self, key: KeyT, now: float) -> None:
        """End the work on ``key``."""
        self._working.pop(key, None)
        if key in self._dirty:
            self._dirty.discard(key)
            self._changed[key] = now

    def next_due(self) -> float | None:
        """Return when the next delayed key is due."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def depth(self) -> int:
        """Return how many keys are ready or in work."""
        return len(self._changed) + len(self._looks) + len(self._working)

    def longest_wait(self, now: float) -> float:
        """Return the age of the oldest ready key, or of the longest work if that is more."""
        since = (*self._changed.values(), *self._looks.values(), *self._working.values())
        return max((now - one for one in since), default=0.0)

    def _move_due(self, now: float) -> None:
        while (due := self.next_due()) is not None and due <= now:
            key = heapq.heappop(self._heap)[2]
            del self._due[key]
            if key in self._working:
                self._dirty.add(key)
            elif key not in self._changed:
                self._looks.setdefault(key, due)


class WorkQueue(Generic[KeyT]):
    """A schedule that workers can wait on."""

    def __init__(self, *, clock: Clock, backoff: Backoff) -> None:
        """Start empty."""
        self._clock = clock
        self._schedule: Schedule[KeyT] = Schedule(backoff=backoff)
        self._changed = asyncio.Event()

    def add(self, key: KeyT) -> None:
        """Make ``key`` due at once."""
        self._schedule.add(key, self._clock.monotonic())
        self._changed.set()

    def add_after(self, key: KeyT, delay_s: float) -> None:
        """Make ``key`` due within ``delay_s`` seconds."""
        self._schedule.add_at(key, self._clock.monotonic() + delay_s)
        self._changed.set()

    def failed(self, key: KeyT, *, at_least_s: float = 0.0) -> float:
        """Make ``key`` due after its backoff, and no sooner than ``at_least_s``; return the delay in seconds."""
        delay = self._schedule.failed(key, self._clock.monotonic(), at_least_s=at_least_s)
        self._changed.set()
        return delay

    def succeeded(self, key: KeyT) -> None:
        """Forget the failures of ``key``."""
        self._schedule.succeeded(key)

    def done(self, key: KeyT) -> None:
        """End the work on ``key``."""
        self._schedule.done(key, self._clock.monotonic())
        self._changed.set()

    async def take(self) -> tuple[KeyT, float]:
        """Wait for a key; return it with the seconds it waited. Call ``done`` when its work ends."""
        while True:
            found = self._schedule.take(self._clock.monotonic())
            if found is not None:
                return found
            self._changed.clear()
            await self._wait()

    def depth(self) -> int:
        """Return how many keys are ready or in work."""
        return self._schedule.depth()

    def longest_wait(self) -> float:
        """Return how long the oldest ready key, or the longest work, has lasted, in seconds."""
        return self._schedule.longest_wait(self._clock.monotonic())

    async def _wait(self) -> None:
        due = self._schedule.next_due()
        timeout = None if due is None else max(0.0, due - self._clock.monotonic())
        # Not wait_for: before Python 3.12 it loses a cancellation that comes as the event is set, and a worker that
        # cannot be cancelled keeps a process alive that has lost its lease.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()
