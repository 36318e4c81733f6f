"""Two operators, and a leader that loses its lease in mid-action: never do two of them write."""

import asyncio
import os
import signal

import pytest

import faultproxy
import harness
import killproxy
import life
from faultproxy import Fault
from paceline.planning import kinds

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
QUICK = {
    "PACELINE_LEASE_DURATION": "6s",
    "PACELINE_LEASE_RENEW_DEADLINE": "4s",
    "PACELINE_LEASE_RETRY_PERIOD": "1s",
}


@pytest.fixture
def settings(settings):
    """Add what this module's operators need."""
    return {**settings, **QUICK}


@pytest.fixture
async def one(api, namespace):
    """A life whose pods are played."""
    one = life.Life(api, namespace, watched=[kinds.SPECULATIVE_DEPLOYMENT.kind])
    async with one.played():
        yield one


def renewals(request):
    """Let no renewal through, and everything else."""
    return Fault.UNAVAILABLE if "/leases" in request.path else None


async def test_leader_that_cannot_renew_stops_before_the_other_begins(control_plane, settings, tmp_path, one):
    """Its last write comes before the lease is the other's; the rollout ends well, and nothing is made twice."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    async with (
        faultproxy.fault_proxy(control_plane.kubeconfig, folder=folders[0]) as (cut_off, through_first),
        killproxy.kill_proxy(control_plane.kubeconfig, folder=folders[1]) as (free, through_second),
    ):
        with harness.run_operator(through_first, log=tmp_path / "a.log", **settings) as first:
            await first.leading()
            with harness.run_operator(through_second, log=tmp_path / "b.log", **settings) as second:
                await second.ready()
                await one.make(life.deployment())
                await harness.until(lambda: len(cut_off.writes) >= 3, within_s=60, saying=first.tail)
                assert free.writes == []
                cut_off.choose = renewals
                assert await first.ended() == 3
                written = len(cut_off.writes)
                assert free.writes == []
                await one.ended(operator=second)
    assert len(cut_off.writes) == written
    assert faultproxy.duplicates([*cut_off.writes, *free.writes]) == []
    assert first.lines("lease_lost")
    assert second.lines("lease_acquired")


async def test_leader_that_slept_through_its_lease_writes_nothing_when_it_wakes(control_plane, settings, tmp_path, one):
    """Stopped in the middle of a pass, as by a frozen machine, and woken when another has led for a while."""
    folder = tmp_path / "first"
    folder.mkdir()
    async with killproxy.kill_proxy(control_plane.kubeconfig, folder=folder) as (proxy, proxied):
        with harness.run_operator(proxied, log=tmp_path / "a.log", **settings) as first:
            await first.leading()
            await one.make(life.deployment())
            await harness.until(lambda: len(proxy.writes) >= 3, within_s=60, every_s=0.005, saying=first.tail)
            os.kill(first.pid, signal.SIGSTOP)
            # What it sent before it froze may still be on its way.
            await asyncio.sleep(1.0)
            written = len(proxy.writes)
            with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "b.log", **settings) as second:
                await second.leading()
                await harness.until(lambda: bool(second.lines("pass")), within_s=30, saying=second.tail)
                os.kill(first.pid, signal.SIGCONT)
                assert await first.ended() == 3
                await one.ended(operator=second)
    assert len(proxy.writes) == written
    assert first.lines("lease_lost")
