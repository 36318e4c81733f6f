"""One round over all arms and bands: warm-up, then blocks A B B A (A B C C B A) at every concurrency.

A band is a concurrency and, where lengths of prompts are told apart, one of these.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from paceline.api.measurement import BlockOutcome, Measurement, ProbeConfig, ProbeReport
from paceline.engines import counters, metrics
from paceline.podside import clock as clocks
from paceline.probe import agreement, watch
from paceline.probe import prompts as prompt_files
from paceline.probe import transport as transports
from paceline.probe.block import Arm, Driven
from paceline.probe.exchange import Asker
from paceline.probe.prompts import Prompt
from paceline.probe.workload import Place, Workload

_WARMUP_TOKENS: Final = 32
"""Enough decoding steps to compile what decodes at a batch size."""
_WARMUP_SHARE: Final = 0.1
_GATE_TRIES: Final = 3
_GATE_PAUSE_S: Final = 1.0
_CONTROL: Final = 1
"""Place of the control among the arms; the candidate comes first."""


class Listener(Protocol):
    """Hears how a round goes on."""

    def at(self, share: float, message: str) -> None:
        """Hear that ``share`` (0 to 1) is done, and what runs now."""
        ...

    def paused(self, arm: str, *, is_on: bool) -> None:
        """Hear that an arm is left to users who wait too long, or that they no longer do."""
        ...

    def measured(self, measurement: Measurement, message: str) -> None:
        """Hear a block, and why it is unusable."""
        ...


class NotAnsweringError(Exception):
    """A server completed none of its warm-up requests, so there is nothing to measure."""


def arms_of(
    config: ProbeConfig, transport: transports.Transport, clock: clocks.Clock, patience: watch.Patience | None = None
) -> list[Arm]:
    """Return the configured arms, driven over ``transport``."""
    return [
        Arm(
            arm,
            asker=Asker(transport, clock, url=arm.url, stall_s=config.stall_timeout_s),
            watcher=watch.Watcher(
                transport, clock, url=arm.url, model=config.model, patience=patience or watch.Patience()
            ),
            clock=clock,
            users_ttft_limit_ms=config.users_ttft_limit_ms,
        )
        for arm in config.arms
    ]


async def run(
    config: ProbeConfig, prompts: Sequence[Prompt], arms: Sequence[Arm], *, listener: Listener
) -> ProbeReport:
    """Return the report of one round.

    Raises:
        NotAnsweringError: when an arm completes no request at all.
        PromptsError: when a band of lengths holds no prompt.
    """
    workloads = {
        band: Workload(model=config.model, prompts=inside, max_tokens=config.max_tokens)
        for band, inside in prompt_files.by_length(prompts, config.prompt_bounds).items()
    }
    first_readings = [await _warm_up(arm, workloads.values(), config, listener) for arm in arms]
    bands = list(_bands(config, list(workloads), arms=len(arms)))
    driver = _Driver(arms, first_readings, listener, blocks=sum(len(places) for places in bands))
    measurements: list[Measurement] = []
    for places in bands:
        workload = workloads[places[0][1].prompt_band]
        blocks = [await driver.drive(index, place, workload) for index, place in places]
        second = await _second_answers(arms, blocks, workload)
        measurements += agreement.counted(blocks, second, control=_CONTROL)
    return ProbeReport(
        measurements=measurements,
        greedy_agreement_percent=agreement.percent(
            one for one in measurements if len(arms) > 1 and one.arm == config.arms[0].arm
        ),
        error=_said(driver.driven),
    )


class _Driver:
    """Drives one block after the other, and tells how far the round is."""

    def __init__(
        self, arms: Sequence[Arm], first_readings: Sequence[metrics.Outcome], listener: Listener, *, blocks: int
    ) -> None:
        self._arms = arms
        self._first_readings = first_readings
        self._listener = listener
        self._blocks = blocks
        self.driven: list[Driven] = []

    async def drive(self, index: int, place: Place, workload: Workload) -> agreement.Block:
        """Return the next block."""
        arm, number = self._arms[index], len(self.driven)
        progress = _BlockProgress(self._listener, number=number, blocks=self._blocks, place=place, arm=arm.arm.arm)
        driven = await arm.drive(workload, place, on_answer=progress.answered, on_pause=_teller(self._listener, arm))
        done = _same_load(driven, first=self._first_readings[index])
        self._listener.measured(done.measurement, done.message)
        self.driven.append(done)
        return agreement.Block(arm=index, place=place, driven=done)


async def _second_answers(
    arms: Sequence[Arm], blocks: Sequence[agreement.Block], workload: Workload
) -> Mapping[int, str]:
    """Return the control's second answers to its first block; none without a control, or from a spoiled block."""
    if len(arms) <= _CONTROL:
        return {}
    first = next(one for one in blocks if one.arm == _CONTROL)
    if first.driven.measurement.outcome is not BlockOutcome.OK or first.place.rate_per_minute:
        return {}
    return await arms[_CONTROL].replay(workload, first.place)


async def _warm_up(
    arm: Arm, workloads: Collection[Workload], config: ProbeConfig, listener: Listener
) -> metrics.Outcome:
    """Return an arm's counters after it has compiled what it needs at every batch size.

    This is also the gate of real completions: an engine may answer /health and die on its first token.
    """
    listener.at(0.0, f"warming up {arm.arm.arm}")
    await _gate(arm, next(iter(workloads)))
    if await arm.clear(_teller(listener, arm)):
        # Its users wait too long already: its blocks will say so.
        return await arm.scrape()
    # A pod that serves users is given no more at once than its blocks will.
    rest = 0 if arm.arm.serves_users else max(0, config.warmup_requests - 1)
    max_tokens = min(_WARMUP_TOKENS, config.max_tokens)
    for concurrency in config.concurrencies or [1]:
        for workload in workloads:
            await arm.answer(workload, range(max(concurrency, rest)), max_tokens=max_tokens)
    return await arm.scrape()


def _teller(listener: Listener, arm: Arm) -> Callable[[bool], None]:
    """Return what tells a listener of an arm's pauses."""
    return lambda is_on: listener.paused(arm.arm.arm, is_on=is_on)


async def _gate(arm: Arm, workload: Workload) -> None:
    """Return once the arm has completed a request.

    Raises:
        NotAnsweringError: when it did not in several tries.
    """
    seen = ""
    for attempt in range(_GATE_TRIES):
        if attempt:
            await asyncio.sleep(_GATE_PAUSE_S)
        trace = (await arm.answer(workload, [0], max_tokens=min(_WARMUP_TOKENS, workload.max_tokens)))[0]
        if trace.fault is None:
            return
        seen = trace.fault.message
    raise NotAnsweringError(
        f"arm {arm.arm.arm} at {arm.arm.url} completed no request in {_GATE_TRIES} tries; last seen: {seen}"
    )


def _bands(config: ProbeConfig, prompt_bands: Sequence[str], *, arms: int) -> Iterator[list[tuple[int, Place]]]:
    """Yield the blocks of every band, as (arm, place) in the order of driving.

    Both halves of a round, and every round, go on where the last one stopped in the prompts: pairs share their prompts,
    and over rounds many are seen. A prompt that comes again finds a warm cache on every arm alike.
    """
    loads = list(_loads(config))
    a_half = sum(requests for _, _, requests in loads)
    forth = list(range(arms))
    for at, (concurrency, rate_per_minute, requests) in enumerate(loads):
        before = sum(earlier for _, _, earlier in loads[:at])
        for prompt_band in prompt_bands:
            yield [
                (
                    index,
                    Place(
                        round=config.round,
                        position=position,
                        concurrency=concurrency,
                        requests=requests,
                        first_prompt=(config.round * 2 + position // arms) * a_half + before,
                        prompt_band=prompt_band,
                        rate_per_minute=rate_per_minute,
                    ),
                )
                for position, index in enumerate([*forth, *reversed(forth)])
            ]


def _loads(config: ProbeConfig) -> Iterator[tuple[int, int, int]]:
    """Yield (concurrency, rate a minute, requests): the closed loops first, whose rate is 0."""
    for concurrency in config.concurrencies:
        yield concurrency, 0, concurrency * config.requests_per_slot
    for rate_per_minute in config.rates_per_minute:
        yield 1, rate_per_minute, config.open_loop_requests


def _same_load(done: Driven, *, first: metrics.Outcome) -> Driven:
    """Return a block as it is, or as unusable when the engine restarted between the warm-up and its end."""
    if not isinstance(first, metrics.Reading) or not isinstance(done.after, metrics.Reading):
        return done
    if not counters.was_reset(first, done.after):
        return done
    changed = done.measurement.model_copy(update={"outcome": BlockOutcome.ARM_CHANGED})
    return Driven(measurement=changed, message="the engine restarted since its warm-up", texts={}, after=done.after)


def _said(driven: Sequence[Driven]) -> str:
    """Return why blocks are unusable, in few words: the first of them, and how many."""
    unusable = [done for done in driven if done.measurement.outcome is not BlockOutcome.OK]
    if not unusable:
        return ""
    first = unusable[0]
    return (
        f"{len(unusable)} of {len(driven)} blocks are unusable; the first, {first.measurement.arm} at concurrency "
        f"{first.measurement.concurrency}: {first.measurement.outcome}: {first.message}"
    )[:1024]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """The part of the whole that one block is."""

    start: float
    width: float


class _BlockProgress:
    """Turns answers of a block into the share of the whole round."""

    def __init__(self, listener: Listener, *, number: int, blocks: int, place: Place, arm: str) -> None:
        width = (1.0 - _WARMUP_SHARE) / blocks
        self._span = _Span(start=_WARMUP_SHARE + number * width, width=width)
        self._listener = listener
        self._requests = place.requests
        load = (
            f"{place.rate_per_minute} requests a minute"
            if place.rate_per_minute
            else f"concurrency {place.concurrency}"
        )
        self._message = f"block {number + 1} of {blocks}: {arm} at {load}"
        self.answered(0)

    def answered(self, count: int) -> None:
        """Note that so many requests of the block have ended."""
        self._listener.at(self._span.start + self._span.width * count / self._requests, self._message)
