"""One block: one server at one concurrency, from an idle server to an idle server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, assert_never

from paceline.api.measurement import BlockOutcome, Measurement, ProbeArm
from paceline.engines import metrics
from paceline.podside import clock as clocks
from paceline.probe import figures, manners, watch
from paceline.probe.exchange import Asker, Fault, FaultKind, Trace
from paceline.probe.loops import ClosedLoop, OpenLoop
from paceline.probe.workload import Place, Workload

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

    async def clear(self, on_pause: Callable[[bool], None]) -> str:
        """Return empty text once users of this server wait no longer than they may, or why they still do."""
        return await self._manners.clear(on_pause)

    async def answer(self, workload: Workload, prompts: Sequence[int], *, max_tokens: int | None = None) -> list[Trace]:
        """Return the traces of requests sent all at once, not counted anywhere."""
        documents = [(number, workload.document(number, max_tokens=max_tokens)) for number in prompts]
        return await asyncio.gather(*(self._asker.ask(document, prompt=number) for number, document in documents))

    async def drive(
        self,
        workload: Workload,
        place: Place,
        *,
        on_answer: Callable[[int], None],
        on_pause: Callable[[bool], None] = lambda _: None,
    ) -> Driven:
        """Return a measured block.

        Args:
            workload: what is asked.
            place: the block's concurrency, and where it begins in the prompts.
            on_answer: hears how many requests have ended.
            on_pause: hears that the block waits for users to be served better, and that it waits no more.
        """
        started_at = datetime.fromtimestamp(self._clock.wall(), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        waiting = await self._manners.clear(on_pause)
        if waiting:
            return self._unusable(place, started_at, BlockOutcome.YIELDED, waiting)
        before = await self._watcher.wait_until_idle()
        if before is None:
            return self._unusable(place, started_at, BlockOutcome.CONTAMINATED, "others keep the server busy")
        loop: ClosedLoop | OpenLoop
        if place.rate_per_minute:
            loop = OpenLoop(self._asker, workload, clock=self._clock, on_answer=on_answer)
            seed = f"{place.rate_per_minute}/{place.first_prompt}"
            running = loop.run(_prompts(place), per_minute=place.rate_per_minute, seed=seed)
        else:
            loop = ClosedLoop(self._asker, workload, clock=self._clock, on_answer=on_answer)
            running = loop.run(_prompts(place), concurrency=place.concurrency)
        async with self._manners.watching(loop.spoil) as yielded:
            await running
        if yielded.why:
            return self._unusable(place, started_at, BlockOutcome.YIELDED, yielded.why)
        found = figures.opened(loop.traces) if isinstance(loop, OpenLoop) else figures.closed(loop, place)
        return self._measured(place, started_at, (loop.traces, found), (before, await self._watcher.scrape()))

    async def replay(self, workload: Workload, place: Place) -> Mapping[int, str]:
        """Return second answers to a block's first prompts, at its concurrency; nothing of it is measured."""
        loop = ClosedLoop(self._asker, workload, clock=self._clock)
        await loop.run(_prompts(place)[: _REPLAYS_A_SLOT * place.concurrency], concurrency=place.concurrency)
        return _answers(loop.traces)

    def _measured(
        self,
        place: Place,
        started_at: str,
        run: tuple[Sequence[Trace], figures.Figures],
        scrapes: tuple[metrics.Outcome, metrics.Outcome],
    ) -> Driven:
        traces, found = run
        answered = [trace for trace in traces if trace.fault is None]
        asked = _prompt_tokens(answered)
        before, after = scrapes
        seen = watch.between(before, after, tokens=sum(trace.tokens for trace in traces), requests=len(traces))
        outcome, message = _outcome(seen, traces, found.too_few)
        measurement = self._blank(place, started_at, outcome).model_copy(
            update={
                **found.values,
                "requests": len(answered),
                "errors": len(traces) - len(answered),
                "stalls": sum(trace.fault is not None and trace.fault.kind is FaultKind.STALLED for trace in traces),
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
            rate_per_minute=place.rate_per_minute,
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


def _outcome(seen: watch.Seen, traces: Sequence[Trace], too_few: str) -> tuple[BlockOutcome, str]:
    """Return a block's outcome: the cause before its symptoms."""
    faults = [trace.fault for trace in traces if trace.fault is not None]
    if seen.outcome is BlockOutcome.ARM_CHANGED:
        return seen.outcome, seen.message
    if faults:
        return _of_fault(faults[0]), f"{len(faults)} of {len(traces)} requests: {faults[0].message}"
    if seen.outcome is not BlockOutcome.OK:
        return seen.outcome, seen.message
    return (BlockOutcome.TOO_FEW, too_few) if too_few else (BlockOutcome.OK, "")


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
