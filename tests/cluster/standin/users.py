"""Users: real requests through the front Service's address, at a steady concurrency, each of them accounted for."""

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp


@dataclass(kw_only=True)
class Tally:
    """What became of the requests."""

    asked: int = 0
    answered: int = 0
    lost: list[str] = field(default_factory=list)
    """Each request that got no whole answer: when, and what its user saw."""
    ttft_s: list[float] = field(default_factory=list)

    async def more(self, count: int, *, within_s: float = 120.0) -> None:
        """Wait until so many more requests were answered."""
        wanted = self.answered + count
        async with asyncio.timeout(within_s):
            while self.answered < wanted:
                await asyncio.sleep(0.1)

    @property
    def all_accounted_for(self) -> bool:
        """Whether every request was either answered or is known to be lost."""
        return self.asked == self.answered + len(self.lost)


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Who asks what."""

    concurrency: int = 4
    max_tokens: int = 32
    pause_s: float = 0.0
    """Between one user's answer and next question."""
    questions: int | None = None
    """How many each user asks; None: until the end."""
    reuse: bool = False
    """Whether a user keeps the connection, as clients with a pool do; a new one is balanced anew."""


@contextlib.asynccontextmanager
async def using(url: str, crowd: Crowd) -> AsyncIterator[Tally]:
    """Let users ask ``url`` for the length of an ``async with`` block; every request that was sent is waited for."""
    tally, stop = Tally(), asyncio.Event()
    connector = aiohttp.TCPConnector(limit=0, force_close=not crowd.reuse)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
        users = [asyncio.create_task(_use(session, url, crowd, tally, stop, at)) for at in range(crowd.concurrency)]
        try:
            yield tally
        finally:
            stop.set()
            await asyncio.gather(*users)


async def _use(session, url, crowd, tally, stop, at):
    began = time.monotonic()
    for number in itertools.count() if crowd.questions is None else range(crowd.questions):
        if stop.is_set():
            return
        tally.asked += 1
        try:
            tally.ttft_s.append(await _ask(session, url, crowd, f"question {at} {number}"))
            tally.answered += 1
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            tally.lost.append(f"{time.monotonic() - began:.1f} s: {type(error).__name__}: {error}")
            await asyncio.sleep(0.2)
        await asyncio.sleep(crowd.pause_s)


async def _ask(session, url, crowd, prompt):
    """Return the seconds to the first words of a whole answer."""
    asked = {"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": crowd.max_tokens}
    asked["user"] = "crowd"
    began, first, words = time.monotonic(), None, 0
    async with session.post(f"{url}/v1/chat/completions", json={**asked, "stream": True}) as response:
        response.raise_for_status()
        async for line in response.content:
            if line.startswith(b"data: {"):
                first = first or time.monotonic()
                words += len(json.loads(line[6:])["choices"][0]["delta"].get("content", "").split())
            if line.startswith(b"data: [DONE]"):
                if words != crowd.max_tokens:
                    raise ValueError(f"the answer has {words} of {crowd.max_tokens} words")
                return first - began
    raise ValueError(f"the stream ended after {words} words")
