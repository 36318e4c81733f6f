"""One round over all arms and bands: warm-up, then blocks A B B A (A B C C B A) at every concurrency."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from paceline.api.measurement import BlockOutcome, Measurement, ProbeConfig, ProbeReport
from paceline.engines import counters, metrics
from paceline.podside import clock as clocks
from paceline.probe import transport as transports
from paceline.probe import watch
from paceline.probe.block import Arm, Driven, Place, Workload
from paceline.probe.exchange import Asker
from paceline.probe.prompts import Prompt

_WARMUP_TOKENS: Final = 32
"""Enough decoding steps to compile what decodes at a batch size."""
_WARMUP_SHARE: Final = 0.1
_GATE_TRIES: Final = 3
_GATE_PAUSE_S: Final = 1.0
_SECOND_ARM: Final = 2


class Listener(Protocol):
    """Hears how a round goes on."""

    def at(self, share: float, message: str) -> None:
        """Hear that ``share`` (0 to 1) is done, and what runs now."""
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
        )
        for arm in config.arms
    ]


async def run(
    config: ProbeConfig, prompts: Sequence[Prompt], arms: Sequence[Arm], *, listener: Listener
) -> ProbeReport:
    """Return the report of one round.

    Raises:
        NotAnsweringError: when an arm completes no request at all.
    """
    workload = Workload(model=config.model, prompts=prompts, max_tokens=config.max_tokens)
    first_readings = [await _warm_up(arm, workload, config, listener) for arm in arms]
    places = list(_places(config, arms=len(arms)))
    driven: list[tuple[int, Place, Driven]] = []
    for number, (index, place) in enumerate(places):
        progress = _BlockProgress(listener, number=number, blocks=len(places), place=place, arm=arms[index].arm.arm)
        done = await arms[index].drive(workload, place, on_answer=progress.answered)
        done = _same_load(done, first_readings[index])
        listener.measured(done.measurement, done.message)
        driven.append((index, place, done))
    return ProbeReport(
        measurements=[done.measurement for _, _, done in driven],
        greedy_agreement_percent=_agreement_percent(driven),
        error=_said(driven),
    )


async def _warm_up(arm: Arm, workload: Workload, config: ProbeConfig, listener: Listener) -> metrics.Outcome:
    """Return an arm's counters after it has compiled what it needs at every batch size.

    This is also the gate of real completions: an engine may answer /health and die on its first token.
    """
    listener.at(0.0, f"warming up {arm.arm.arm}")
    await _gate(arm, workload)
    rest = max(0, config.warmup_requests - 1)
    for concurrency in config.concurrencies:
        await arm.answer(workload, range(max(concurrency, rest)), max_tokens=min(_WARMUP_TOKENS, workload.max_tokens))
    return await arm.scrape()


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


def _places(config: ProbeConfig, *, arms: int) -> Iterator[tuple[int, Place]]:
    """Yield (arm, place) in the order of driving.

    Both halves of a round, and every round, go on where the last one stopped in the prompts: pairs share their prompts,
    and over rounds many are seen. A prompt that comes again finds a warm cache on every arm alike.
    """
    half_requests = [concurrency * config.requests_per_slot for concurrency in config.concurrencies]
    forth = list(range(arms))
    for band, concurrency in enumerate(config.concurrencies):
        for position, index in enumerate([*forth, *reversed(forth)]):
            half = position // arms
            passed = (config.round * 2 + half) * sum(half_requests) + sum(half_requests[:band])
            yield (
                index,
                Place(
                    round=config.round,
                    position=position,
                    concurrency=concurrency,
                    requests=half_requests[band],
                    first_prompt=passed,
                ),
            )


def _same_load(done: Driven, first: metrics.Outcome) -> Driven:
    """Return a block as it is, or as unusable when the engine restarted between the warm-up and its end."""
    if not isinstance(first, metrics.Reading) or not isinstance(done.after, metrics.Reading):
        return done
    if not counters.was_reset(first, done.after):
        return done
    changed = done.measurement.model_copy(update={"outcome": BlockOutcome.ARM_CHANGED})
    return Driven(measurement=changed, message="the engine restarted since its warm-up", texts={}, after=done.after)


def _agreement_percent(driven: Sequence[tuple[int, Place, Driven]]) -> float | None:
    """Return how often the first two arms gave the same answer to the same prompt at the same concurrency."""
    answers: list[Mapping[tuple[int, int, int], str]] = [
        {
            (place.concurrency, place.position, prompt): text
            for index, place, done in driven
            if index == wanted and place.position == wanted
            for prompt, text in done.texts.items()
        }
        for wanted in range(_SECOND_ARM)
    ]
    ours, theirs = ({(key[0], key[2]): text for key, text in one.items()} for one in answers)
    both = ours.keys() & theirs.keys()
    return round(100.0 * sum(ours[key] == theirs[key] for key in both) / len(both), 1) if both else None


def _said(driven: Sequence[tuple[int, Place, Driven]]) -> str:
    """Return why blocks are unusable, in few words: the first of them, and how many."""
    unusable = [done for _, _, done in driven if done.measurement.outcome is not BlockOutcome.OK]
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
        self._message = f"block {number + 1} of {blocks}: {arm} at concurrency {place.concurrency}"
        self.answered(0)

    def answered(self, count: int) -> None:
        """Note that so many requests of the block have ended."""
        self._listener.at(self._span.start + self._span.width * count / self._requests, self._message)
