"""A transport without a network, and a clock that moves with every look."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from paceline.api.measurement import Measurement, ProbeArm, ProbeConfig
from paceline.probe import prompts, transport
from probe.engine import Engine, Misbehaviour


class TickClock:
    """Each reading is a millisecond later, so that every event has its own time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        """Return the next millisecond."""
        self.now_s += 0.001
        return self.now_s

    def wall(self) -> float:
        """Return New Year 2026."""
        return 1_767_225_600.0


class FakeTransport:
    """Reaches engines by the host of the URL."""

    def __init__(self, **engines: Engine) -> None:
        self.engines = engines
        self.asked: list[tuple[str, str]] = []
        """(host, prompt) of every request in order."""

    async def stream(self, url: str, document: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Yield the engine's events, cut at odd places as a network does."""
        host = url.split("/")[2]
        engine = self.engines[host]
        number, engine.requests = engine.requests, engine.requests + 1
        self.asked.append((host, document["messages"][-1]["content"]))
        if engine.misbehave.get(number) is Misbehaviour.STATUS_500:
            raise transport.RefusedError("status 500: Internal Server Error")
        async with aclosing(engine.events(document, number)) as events:
            async for event in events:
                yield event[:7]
                yield event[7:]

    async def fetch(self, url: str) -> str:
        """Return the engine's metrics."""
        return self.engines[url.split("/")[2]].metrics()


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.shares: list[float] = []
        self.blocks: list[tuple[Measurement, str]] = []
        self.pauses: list[bool] = []

    def at(self, share: float, message: str) -> None:
        """Keep the share."""
        assert message
        self.shares.append(share)

    def paused(self, arm: str, *, is_on: bool) -> None:
        """Keep a pause, or its end."""
        assert arm
        self.pauses.append(is_on)

    def measured(self, measurement: Measurement, message: str) -> None:
        """Keep the block."""
        self.blocks.append((measurement, message))


def prompt(text: str) -> prompts.Prompt:
    """Return a prompt of one turn."""
    return (prompts.Message(role="user", content=text),)


def some_prompts(count: int = 7) -> tuple[prompts.Prompt, ...]:
    """Return distinct prompts."""
    return tuple(prompt(f"p{number}") for number in range(count))


def config(*hosts: str, **more: Any) -> ProbeConfig:
    """Return a round over ``hosts`` at concurrency 1 and 4."""
    fields: dict[str, Any] = {
        "arms": [ProbeArm(arm=host, url=f"http://{host}", pod_uid=f"uid-{host}", node="n") for host in hosts],
        "model": "m",
        "prompts_path": "/unused",
        "concurrencies": [1, 4],
        "requests_per_slot": 4,
        "max_tokens": 12,
        "round": 0,
        "warmup_requests": 2,
    }
    return ProbeConfig(**{**fields, **more})
