"""One block: one server at one concurrency, from an idle server to an idle server."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, assert_never

from paceline.api.measurement import BlockOutcome, Measurement, ProbeArm
from paceline.engines import metrics
from paceline.podside import clock as clocks
from paceline.probe import watch, window
from paceline.probe.exchange import Asker, Fault, FaultKind, Trace
from paceline.probe.prompts import Prompt

_DECIMALS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What every arm is asked."""

    model: str
    prompts: Sequence[Prompt]
    max_tokens: int

    def document(self, prompt: int, *, max_tokens: int | None = None) -> dict[str, Any]:
        """Return the request for a prompt.

        Greedy, so that both arms are asked for the same answers, and usage in every chunk, since a speculating server
        sends several tokens in one.
        """
        messages = self.prompts[prompt % len(self.prompts)]
        return {
            "model": self.model,
            "messages": [one.model_dump() for one in messages],
            "max_tokens": max_tokens or self.max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which block of a round this is."""

    round: int
    position: int
    concurrency: int
    requests: int
    """Requests of the block, over all slots."""
    first_prompt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """What a block left."""

    measurement: Measurement
    message: str
    """Why it is unusable; empty when it is fine."""
    texts: Mapping[int, str]
    """Answers by prompt."""
    after: metrics.Outcome | None
    """The server's counters at its end."""


class Arm:
    """One server, with what it takes to drive and watch it."""

    def __init__(self, arm: ProbeArm, *, asker: Asker, watcher: watch.Watcher, clock: clocks.Clock) -> None:
        """Drive ``arm``."""
        self.arm = arm
        self._asker = asker
        self._watcher = watcher
        self._clock = clock

    async def scrape(self) -> metrics.Outcome:
        """Return the server's counters."""
        return await self._watcher.scrape()

    async def answer(self, workload: Workload, prompts: Sequence[int], *, max_tokens: int | None = None) -> list[Trace]:
        """Return the traces of requests sent all at once, not counted anywhere."""
        documents = [(number, workload.document(number, max_tokens=max_tokens)) for number in prompts]
        return await asyncio.gather(*(self._asker.ask(document, prompt=number) for number, document in documents))

    async def drive(self, workload: Workload, place: Place, *, on_answer: Callable[[int], None]) -> Driven:
        """Return a measured block; ``on_answer`` hears how many requests have ended."""
        started_at = datetime.fromtimestamp(self._clock.wall(), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        before = await self._watcher.wait_until_idle()
        if before is None:
            return self._unusable(place, started_at, BlockOutcome.CONTAMINATED, "others keep the server busy")
        loop = _ClosedLoop(self._asker, workload, place, clock=self._clock, on_answer=on_answer)
        await loop.run()
        after = await self._watcher.scrape()
        return self._measured(place, started_at, loop, (before, after))

    def _measured(
        self,
        place: Place,
        started_at: str,
        loop: "_ClosedLoop",
        scrapes: tuple[metrics.Outcome, metrics.Outcome],
    ) -> Driven:
        traces = loop.traces
        seen_window = window.measure(traces, concurrency=place.concurrency, drained_s=loop.drained_s)
        before, after = scrapes
        seen = watch.between(before, after, tokens=sum(trace.tokens for trace in traces), requests=len(traces))
        outcome, message = _outcome(seen, traces, seen_window, place)
        measurement = self._blank(place, started_at, outcome).model_copy(
            update={
                "window_ms": round(seen_window.seconds * 1000),
                "requests": sum(trace.fault is None for trace in traces),
                "errors": sum(trace.fault is not None for trace in traces),
                "output_tokens": max(0, seen_window.tokens),
                "ttft_ms": _rounded(seen_window.ttft_ms),
                "itl_ms": _rounded(seen_window.itl_ms),
                "drafts": seen.drafts,
                "draft_tokens": seen.draft_tokens,
                "accepted_tokens": seen.accepted_tokens,
            }
        )
        texts = {trace.prompt: trace.text for trace in traces if trace.fault is None}
        return Driven(measurement=measurement, message=message, texts=texts, after=after)

    def _unusable(self, place: Place, started_at: str, outcome: BlockOutcome, message: str) -> Driven:
        return Driven(measurement=self._blank(place, started_at, outcome), message=message, texts={}, after=None)

    def _blank(self, place: Place, started_at: str, outcome: BlockOutcome) -> Measurement:
        return Measurement(
            arm=self.arm.arm,
            node=self.arm.node,
            pod_uid=self.arm.pod_uid,
            load=self.arm.load,
            round=place.round,
            position=place.position,
            concurrency=place.concurrency,
            started_at=started_at,
            outcome=outcome,
        )


class _ClosedLoop:
    """So many slots, each of which sends its next request when its last one is answered.

    Slots take from one list: then the block drains within one request of its end, while slots with lists of their own
    would drift apart over the block.
    """

    def __init__(
        self, asker: Asker, workload: Workload, place: Place, *, clock: clocks.Clock, on_answer: Callable[[int], None]
    ) -> None:
        self._asker = asker
        self._workload = workload
        self._place = place
        self._clock = clock
        self._on_answer = on_answer
        self._traces: list[tuple[int, Trace]] = []
        self._spoiled = False
        self.drained_s = float("inf")

    @property
    def traces(self) -> list[Trace]:
        """All requests in the order they started."""
        return [trace for _, trace in sorted(self._traces, key=lambda item: item[0])]

    async def run(self) -> None:
        """Return when every request that was started has ended."""
        numbers = iter(range(self._place.requests))
        await asyncio.gather(*(self._slot(numbers) for _ in range(self._place.concurrency)))

    async def _slot(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            prompt = self._place.first_prompt + number
            trace = await self._asker.ask(self._workload.document(prompt), prompt=prompt)
            self._traces.append((number, trace))
            self._on_answer(len(self._traces))
            if trace.fault is not None:
                # The block is lost already; what is in flight may end, as aborting it would leave work in the server.
                self._spoiled = True
            if self._spoiled:
                break
        self.drained_s = min(self.drained_s, self._clock.monotonic())


def _outcome(seen: watch.Seen, traces: Sequence[Trace], found: window.Window, place: Place) -> tuple[BlockOutcome, str]:
    """Return a block's outcome: the cause before its symptoms."""
    faults = [trace.fault for trace in traces if trace.fault is not None]
    if seen.outcome is BlockOutcome.ARM_CHANGED:
        return seen.outcome, seen.message
    if faults:
        return _of_fault(faults[0]), f"{len(faults)} of {len(traces)} requests: {faults[0].message}"
    if seen.outcome is not BlockOutcome.OK:
        return seen.outcome, seen.message
    if not found.is_steady(place.concurrency):
        return (
            BlockOutcome.TOO_FEW,
            f"{found.finished} requests ended while {place.concurrency} were in flight; ask more of each slot",
        )
    return BlockOutcome.OK, ""


def _of_fault(fault: Fault) -> BlockOutcome:
    match fault.kind:
        case FaultKind.NO_TOKENS:
            return BlockOutcome.NO_TOKENS
        case FaultKind.STALLED:
            return BlockOutcome.STALLED
        case FaultKind.REFUSED | FaultKind.LOST | FaultKind.MALFORMED:
            return BlockOutcome.REQUEST_ERRORS
        case _:
            assert_never(fault.kind)


def _rounded(value: float | None) -> float | None:
    """Return what travels: a report is 4 KiB, and a hundredth of a millisecond is finer than any clock here."""
    return None if value is None else round(value, _DECIMALS)
