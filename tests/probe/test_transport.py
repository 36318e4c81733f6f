"""The real transport, against a real server on a real socket."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from paceline.api.measurement import BlockOutcome, ProbeArm, ProbeReport
from paceline.podside.clock import SystemClock
from paceline.probe import round as rounds
from paceline.probe import transport, watch
from probe import fakes
from probe.engine import Engine, Misbehaviour

ASKED = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
IMPATIENT = watch.Patience(idle_s=0.5, pause_s=0.01)


@asynccontextmanager
async def serving(engine: Engine, connections: set[object] | None = None) -> AsyncGenerator[str, None]:
    """Serve ``engine`` over HTTP and yield its URL; note the connections that completions came by."""

    async def chat(request: web.Request) -> web.StreamResponse:
        if connections is not None:
            connections.add(request.transport)
        document = await request.json()
        number, engine.requests = engine.requests, engine.requests + 1
        if engine.misbehave.get(number) is Misbehaviour.STATUS_500:
            return web.Response(status=500, text="boom")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async with aclosing(engine.events(document, number)) as events:
            async for event in events:
                await response.write(event)
        if engine.misbehave.get(number) is Misbehaviour.DROP and request.transport:
            request.transport.abort()
        return response

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(text=engine.metrics())

    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", chat), web.get("/metrics", scrape)])
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def probe(*urls: str, **more: object) -> ProbeReport:
    """Return the report of a round over real sockets."""
    arms = [ProbeArm(arm="ab"[number], url=url, pod_uid="u", node="n") for number, url in enumerate(urls)]
    config = fakes.config("unused", **{"arms": arms, "request_timeout_s": 30, **more})
    async with transport.HttpTransport(request_timeout_s=config.request_timeout_s) as http:
        made = rounds.arms_of(config, http, SystemClock(), IMPATIENT)
        return await rounds.run(config, fakes.some_prompts(), made, listener=fakes.Heard())


async def test_throughput_is_the_servers_own_pace() -> None:
    """A server that gives three tokens every 10 ms to each request, against one that gives one: about three to one."""
    async with (
        serving(Engine(tokens_per_chunk=3, chunk_s=0.01, answer_tokens=36)) as fast,
        serving(Engine(chunk_s=0.01, answer_tokens=36)) as slow,
    ):
        found = await probe(fast, slow, concurrencies=[4], max_tokens=36)
    pace = {arm: [one.tokens_per_second for one in found.measurements if one.arm == arm] for arm in "ab"}
    assert None not in pace["a"] + pace["b"], found.error
    # The pace of a loaded machine varies; its ratio between neighbours much less.
    assert 2.0 < sum(pace["a"]) / sum(pace["b"]) < 4.0
    assert [one.acceptance_length for one in found.measurements] == [3.0, None, None, 3.0]


@pytest.mark.parametrize(
    ("wrong", "outcome"),
    [
        (Misbehaviour.STATUS_500, BlockOutcome.REQUEST_ERRORS),
        (Misbehaviour.DROP, BlockOutcome.REQUEST_ERRORS),
        (Misbehaviour.NO_TOKENS, BlockOutcome.NO_TOKENS),
        (Misbehaviour.STALL, BlockOutcome.STALLED),
    ],
)
async def test_faults_over_the_network_keep_their_kind(wrong: Misbehaviour, outcome: BlockOutcome) -> None:
    """The fifth request of the first block; the mirrored block is fine."""
    async with serving(Engine(misbehave={2 + 5: wrong})) as url:
        found = await probe(url, concurrencies=[1], requests_per_slot=8, stall_timeout_s=1)
    assert [one.outcome for one in found.measurements] == [outcome, BlockOutcome.OK]


async def test_nobody_listening_is_not_answering() -> None:
    """A refused connection at the gate."""
    with pytest.raises(rounds.NotAnsweringError, match="Cannot connect"):
        await probe(f"http://127.0.0.1:{unused_port()}")


async def test_connections_are_used_again() -> None:
    """A new connection a request would cost the arm with shorter answers more."""
    connections: set[object] = set()
    async with serving(Engine(), connections) as url:
        found = await probe(url, concurrencies=[2])
    assert {one.outcome for one in found.measurements} == {BlockOutcome.OK}
    assert len(connections) <= 3


async def test_endless_scrape_is_bounded() -> None:
    """A pod in a tenant's namespace may answer anything, for as long as it likes."""

    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)
            await asyncio.sleep(0)

    app = web.Application()
    app.add_routes([web.get("/metrics", flood)])
    async with TestServer(app) as server, transport.HttpTransport(request_timeout_s=5) as http:
        body = await http.fetch(str(server.make_url("/metrics")))
    assert len(body) < 20_000_000


async def test_connection_is_not_used_after_the_server_may_have_closed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn closes idle connections after five seconds; a request on its way meanwhile is lost without an answer."""
    assert transport._KEEP_ALIVE_S < 5
    monkeypatch.setattr(transport, "_KEEP_ALIVE_S", 0.01)
    connections: set[object] = set()
    async with serving(Engine(), connections) as url, transport.HttpTransport(request_timeout_s=5) as http:
        for _ in range(2):
            async with aclosing(http.stream(f"{url}/v1/chat/completions", ASKED)) as pieces:
                assert [piece async for piece in pieces]
            await asyncio.sleep(0.1)  # ten times the patience, since closing an idle connection tells nobody
    assert len(connections) == 2
