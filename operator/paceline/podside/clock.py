"""Where a pod's program reads the time, so that tests can own it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that only grow, and the wall's seconds for what people read."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start; differences are real time, whatever happens to the wall clock."""
        ...

    def wall(self) -> float:
        """Return seconds since the epoch; it may jump, so nothing is computed from it."""
        ...


class SystemClock:
    """The machine's clocks; the one place of this room that reads them."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start."""
        return time.monotonic()

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return time.time()
