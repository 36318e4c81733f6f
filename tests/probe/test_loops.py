"""Loops: how requests follow each other, and from when they are timed."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest

from paceline.podside.clock import SystemClock
from paceline.probe import loops
from paceline.probe.exchange import Asker
from paceline.probe.workload import Workload
from probe import fakes
from probe.engine import Engine, Misbehaviour

WORK = Workload(model="m", prompts=fakes.some_prompts(), max_tokens=4)


def opened(transport: fakes.FakeTransport) -> loops.OpenLoop:
    """Return an open loop on engine ``a``, on the real clock."""
    clock = SystemClock()
    return loops.OpenLoop(Asker(transport, clock, url="http://a", stall_s=5), WORK, clock=clock)


async def test_same_seed_gives_the_same_times_and_another_does_not() -> None:
    """Arms that share their times can be held against each other."""

    async def gaps(seed: str) -> list[float]:
        loop = opened(fakes.FakeTransport(a=Engine()))
        await loop.run(range(6), per_minute=60_000, seed=seed)
        starts = [trace.started_s for trace in loop.traces]
        return [later - starts[0] for later in starts]

    assert await gaps("one") == pytest.approx(await gaps("one"), abs=1e-9)
    assert await gaps("one") != pytest.approx(await gaps("other"), abs=1e-4)


async def test_times_are_those_of_a_poisson_process() -> None:
    """As many a minute as asked for, and as uneven as independent users are."""
    loop = opened(fakes.FakeTransport(a=Engine(answer_tokens=1)))
    await loop.run(range(400), per_minute=60_000, seed="s")
    starts = [trace.started_s for trace in loop.traces]
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(0.001, rel=0.2)
    assert spread == pytest.approx(mean, rel=0.3)


class Stuck(fakes.FakeTransport):
    """Sends nothing, while holding up the whole probe, for a tenth of a second at its first request."""

    async def stream(self, url: str, document: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Yield the engine's events."""
        if not self.asked:
            until = asyncio.get_running_loop().time() + 0.1
            while asyncio.get_running_loop().time() < until:
                pass
        async with aclosing(super().stream(url, document)) as pieces:
            async for piece in pieces:
                yield piece


async def test_wait_before_a_late_start_is_latency() -> None:
    """A request that was due while the probe could not send is timed from when it was due."""
    loop = opened(Stuck(a=Engine(answer_tokens=1)))
    await loop.run(range(50), per_minute=60_000, seed="s")
    waits = [trace.first_token_s - trace.started_s for trace in loop.traces if trace.first_token_s is not None]
    assert len(waits) == 50
    # Due within the tenth of a second, on average in its middle; sent after it.
    assert sum(waits) > 20 * 0.05


async def test_open_loop_starts_requests_while_earlier_ones_are_in_flight() -> None:
    """That is what open means."""
    engine = Engine(answer_tokens=4, chunk_s=0.02)
    await opened(fakes.FakeTransport(a=engine)).run(range(12), per_minute=60_000, seed="s")
    assert engine.most_running > 4


async def test_open_loop_leaves_a_server_in_trouble_alone() -> None:
    """Its block is lost already."""
    engine = Engine(answer_tokens=1, misbehave={2: Misbehaviour.STATUS_500})
    loop = opened(fakes.FakeTransport(a=engine))
    await loop.run(range(200), per_minute=60_000, seed="s")
    assert engine.requests < 50
    assert [trace.fault is not None for trace in loop.traces].count(True) == 1
