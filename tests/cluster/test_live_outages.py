"""Users ask all along while serving pods go: moved, evicted, or stopped for a candidate that has no other place.

The engines are stand-ins (``standin/``), everything else is real: probe and inspection pods, EndpointSlices,
kube-proxy, the kubelet's probes and its last seconds of a pod.
"""

import asyncio
import os

import pytest

import lookout
from bedctl import gpus, record
from paceline.planning import kinds
from standin import frontpods, live, served, users

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

BED = os.environ.get("BED") or "default"


async def test_serving_pods_that_go_in_mid_traffic_lose_no_request(cluster, api, place, tmp_path):
    """One is deleted, then its sister evicted: each ends what it was asked, and new requests go to the other."""
    async with (
        live.serving(cluster, api, place, tmp_path) as url,
        users.using(url, users.Crowd(concurrency=3, max_tokens=24)) as tally,
    ):
        first, second = await frontpods.ready(api, place, "standin", count=2)
        await tally.more(20)
        await api.delete(kinds.POD, place, first["metadata"]["name"])
        await gone(api, place, first)
        left = await frontpods.ready(api, place, "standin", count=2)
        assert second["metadata"]["uid"] in {one["metadata"]["uid"] for one in left}
        await frontpods.evict(api, second)
        await gone(api, place, second)
        await tally.more(20)

    assert tally.lost == []
    assert tally.all_accounted_for


async def gone(api, place, pod):
    """Wait until a pod is no more."""
    async with asyncio.timeout(120):
        while await api.get(kinds.POD, place, pod["metadata"]["name"]):
            await asyncio.sleep(0.2)


async def test_only_replica_is_stopped_for_a_loser_and_back_in_the_stated_time(cluster, api, place, tmp_path, one_gpu):
    """One node, one replica: who asks all along goes without once, and no longer than the status said before."""
    del one_gpu
    async with live.serving(cluster, api, place, tmp_path, stop_and_start(place)) as url:
        with lookout.Lookout(url, model="m") as watch:
            await served_to(watch, 3)
            await asyncio.to_thread(watch.users_go)
            await live.ask_for(api, place, served.ngram(5))
            said = await live.reached(api, place, lambda status: "longestDowntime" in (status.get("rollout") or {}))
            assert said["readyReplicas"] == 1
            await live.reached(api, place, live.ended("Recovered"))
            await served_to(watch, 3)
        loser, recovery = (await live.history(api, place))[-2:]

    assert (loser.reason, recovery.guard_of) == ("SlowerThanControl", loser.number)
    (outage,) = watch.outages()
    assert outage.lasted_s <= loser.longest_downtime_s
    assert {one.is_completion for one in outage.refused} == {True, False}
    assert watch.asked[-1].fault == ""


@pytest.fixture
def one_gpu(cluster):
    """Let the node have one GPU, as far as a scheduler can tell."""
    del cluster
    gpus.advertise(record.load(BED), "node-1", 1)
    yield
    gpus.advertise(record.load(BED), "node-1", 0)


def stop_and_start(place):
    """Return a resource whose only replica takes that GPU, and may be stopped."""
    policy = {"strategy": "Replace", "replace": {"allowDowntime": True, "allowNodeLoss": True}}
    manifest = served.resource(place, live.BEHAVIOUR, replicas=1)
    spans = {"scheduling": "2m", "loading": "3m", "analysis": "5m", "draining": "5s"}
    manifest["spec"]["rollout"] |= {**policy, "deadlines": spans}
    manifest["spec"]["engine"]["podTemplate"]["resources"]["limits"] = {gpus.RESOURCE: "1"}
    return manifest


async def served_to(watch, count):
    """Let users come until so many more completions were answered."""
    wanted = watch.completions + count
    watch.users_come()
    async with asyncio.timeout(120):
        while watch.completions < wanted:
            await asyncio.sleep(0.1)
