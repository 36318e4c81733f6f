"""The HTTP endpoint, and what counts as stuck."""

import aiohttp
import pytest

from controller import builders, fakeserver, test_core
from paceline.controller import health, metrics


@pytest.fixture
async def endpoint():
    """Return the state behind the endpoint, and how to ask it."""
    state = {"complaint": None, "ready": False}
    measured = metrics.Metrics()
    measured.leader.set(1)
    server = health.HealthServer(
        complaint=lambda: state["complaint"], is_ready=lambda: state["ready"], measured=measured
    )
    port = await server.start("127.0.0.1", 0)

    async def ask(path):
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, await answer.text()

    yield state, ask
    await server.stop()


async def test_healthz_tells_why_the_process_should_be_restarted(endpoint):
    """The kubelet's log then says it as well."""
    state, ask = endpoint
    assert await ask("/healthz") == (200, "ok")
    state["complaint"] = "passes are stuck"
    assert await ask("/healthz") == (503, "passes are stuck")


async def test_readyz_follows_the_sync(endpoint):
    """Nothing is decided on half a cache."""
    state, ask = endpoint
    assert (await ask("/readyz"))[0] == 503
    state["ready"] = True
    assert (await ask("/readyz"))[0] == 200


async def test_metrics_are_prometheus_text(endpoint):
    """Only our own registry."""
    _, ask = endpoint
    assert "paceline_leader 1.0" in (await ask("/metrics"))[1]


async def test_leader_whose_keys_wait_too_long_is_stuck(monkeypatch):
    """A follower's keys wait for ever, and that is right."""
    one = test_core.new_core(fakeserver.FakeServer())
    async with test_core.running(one):
        await builders.eventually(lambda: one.is_synced and one.lease.is_held)
        assert one.complaint() is None
        monkeypatch.setattr(one.work, "longest_wait", lambda: 1000.0)
        assert "passes are stuck" in one.complaint()
        monkeypatch.setattr(one.lease, "_held_until", None)
        assert one.complaint() is None
