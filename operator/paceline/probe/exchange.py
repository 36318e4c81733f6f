"""One request and its answer, as a trace of when tokens arrived."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from paceline.engines import metrics
from paceline.podside import clock as clocks
from paceline.probe import sse
from paceline.probe import transport as transports

_SLACK: Final = 0.05
"""Share of the patience with a silent stream by which it may end early."""


class FaultKind(StrEnum):
    """How a request can end other than with an answer."""

    REFUSED = "Refused"  # an error status, or an error inside the stream
    LOST = "Lost"  # no connection, or it broke before the end
    STALLED = "Stalled"  # silent for too long
    NO_TOKENS = "NoTokens"  # a complete answer of nothing
    MALFORMED = "Malformed"  # not a chat completion stream, or one without usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What went wrong."""

    kind: FaultKind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A request from start to end, on the monotonic clock."""

    prompt: int
    """Which prompt it was."""
    started_s: float
    ended_s: float
    marks: tuple[tuple[float, int], ...] = ()
    """(time, tokens generated so far) for each chunk that brought tokens."""
    text: str = ""
    prompt_tokens: int | None = None
    """Length of the prompt as the server counts it; None where it does not tell."""
    fault: Fault | None = None

    @property
    def tokens(self) -> int:
        """Tokens of the whole answer."""
        return self.marks[-1][1] if self.marks else 0

    @property
    def first_token_s(self) -> float | None:
        """When the first tokens arrived."""
        return self.marks[0][0] if self.marks else None


class Asker:
    """Asks one server."""

    def __init__(self, transport: transports.Transport, clock: clocks.Clock, *, url: str, stall_s: float) -> None:
        """Ask the server at ``url``; a stream that is silent for ``stall_s`` has stalled."""
        self._transport = transport
        self._clock = clock
        self._url = url.rstrip("/") + "/v1/chat/completions"
        self._stall_s = stall_s
        self.waited = metrics.Spent(seconds=0.0, count=0)
        """Times to first token of all requests so far, added up as a server's histogram does it."""

    async def ask(self, document: Mapping[str, Any], *, prompt: int, due_s: float | None = None) -> Trace:
        """Return the trace of one request; whatever goes wrong is in it.

        Args:
            document: the body of the request.
            prompt: its number.
            due_s: when it had to start, where that is not now: what it waited before it could is its latency too.
        """
        answer = _Answer(self._clock.monotonic() if due_s is None else due_s)
        fault = None
        try:
            await self._listen(document, answer)
        except transports.RefusedError as error:
            fault = Fault(kind=FaultKind.REFUSED, message=str(error))
        except sse.ReportedError as error:
            fault = Fault(kind=FaultKind.REFUSED, message=f"error inside the stream: {error}")
        except transports.TransportError as error:
            fault = Fault(kind=FaultKind.LOST, message=str(error))
        except sse.MalformedError as error:
            fault = Fault(kind=FaultKind.MALFORMED, message=str(error))
        except TimeoutError:
            fault = Fault(kind=FaultKind.STALLED, message=f"silent for {self._stall_s:.0f} s")
        return answer.trace(prompt=prompt, ended_s=self._clock.monotonic(), fault=fault)

    async def _listen(self, document: Mapping[str, Any], answer: "_Answer") -> None:
        buffer, sent_s, loop = sse.EventBuffer(), self._clock.monotonic(), asyncio.get_running_loop()
        armed_s, stream = loop.time(), aclosing(self._transport.stream(self._url, document))
        async with asyncio.timeout(self._stall_s) as patience, stream as pieces:
            # Read on after the end marker, to the end of the body: only then is the connection used again.
            async for piece in pieces:
                now_s = self._clock.monotonic()
                for data in buffer.feed(piece):
                    was_silent = answer.is_silent
                    answer.hear(sse.parse(data), now_s)
                    if was_silent and not answer.is_silent:
                        waited_s = self.waited.seconds + now_s - sent_s
                        self.waited = metrics.Spent(seconds=waited_s, count=self.waited.count + 1)
                # A timer of its own for every piece would cost more than the rest of what is done with it here.
                if (heard_s := loop.time()) - armed_s > _SLACK * self._stall_s:
                    patience.reschedule(heard_s + self._stall_s)
                    armed_s = heard_s


class _Answer:
    """An answer in the making."""

    def __init__(self, started_s: float) -> None:
        self._started_s = started_s
        self._marks: list[tuple[float, int]] = []
        self._silent: list[float] = []
        """Times of chunks that brought text without saying how many tokens."""
        self._texts: list[str] = []
        self._prompt_tokens: int | None = None
        self._finished = False
        self._done_s: float | None = None

    @property
    def is_silent(self) -> bool:
        """Whether no token has come yet."""
        return not self._marks and not self._silent

    def hear(self, chunk: sse.Chunk, now_s: float) -> None:
        """Note a chunk."""
        if chunk.done:
            self._done_s = now_s
        self._finished = self._finished or chunk.finished
        if chunk.text:
            self._texts.append(chunk.text)
        if chunk.prompt_tokens is not None:
            self._prompt_tokens = chunk.prompt_tokens
        if chunk.completion_tokens is not None:
            if chunk.completion_tokens > (self._marks[-1][1] if self._marks else 0):
                self._marks.append((now_s, chunk.completion_tokens))
        elif chunk.text:
            self._silent.append(now_s)

    def trace(self, *, prompt: int, ended_s: float, fault: Fault | None) -> Trace:
        """Return the finished trace."""
        return Trace(
            prompt=prompt,
            started_s=self._started_s,
            ended_s=ended_s if self._done_s is None else self._done_s,
            marks=tuple(self._spread()),
            text="".join(self._texts),
            prompt_tokens=self._prompt_tokens,
            # What becomes of a connection after the answer's end marker is not the answer's fault.
            fault=(fault if self._done_s is None else None) or self._flaw(),
        )

    def _spread(self) -> list[tuple[float, int]]:
        """Return the marks; a server that tells the total only at the end has it spread over its chunks evenly."""
        if len(self._silent) <= 1 or len(self._marks) != 1:
            return self._marks
        total, pieces = self._marks[0][1], len(self._silent)
        return [(at_s, round(total * (number + 1) / pieces)) for number, at_s in enumerate(self._silent)]

    def _flaw(self) -> Fault | None:
        """Return what a stream that ended without an error still lacks."""
        if not self._finished:
            return Fault(kind=FaultKind.LOST, message="the stream ended before the answer did")
        if self._marks:
            return None
        if self._texts:
            return Fault(
                kind=FaultKind.MALFORMED,
                message="the server streams text without usage; it must honour stream_options.include_usage",
            )
        return Fault(kind=FaultKind.NO_TOKENS, message="the answer is complete and holds no token")
