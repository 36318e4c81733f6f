"""Users come first on a server that the probe shares with them."""

import asyncio
from collections.abc import Callable

import pytest

from paceline.api.measurement import BlockOutcome, ProbeArm, ProbeReport
from paceline.probe import block, manners, watch
from paceline.probe import round as rounds
from paceline.probe.workload import Place, Workload
from probe import fakes
from probe.engine import Engine

PATIENCE = watch.Patience(idle_s=0.2, pause_s=0.01)


class Shared(Engine):
    """An engine that users use too: each scrape tells of one more of them, who waited ``users_wait_s``."""

    users_wait_s = 0.0
    users = 0
    waited_s = 0.0
    own_wait_s = 0.0

    def metrics(self) -> str:
        """Return the scrape, with a histogram of everybody's times to first token."""
        if self.users_wait_s:
            self.users += 1
            self.waited_s += self.users_wait_s
        label = f'{{engine="0",model_name="{self.model}"}}'
        name = "vllm:time_to_first_token_seconds"
        seconds, count = self.waited_s + self.finished * self.own_wait_s, self.finished + self.users
        return f"{super().metrics()}{name}_sum{label} {seconds}\n{name}_count{label} {float(count)}\n"


def arm(engine: Engine, *, serves_users: bool = True, limit_ms: int | None = 100) -> block.Arm:
    """Return the arm of a server with users."""
    shared = ProbeArm(arm="a", url="http://a", pod_uid="u", node="n", serves_users=serves_users)
    config = fakes.config("a", arms=[shared], users_ttft_limit_ms=limit_ms)
    return rounds.arms_of(config, fakes.FakeTransport(a=engine), fakes.TickClock(), PATIENCE)[0]


async def drive(
    driven: block.Arm, *, requests: int = 40, on_pause: Callable[[bool], None] = lambda _: None
) -> block.Driven:
    """Return a driven block of four slots."""
    workload = Workload(model="m", prompts=fakes.some_prompts(), max_tokens=12)
    place = Place(round=1, position=0, concurrency=4, requests=requests, first_prompt=0)
    return await driven.drive(workload, place, on_answer=lambda _: None, on_pause=on_pause)


async def test_block_makes_way_when_users_wait_too_long_in_its_middle() -> None:
    """No further request is sent; what was in flight ends, and the block says why it is none."""
    engine = Shared(chunk_s=0.005)
    driven = arm(engine)

    async def users_come() -> None:
        while engine.requests < 8:  # noqa: ASYNC110 - the engine is a plain value that tells nobody
            await asyncio.sleep(0.005)
        engine.users_wait_s = 0.5

    _, done = await asyncio.gather(users_come(), drive(driven))
    assert done.measurement.outcome is BlockOutcome.YIELDED
    assert "the limit is 100 ms" in done.message
    assert 8 <= engine.requests < 40
    assert engine.running == 0


async def test_no_block_begins_while_users_wait_too_long() -> None:
    """Not one request more is sent to a server that is too slow for its users already."""
    engine = Shared()
    engine.users_wait_s = 0.5
    told: list[bool] = []
    done = await drive(arm(engine), on_pause=told.append)
    assert done.measurement.outcome is BlockOutcome.YIELDED
    assert engine.requests == 0
    assert told == [True, False]


async def test_block_begins_when_users_wait_less_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause ends with its cause, and both are told once."""
    monkeypatch.setattr(manners, "_WINDOW_S", 0.02)
    engine = Shared()
    engine.users_wait_s = 0.5
    driven = arm(engine)

    async def users_are_fine_again() -> None:
        await asyncio.sleep(0.05)
        engine.users_wait_s = 0.0

    told: list[bool] = []
    _, done = await asyncio.gather(users_are_fine_again(), drive(driven, on_pause=told.append))
    assert done.measurement.outcome is BlockOutcome.OK
    assert told == [True, False]


async def test_own_requests_are_not_taken_for_users() -> None:
    """A slow server with no users is measured, however long the probe itself waits there."""
    engine = Shared(chunk_s=0.01)
    engine.own_wait_s = 0.5
    assert (await drive(arm(engine, limit_ms=1))).measurement.outcome is BlockOutcome.OK


async def test_server_without_users_or_limit_is_driven_as_ever() -> None:
    """A measuring copy has nobody to make way for, and without a limit nobody is asked."""
    told: list[bool] = []
    for driven in (arm(Shared(), serves_users=False), arm(Shared(), limit_ms=None)):
        assert (await drive(driven, on_pause=told.append)).measurement.outcome is BlockOutcome.OK
    assert told == []


async def test_warm_up_of_a_shared_server_stays_within_its_bands() -> None:
    """A pod that may be given one request is never given four, not even to warm it up."""
    engine = Shared()
    shared = ProbeArm(arm="a", url="http://a", pod_uid="u", node="n", serves_users=True)
    config = fakes.config("a", arms=[shared], concurrencies=[1], warmup_requests=4)
    arms = rounds.arms_of(config, fakes.FakeTransport(a=engine), fakes.TickClock(), PATIENCE)
    told = await rounds.run(config, fakes.some_prompts(), arms, listener=fakes.Heard())
    assert isinstance(told, ProbeReport)
    assert engine.most_running == 1
