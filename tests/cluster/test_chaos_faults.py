"""Both rooms behind an API server that fails: whatever the faults, the end is that of an undisturbed life."""

import asyncio

import pytest

import faultproxy
import harness
from faultproxy import Fault, Watches
from life import Life, undisturbed
from paceline.planning import kinds

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SETTINGS = {
    "PACELINE_WATCH_SILENCE": "10s",
    # Losing the lease ends the operator, rightly; here that would only tell that the machine is slow.
    "PACELINE_LEASE_DURATION": "30s",
    "PACELINE_LEASE_RENEW_DEADLINE": "24s",
}


CHILDREN = len(kinds.OURS) + len(kinds.CHILDREN)


@pytest.fixture
def settings(settings):
    """Add what this module's operator needs."""
    return {**settings, **SETTINGS}


@pytest.fixture
async def life(api, namespace):
    """A life in the test's namespace, its pods played."""
    life = Life(api, namespace)
    async with life.played():
        yield life


@pytest.fixture(scope="module")
def wanted():
    """Holds the end of an undisturbed life once it is known."""
    return {}


@pytest.fixture
async def end(control_plane, api, tmp_path, wanted):
    """The end of an undisturbed life."""
    if not wanted:
        async with undisturbed(api) as life, life.played():
            confined = {"PACELINE_NAMESPACE": life.namespace, "PACELINE_NAMESPACES": life.namespace}
            with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "undisturbed", **confined) as operator:
                await life.begin()
                await life.ended(operator=operator)
                wanted.update(await life.end_state())
    return wanted


@pytest.fixture
async def proxied(control_plane, tmp_path):
    """The proxy, and the kubeconfig that leads through it."""
    async with faultproxy.fault_proxy(control_plane.kubeconfig, folder=tmp_path) as opened:
        yield opened


MIXED = [fault for fault in Fault if fault is not Fault.HUNG]
ALONE = [pytest.mark.chaos, pytest.mark.timeout(1500)]


@pytest.mark.parametrize(
    "faults",
    [pytest.param(MIXED, id="by-turns"), *(pytest.param([one], id=one.name, marks=ALONE) for one in Fault)],
)
async def test_every_call_fails_once_and_the_end_is_the_same(proxied, life, end, settings, tmp_path, faults):
    """Lists, watches, writes and renewals: each call meets a fault at its first try, and again after each success."""
    proxy, kubeconfig = proxied
    proxy.choose = faultproxy.EveryCall(*faults)
    # What a hung call costs; the lease's renewals have half of their deadline.
    patience = {"PACELINE_API_TIMEOUT": "2s"} if Fault.HUNG in faults else {}
    with harness.run_operator(kubeconfig, log=tmp_path / "log", **settings, **patience) as operator:
        await life.begin()
        # One kind of fault comes several times in a row, so watches wait longer and longer: that adds up to minutes.
        await life.ended(operator=operator, within_s=1200.0 if len(faults) == 1 else 500.0)
        await life.settles(end)
        assert operator.process.poll() is None, operator.tail()
        assert operator.lines("pass_crashed") == []
    assert set(proxy.injected) == set(faults)
    assert {method for method, _ in proxy.paths} >= {"POST", "PATCH", "PUT", "DELETE"}
    assert faultproxy.duplicates(proxy.writes) == []


async def test_watches_cut_all_the_time_lose_nothing(proxied, life, end, settings, tmp_path):
    """A cut watch goes on where it was, or from a new list."""
    proxy, kubeconfig = proxied

    async def cut():
        while True:
            await asyncio.sleep(2.0)
            proxy.cut_watches()

    with harness.run_operator(kubeconfig, log=tmp_path / "log", **settings) as operator:
        cutting = asyncio.create_task(cut())
        await life.begin()
        await life.ended(operator=operator)
        cutting.cancel()
        await life.settles(end)
        assert operator.lines("watch_failed")
        assert operator.lines("pass_crashed") == []
    assert faultproxy.duplicates(proxy.writes) == []


async def test_dead_watches_are_given_up_when_silent_for_too_long(proxied, life, end, settings, tmp_path):
    """Connections that stay open and say nothing; bookmarks would come every minute."""
    proxy, kubeconfig = proxied
    quick = {**settings, "PACELINE_WATCH_SILENCE": "5s"}
    with harness.run_operator(kubeconfig, log=tmp_path / "log", **quick) as operator:
        await life.begin()
        await harness.until(lambda: bool(proxy.writes), within_s=60, saying=operator.tail)
        await proxy.silence_watches()
        await life.ended(operator=operator)
        await life.settles(end)
        assert operator.lines("watch_failed")
    assert faultproxy.duplicates(proxy.writes) == []


@pytest.mark.chaos
async def test_dead_watches_are_given_up_when_a_write_is_missed(proxied, life, end, settings, tmp_path):
    """All of them, long before their silence would tell: pods, never written, are not missed by themselves."""
    proxy, kubeconfig = proxied
    with harness.run_operator(
        kubeconfig, log=tmp_path / "log", **{**settings, "PACELINE_WATCH_SILENCE": "600s"}
    ) as operator:
        await operator.leading()
        await harness.until(lambda: len(operator.lines("cache_listed")) >= CHILDREN, within_s=30)
        await proxy.silence_watches("jobs", "configmaps", "pods")
        await life.begin()
        await life.ended(operator=operator)
        await life.settles(end)
        assert len(operator.lines("watch_given_up")) >= CHILDREN
    assert faultproxy.duplicates(proxy.writes) == []


async def test_objects_gone_while_the_watch_history_expired_come_back(proxied, life, end, settings, tmp_path):
    """410 leads to a new list; what was deleted meanwhile is told to its owner, which makes it again."""
    proxy, kubeconfig = proxied
    patient = {**settings, "PACELINE_WATCH_SILENCE": "600s"}
    with harness.run_operator(kubeconfig, log=tmp_path / "log", **patient) as operator:
        await life.begin()
        await life.ended(operator=operator)
        await life.settles(end)
        silent = await proxy.silence_watches()
        (server,) = await life.api.items(kinds.DEPLOYMENT, life.namespace)
        await life.api.delete(kinds.SERVICE, life.namespace, "served")
        await life.api.delete(kinds.DEPLOYMENT, life.namespace, server["metadata"]["name"])
        assert len(silent) >= CHILDREN
        proxy.watches = Watches.EXPIRED
        # Not cut: after a broken connection everything is listed anew without any 410.
        proxy.end_silent_watches()
        await harness.until(lambda: proxy.expired >= silent, within_s=60, saying=operator.tail)
        proxy.watches = Watches.OPEN
        await life.settles(end)
        (again,) = await life.api.items(kinds.DEPLOYMENT, life.namespace)
        assert again["metadata"]["uid"] != server["metadata"]["uid"]
        assert operator.process.poll() is None
