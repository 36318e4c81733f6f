"""How requests follow each other: a closed loop holds a concurrency, an open loop holds a rate.

A closed loop measures throughput: there is always work, so the server is the limit. An open loop measures what users
wait for at a rate they come at: its requests start when they are due, whatever became of earlier ones, and are timed
from when they were due. Timing them from when they could be sent would leave out the wait that a slow server causes
(coordinated omission: Tene, "How NOT to Measure Latency", 2013).
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from paceline.podside import clock as clocks
from paceline.probe.exchange import Asker, Trace
from paceline.probe.workload import Workload

_MINUTE_S: Final = 60.0


class _Loop:
    """What loops share: how they ask, and what became of each request."""

    def __init__(
        self,
        asker: Asker,
        workload: Workload,
        *,
        clock: clocks.Clock,
        on_answer: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Ask through ``asker``; ``on_answer`` hears how many requests have ended."""
        self._asker = asker
        self._workload = workload
        self._clock = clock
        self._on_answer = on_answer
        self._traces: list[tuple[int, Trace]] = []
        self._spoiled = False

    @property
    def traces(self) -> list[Trace]:
        """All requests in the order they started, or were due."""
        return [trace for _, trace in sorted(self._traces, key=lambda item: item[0])]

    def spoil(self) -> None:
        """Start no more requests; those in flight may end."""
        self._spoiled = True


class ClosedLoop(_Loop):
    """So many slots, each of which sends its next request when its last one is answered.

    Slots take from one list: then the block drains within one request of its end, while slots with lists of their own
    would drift apart over the block.
    """

    drained_s: float = float("inf")
    """When a slot first found nothing left to start."""

    async def run(self, prompts: Sequence[int], *, concurrency: int) -> None:
        """Return when every request that was started has ended."""
        numbers = iter(enumerate(prompts))
        await asyncio.gather(*(self._slot(numbers) for _ in range(concurrency)))

    async def _slot(self, numbers: Iterator[tuple[int, int]]) -> None:
        for number, prompt in numbers:
            if self._spoiled:
                break
            trace = await self._asker.ask(self._workload.document(prompt), prompt=prompt)
            self._traces.append((number, trace))
            self._on_answer(len(self._traces))
            if trace.fault is not None:
                # The block is lost already; what is in flight may end, as aborting it would leave work in the server.
                self._spoiled = True
        self.drained_s = min(self.drained_s, self._clock.monotonic())


class OpenLoop(_Loop):
    """Requests at random times of a given rate (a Poisson process), each timed from when it was due."""

    async def run(self, prompts: Sequence[int], *, per_minute: int, seed: str) -> None:
        """Return when every request has ended; the same ``seed`` gives the same times, so that arms can share them.

        After a fault no more requests are started: the block is lost, and a server in trouble is left alone.
        """
        draw = random.Random(seed)  # noqa: S311 - drawn again alike, not kept secret
        due_s = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for number, prompt in enumerate(prompts):
                due_s += draw.expovariate(per_minute / _MINUTE_S)
                await asyncio.sleep(max(0.0, due_s - self._clock.monotonic()))
                if self._spoiled:
                    break
                group.create_task(self._ask(number, prompt, due_s))

    async def _ask(self, number: int, prompt: int, due_s: float) -> None:
        trace = await self._asker.ask(self._workload.document(prompt), prompt=prompt, due_s=due_s)
        self._traces.append((number, trace))
        if trace.fault is not None:
            self.spoil()
        self._on_answer(len(self._traces))
