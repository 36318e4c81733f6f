"""What a server's own counters say around a block: was it idle, was it ours alone, is it still the same process."""

import asyncio
from dataclasses import dataclass
from typing import Final

from paceline.api.measurement import BlockOutcome
from paceline.engines import counters, metrics
from paceline.podside import clock as clocks
from paceline.probe import transport as transports

_SCRAPES: Final = 3
"""Tries for one reading."""
_FOREIGN_SHARE: Final = 0.01
_FOREIGN_TOKENS: Final = 16
"""Foreign tokens that are let pass, whichever is more: counting differs by a stop token a request between engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a server's counters are waited for."""

    idle_s: float = 30.0
    """Longest wait for the server to have nothing to do."""
    pause_s: float = 0.5


class Watcher:
    """Reads one server's metrics."""

    def __init__(
        self, transport: transports.Transport, clock: clocks.Clock, *, url: str, model: str, patience: Patience
    ) -> None:
        """Read the metrics of ``model`` at ``url``."""
        self._transport = transport
        self._clock = clock
        self._url = url.rstrip("/") + "/metrics"
        self._model = model
        self.patience = patience

    async def scrape(self) -> metrics.Outcome:
        """Return a reading; a failure is tried again, the last one is returned."""
        outcome = await self._scrape_once()
        for _ in range(_SCRAPES - 1):
            if isinstance(outcome, metrics.Reading):
                break
            await asyncio.sleep(self.patience.pause_s)
            outcome = await self._scrape_once()
        return outcome

    async def wait_until_idle(self) -> metrics.Outcome | None:
        """Return a reading of the idle server; None when others keep it busy.

        A gauge may stay up after an aborted request, as engines publish it with their next step only. So a server that
        generates nothing between two looks is idle too.
        """
        deadline_s = self._clock.monotonic() + self.patience.idle_s
        outcome = await self.scrape()
        while isinstance(outcome, metrics.Reading) and _in_flight(outcome):
            await asyncio.sleep(self.patience.pause_s)
            later = await self.scrape()
            if isinstance(later, metrics.Reading) and _is_quiet(outcome, later):
                return later
            if self._clock.monotonic() >= deadline_s:
                return None
            outcome = later
        return outcome

    async def _scrape_once(self) -> metrics.Outcome:
        try:
            return metrics.read(await self._transport.fetch(self._url), self._model)
        except transports.TransportError as error:
            return metrics.Unreadable(reason=metrics.UnreadableReason.EMPTY, message=str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The server's side of a block."""

    outcome: BlockOutcome
    message: str = ""
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    cache_hit_rate: float | None = None
    """Share of prompts found in the prefix cache: engines count tokens or blocks, and the share is the same."""


def between(before: metrics.Outcome, after: metrics.Outcome, *, tokens: int, requests: int) -> Seen:
    """Return what the server counted during a block in which we got ``tokens`` from ``requests`` of our own."""
    for outcome in (before, after):
        if isinstance(outcome, metrics.Unreadable):
            return Seen(outcome=BlockOutcome.SCRAPE_ERROR, message=f"/metrics: {outcome.message}")
    if not isinstance(before, metrics.Reading) or not isinstance(after, metrics.Reading):
        raise TypeError("a scrape is a reading or says why not")
    grown = counters.increase([before, after])
    if grown.resets:
        return Seen(outcome=BlockOutcome.ARM_CHANGED, message="the engine restarted in mid-block")
    foreign = (grown.generation_tokens or 0) - tokens
    if foreign > max(_FOREIGN_TOKENS, _FOREIGN_SHARE * tokens) or (grown.requests_finished or 0) > requests:
        return Seen(
            outcome=BlockOutcome.CONTAMINATED,
            message=f"the server generated {foreign} tokens for others in mid-block",
        )
    return Seen(
        outcome=BlockOutcome.OK,
        drafts=grown.drafts or 0,
        draft_tokens=grown.draft_tokens or 0,
        accepted_tokens=grown.accepted_tokens or 0,
        cache_hit_rate=_hit_rate(grown),
    )


def _hit_rate(grown: counters.Increase) -> float | None:
    if grown.prefix_cache_hits is None or not grown.prefix_cache_queries:
        return None
    return min(1.0, grown.prefix_cache_hits / grown.prefix_cache_queries)


def _in_flight(reading: metrics.Reading) -> bool:
    return bool((reading.requests_running or 0) + (reading.requests_waiting or 0))


def _is_quiet(earlier: metrics.Reading, later: metrics.Reading) -> bool:
    if not _in_flight(later):
        return True
    return earlier.generation_tokens == later.generation_tokens and earlier.prompt_tokens == later.prompt_tokens
