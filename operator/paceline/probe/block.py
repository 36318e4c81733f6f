"""One block: one server at one concurrency, from an idle server to an idle server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, assert_never

from paceline.api.measurement import BlockOutcome, Measurement, ProbeArm
from paceline.engines import metrics
from paceline.podside import clock as clocks
from paceline.probe import manners, watch, window
from paceline.probe.exchange import Asker, Fault, FaultKind, Trace
from paceline.probe.loops import ClosedLoop
from paceline.probe.workload import Place, Workload

_DECIMALS: Final = 2
_REPLAYS_A_SLOT: Final = 2
"""Answers a slot of the control gives a second time: a twelfth of a round's work."""


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

    def __init__(
        self,
        arm: ProbeArm,
        *,
        asker: Asker,
        watcher: watch.Watcher,
        clock: clocks.Clock,
        users_ttft_limit_ms: int | None = None,
    ) -> None:
        """Drive ``arm``; one that serves users only while they wait no longer than ``users_ttft_limit_ms``."""
        limit_ms = users_ttft_limit_ms if arm.serves_users else None
        self._manners = manners.Manners(watcher, asker, clock, limit_ms=limit_ms)
        self.arm = arm
        self._asker = asker
        self._watcher = watcher
        self._clock = clock

    async def scrape(self) -> metrics.Outcome:
        """Return the server's counters."""
        return await self._watcher.scrape()

    async def clear(self) -> str:
        """Return empty text once users of this server wait no longer than they may, or why they still do."""
        return await self._manners.clear()

    async def answer(self, workload: Workload, prompts: Sequence[int], *, max_tokens: int | None = None) -> list[Trace]:
        """Return the traces of requests sent all at once, not counted anywhere."""
        documents = [(number, workload.document(number, max_tokens=max_tokens)) for number in prompts]
        return await asyncio.gather(*(self._asker.ask(document, prompt=number) for number, document in documents))

    async def drive(self, workload: Workload, place: Place, *, on_answer: Callable[[int], None]) -> Driven:
        """Return a measured block; ``on_answer`` hears how many requests have ended."""
        started_at = datetime.fromtimestamp(self._clock.wall(), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        waiting = await self._manners.clear()
        if waiting:
            return self._unusable(place, started_at, BlockOutcome.YIELDED, waiting)
        before = await self._watcher.wait_until_idle()
        if before is None:
            return self._unusable(place, started_at, BlockOutcome.CONTAMINATED, "others keep the server busy")
        loop = ClosedLoop(self._asker, workload, clock=self._clock, on_answer=on_answer)
        async with self._manners.watching(loop.spoil) as yielded:
            await loop.run(_prompts(place), concurrency=place.concurrency)
        if yielded.why:
            return self._unusable(place, started_at, BlockOutcome.YIELDED, yielded.why)
        after = await self._watcher.scrape()
        return self._measured(place, started_at, loop, (before, after))

    async def replay(self, workload: Workload, place: Place) -> Mapping[int, str]:
        """Return second answers to a block's first prompts, at its concurrency; nothing of it is measured."""
        loop = ClosedLoop(self._asker, workload, clock=self._clock)
        await loop.run(_prompts(place)[: _REPLAYS_A_SLOT * place.concurrency], concurrency=place.concurrency)
        return _answers(loop.traces)

    def _measured(
        self,
        place: Place,
        started_at: str,
        loop: ClosedLoop,
        scrapes: tuple[metrics.Outcome, metrics.Outcome],
    ) -> Driven:
        traces = loop.traces
        answered = [trace for trace in traces if trace.fault is None]
        asked = _prompt_tokens(answered)
        seen_window = window.measure(traces, concurrency=place.concurrency, drained_s=loop.drained_s)
        before, after = scrapes
        seen = watch.between(before, after, tokens=sum(trace.tokens for trace in traces), requests=len(traces))
        outcome, message = _outcome(seen, traces, seen_window, place)
        measurement = self._blank(place, started_at, outcome).model_copy(
            update={
                "window_ms": round(seen_window.seconds * 1000),
                "requests": len(answered),
                "errors": len(traces) - len(answered),
                "stalls": sum(trace.fault is not None and trace.fault.kind is FaultKind.STALLED for trace in traces),
                "output_tokens": max(0, seen_window.tokens),
                "ttft_ms": _rounded(seen_window.ttft_ms),
                "itl_ms": _rounded(seen_window.itl_ms),
                "ttft_p99_ms": _rounded(seen_window.ttft_p99_ms),
                "itl_p99_ms": _rounded(seen_window.itl_p99_ms),
                "prompt_tokens": asked,
                "cached_tokens": _cached_tokens(asked, seen.cache_hit_rate),
                "drafts": seen.drafts,
                "draft_tokens": seen.draft_tokens,
                "accepted_tokens": seen.accepted_tokens,
            }
        )
        return Driven(measurement=measurement, message=message, texts=_answers(traces), after=after)

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
            prompt_band=place.prompt_band,
            started_at=started_at,
            outcome=outcome,
        )


def _prompts(place: Place) -> range:
    return range(place.first_prompt, place.first_prompt + place.requests)


def _answers(traces: Sequence[Trace]) -> dict[int, str]:
    return {trace.prompt: trace.text for trace in traces if trace.fault is None}


def _prompt_tokens(answered: Sequence[Trace]) -> int | None:
    """Return the tokens of all prompts; None unless the server told each."""
    told = [trace.prompt_tokens for trace in answered if trace.prompt_tokens is not None]
    return sum(told) if told and len(told) == len(answered) else None


def _cached_tokens(asked: int | None, hit_rate: float | None) -> int | None:
    return None if asked is None or hit_rate is None else round(asked * hit_rate)


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
