"""The probe on a pod that serves users: it makes way for them.

The engines are stand-ins (``standin/``), everything else is real: probe and inspection pods, EndpointSlices,
kube-proxy, the kubelet's probes and its last seconds of a pod.
"""

import asyncio
import statistics

import aiohttp
import pytest

from paceline.planning import kinds
from paceline.rollout.documents import records
from standin import frontpods, live, served, users

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


async def test_probe_makes_way_for_users_who_wait_and_goes_on_when_they_do_not(cluster, api, place, tmp_path):
    """On a pod that serves: two requests of the probe at most, none while users wait, and evidence that tells so."""
    crowd = users.Crowd(concurrency=16, max_tokens=24)
    changes = {"replicas": 1, "rollout": shared_with_users(ttft_limit_ms=400, probe_concurrency=2)}
    async with live.serving(cluster, api, place, tmp_path, served.resource(place, FEW_SLOTS, **changes)) as url:
        (pod,) = await frontpods.ready(api, place, "standin", count=1)
        await live.ask_for(api, place, served.ngram(3))
        await until_probe(pod, lambda probe: probe["asked"] > WARM_UP)
        async with users.using(url, users.Crowd(concurrency=1, max_tokens=12)) as patient:
            async with users.using(url, crowd) as tally:
                await live.reached(api, place, lambda status: "The probe pauses" in status["rollout"]["message"])
                paused = await until_probe(pod, lambda probe: probe["in_flight"] == 0)
                await tally.more(40)
                assert (await probe_of(pod))["asked"] == paused["asked"]
            await until_probe(pod, lambda probe: probe["asked"] > paused["asked"])
        status = await live.reached(api, place, lambda status: status["rollout"]["round"] > 0)
        assert (await probe_of(pod))["most"] == 2

    assert "Concurrencies 6 are left out" in status["rollout"]["measuredOn"]
    assert "Yielded" in await outcomes_on(api, place, pod, status["rollout"]["evidence"])
    assert statistics.median(tally.ttft_s) > 0.4
    assert tally.lost == patient.lost == []


# Streams beyond four wait: a crowd waits for itself, one user beside the probe does not.
FEW_SLOTS = served.Behaviour(speeds={"none": 100.0, "ngram:3": 170.0}, more={"STANDIN_SLOTS": "4"})
# The server's own first completion, the probe's gate and its warm-up; what comes after is a block.
WARM_UP = 6


def shared_with_users(*, ttft_limit_ms, probe_concurrency):
    """Return a rollout policy by which stable is measured where it serves, at two concurrencies, one too high."""
    analysis = {
        "prompts": {"configMap": {"name": "prompts", "key": "prompts.jsonl"}},
        "concurrencies": [probe_concurrency, 6], "maxProbeConcurrency": probe_concurrency,
        "usersTtftLimitMs": ttft_limit_ms, "measuringCopy": "Never", "maxTokens": 24, "requestsPerSlot": 20,
    }  # fmt: skip
    return {"strategy": "Surge", "analysis": analysis, "deadlines": {"draining": "5s"}}


async def probe_of(pod):
    """Return what a pod's engine counts of the probe's requests."""
    async with aiohttp.ClientSession() as session:
        answer = await session.get(f"http://{pod['status']['podIP']}:8000/standin")
        return (await answer.json(content_type=None))[""]


async def until_probe(pod, claim):
    """Wait until a claim holds of the probe's requests at a pod; return them."""
    async with asyncio.timeout(200):
        while not claim(found := await probe_of(pod)):
            await asyncio.sleep(0.05)
        return found


async def outcomes_on(api, place, pod, evidence):
    """Return what became of a pod's blocks, in their order."""
    stored = await api.get(kinds.CONFIG_MAP, place, evidence)
    measured = records.read(stored).record.measurements
    return [one.outcome.value for one in measured if one.pod_uid == pod["metadata"]["uid"]]
