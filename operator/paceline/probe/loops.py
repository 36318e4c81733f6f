"""How requests follow each other: a closed loop holds a concurrency, an open loop holds a rate.

A closed loop measures throughput: there is always work, so the server is the limit. An open loop measures what users
wait for at a rate they come at: its requests start when they are due, whatever became of earlier ones, and are timed
from when they were due. Timing them from when they could be sent would leave out the wait that a slow server causes
(coordinated omission: Tene, "How NOT to Measure Latency", 2013).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from paceline.podside import clock as clocks
from paceline.probe.exchange import Asker, Trace
from paceline.probe.workload import Workload


class ClosedLoop:
    """So many slots, each of which sends its next request when its last one is answered.

    Slots take from one list: then the block drains within one request of its end, while slots with lists of their own
    would drift apart over the block.
    """

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
        self.drained_s = float("inf")
        """When a slot first found nothing left to start."""

    @property
    def traces(self) -> list[Trace]:
        """All requests in the order they started."""
        return [trace for _, trace in sorted(self._traces, key=lambda item: item[0])]

    def spoil(self) -> None:
        """Start no more requests; those in flight may end."""
        self._spoiled = True

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
