"""A block: what makes it usable, and each reason for which it is not."""

from contextlib import aclosing

import pytest

from paceline.api.measurement import BlockOutcome
from paceline.probe import block, watch, workload
from paceline.probe import round as rounds
from probe import fakes
from probe.engine import Engine, Misbehaviour

IMPATIENT = watch.Patience(idle_s=0.05, pause_s=0.001)


async def drive(engine: Engine, *, concurrency: int = 4, requests: int = 16, stall_s: int = 5) -> block.Driven:
    """Return a driven block."""
    config = fakes.config("a", stall_timeout_s=stall_s)
    arm = rounds.arms_of(config, fakes.FakeTransport(a=engine), fakes.TickClock(), IMPATIENT)[0]
    work = workload.Workload(model="m", prompts=fakes.some_prompts(), max_tokens=12)
    place = workload.Place(round=2, position=1, concurrency=concurrency, requests=requests, first_prompt=5)
    return await arm.drive(work, place, on_answer=lambda _: None)


async def test_good_block_is_measured_whole() -> None:
    """Every field that the judge needs."""
    engine = Engine(tokens_per_chunk=3)
    found = (await drive(engine)).measurement
    assert (found.outcome, found.arm, found.round, found.position, found.concurrency) == (BlockOutcome.OK, "a", 2, 1, 4)
    assert (found.requests, found.errors, found.started_at) == (16, 0, "2026-01-01T00:00:00Z")
    assert (found.drafts, found.draft_tokens, found.accepted_tokens) == (64, 128, 128)
    assert 0 < found.output_tokens < 16 * 12
    assert found.window_ms > 0
    assert found.ttft_ms is not None
    assert found.itl_ms is not None
    assert found.ttft_p99_ms is not None
    assert found.itl_p99_ms is not None


@pytest.mark.parametrize(("cached", "hit_rate"), [(None, None), (0, 0.0), (2, 0.5)])
async def test_prompts_and_what_the_cache_held_of_them_are_counted(cached: int | None, hit_rate: float | None) -> None:
    """Arms whose prompts or caches differ are not alike; an engine that does not count its cache has no hit rate."""
    found = (await drive(Engine(prompt_tokens=4, cached_tokens=cached))).measurement
    assert (found.prompt_tokens, found.prompt_tokens_a_request) == (16 * 4, 4.0)
    assert found.cache_hit_rate == hit_rate


async def test_concurrency_is_held_and_never_exceeded() -> None:
    """A closed loop of four."""
    engine = Engine()
    await drive(engine)
    assert (engine.most_running, engine.requests) == (4, 16)


@pytest.mark.parametrize(
    ("wrong", "outcome"),
    [
        (Misbehaviour.STATUS_500, BlockOutcome.REQUEST_ERRORS),
        (Misbehaviour.DROP, BlockOutcome.REQUEST_ERRORS),
        (Misbehaviour.ERROR_IN_STREAM, BlockOutcome.REQUEST_ERRORS),
        (Misbehaviour.NO_USAGE, BlockOutcome.REQUEST_ERRORS),
        (Misbehaviour.NO_TOKENS, BlockOutcome.NO_TOKENS),
        (Misbehaviour.STALL, BlockOutcome.STALLED),
    ],
)
async def test_one_bad_request_in_a_hundred_spoils_the_block(wrong: Misbehaviour, outcome: BlockOutcome) -> None:
    """One per cent of errors is a fault to report, not noise to average."""
    engine = Engine(misbehave={50: wrong}, answer_tokens=2)
    driven = await drive(engine, requests=100, stall_s=1)
    assert driven.measurement.outcome is outcome
    assert driven.measurement.errors == 1
    assert driven.measurement.stalls == (wrong is Misbehaviour.STALL)
    assert "of" in driven.message
    assert engine.running == 0


@pytest.mark.parametrize("body", ["", "<html>502</html>", "vllm:generation_tokens_total NaN\n"], ids=str)
async def test_unreadable_metrics_spoil_the_block(body: str) -> None:
    """Without the server's counters nobody knows whether the block was ours alone."""
    driven = await drive(Engine(broken_metrics=body))
    assert driven.measurement.outcome is BlockOutcome.SCRAPE_ERROR


class Busy(Engine):
    """A server that also works for others."""

    async def events(self, document, number):
        """Answer, and more."""
        self.foreign_tokens += 5
        async with aclosing(super().events(document, number)) as events:
            async for event in events:
                yield event


class Restarting(Engine):
    """A server that is another process after its tenth request."""

    async def events(self, document, number):
        """Answer, and more."""
        if number == 10:
            self.restart()
        async with aclosing(super().events(document, number)) as events:
            async for event in events:
                yield event


async def test_tokens_for_others_contaminate_the_block() -> None:
    """Throughput shared with users says nothing about the server."""
    driven = await drive(Busy())
    assert driven.measurement.outcome is BlockOutcome.CONTAMINATED


async def test_busy_server_is_not_driven_at_all() -> None:
    """Users come first: no request of ours is added."""

    class Serving(Engine):
        def metrics(self) -> str:
            self.foreign_tokens += 7
            return super().metrics()

    engine = Serving(stuck_running=2)
    driven = await drive(engine)
    assert (driven.measurement.outcome, engine.requests) == (BlockOutcome.CONTAMINATED, 0)


async def test_stale_gauge_of_an_idle_server_is_no_traffic() -> None:
    """After an aborted request the gauge stays up until the next step; no tokens move meanwhile."""
    driven = await drive(Engine(stuck_running=1))
    assert driven.measurement.outcome is BlockOutcome.OK


async def test_restart_in_mid_block_changes_the_arm() -> None:
    """The block's counters belong to two processes."""
    driven = await drive(Restarting())
    assert driven.measurement.outcome is BlockOutcome.ARM_CHANGED


async def test_one_request_a_slot_is_too_few() -> None:
    """All ramp and tail."""
    driven = await drive(Engine(), concurrency=8, requests=8)
    assert driven.measurement.outcome is BlockOutcome.TOO_FEW
