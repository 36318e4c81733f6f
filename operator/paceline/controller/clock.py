"""Time as the controller sees it: wall clock for what is stored, monotonic for waits. Nobody else reads either."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """A source of time that a test can replace."""

    def wall(self) -> float:
        """Return seconds since the epoch; it may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds of a clock that never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds of the monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait, letting other tasks run."""
        await asyncio.sleep(seconds)
