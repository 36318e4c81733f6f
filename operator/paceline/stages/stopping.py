"""Being asked to stop: the work ends at its next safe point, and the pod exits as stopped, never as finished."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from paceline.stages.failures import TerminatedError

_LOOK_S: Final = 0.2

ResultT = TypeVar("ResultT")


class Stop:
    """Remembers SIGTERM and SIGINT; what runs looks here between two steps."""

    def __init__(self) -> None:
        """Nothing was asked yet."""
        self._requested = threading.Event()

    def install(self) -> None:
        """Take the signals of this process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._requested.set())

    def request(self) -> None:
        """Ask, as the signal does."""
        self._requested.set()

    @property
    def requested(self) -> bool:
        """Whether the work shall end."""
        return self._requested.is_set()

    def raise_if_requested(self) -> None:
        """Raise TerminatedError when asked to stop."""
        if self.requested:
            raise TerminatedError("the pod was asked to stop; what is finished is kept for the next attempt")

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Return what ``work`` returns, or cancel it and raise TerminatedError when asked to stop."""
        return asyncio.run(self._watch(work))

    async def _watch(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.wait({task}, timeout=_LOOK_S)
            if self.requested and not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                self.raise_if_requested()
        return task.result()
