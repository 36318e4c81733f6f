"""Real pods, real Services, real requests: users ask all along while candidates lose, win, and pods go.

The engines are stand-ins (``standin/``), everything else is real: probe and inspection pods, EndpointSlices,
kube-proxy, the kubelet's probes and its last seconds of a pod.
"""

import asyncio
import collections
import contextlib
import os
import statistics

import aiohttp
import pytest

import harness
import lookout
from bedctl import gpus, record
from paceline.api import names
from paceline.planning import kinds
from paceline.rollout import records
from standin import frontpods, served, users

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

BED = os.environ.get("BED") or "default"
LONG = {"within_s": 400.0}
# One candidate is slower than no draft, the other faster.
BEHAVIOUR = served.Behaviour(speeds={"none": 100.0, "ngram:5": 60.0, "ngram:3": 170.0})


@pytest.fixture
async def place(cluster, api, namespace, tmp_path):
    """Return the namespace, with a target's files, on a bed whose node has the images."""
    if cluster.provider != "embedded":
        pytest.skip("the stand-in's image is made for the embedded bed; set CLUSTER=embedded")
    served.load_images(BED)
    async with served.target(api, namespace, bed=BED, folder=tmp_path):
        yield namespace


@contextlib.asynccontextmanager
async def serving(cluster, api, place, tmp_path, manifest=None):
    """Run an operator and a resource, by default of two replicas; yields the front Service's address once it serves."""
    manifest = manifest or served.resource(place, BEHAVIOUR)
    wanted = manifest["spec"]["replicas"]
    settings = {"PACELINE_NAMESPACE": place, "PACELINE_NAMESPACES": place, "PACELINE_SCRAPE_INTERVAL": "2s"}
    settings["PACELINE_ROOMS"] = "paceline.rollout.room:Rollout"
    # Nobody takes over here, and a machine that runs everything at once is late with renewals.
    settings |= {"PACELINE_LEASE_DURATION": "60s", "PACELINE_LEASE_RENEW_DEADLINE": "45s"}
    with harness.run_operator(cluster.kubeconfig, log=tmp_path / "log", **settings) as operator:
        await operator.ready(within_s=240.0)
        await api.create(kinds.SPECULATIVE_DEPLOYMENT, manifest)
        await reached(api, place, lambda status: status.get("readyReplicas") == wanted and status.get("endpoint"))
        service = await api.get(kinds.SERVICE, place, "standin")
        yield f"http://{service['spec']['clusterIP']}:8000"


async def reached(api, place, claim):
    """Wait until a claim holds of the status; return that."""
    found = await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, place, "standin", claim, **LONG)
    return found["status"]


async def ask_for(api, place, speculation):
    """Edit what drafts."""
    await api.merge(kinds.SPECULATIVE_DEPLOYMENT, place, "standin", {"spec": {"speculation": speculation}})


def ended(reason):
    """Return the claim that the newest rollout ended so, and that nothing but what serves is left."""

    def claim(status):
        told = {one["type"]: one["reason"] for one in status.get("conditions", ())}
        return told.get("Progressing") == reason

    return claim


async def servers(api, place):
    """Return the parts and methods of all Deployments."""
    revisions = {
        one["metadata"]["labels"][names.LABEL_REVISION]: one["data"]["inputs"]["method"]
        for one in await api.items(kinds.CONTROLLER_REVISION, place)
    }
    return sorted(
        (one["metadata"]["labels"][names.LABEL_PART], revisions[one["metadata"]["labels"][names.LABEL_REVISION]])
        for one in await api.items(kinds.DEPLOYMENT, place)
    )


async def only(api, place, method):
    """Wait until one Deployment is left."""
    async with asyncio.timeout(120):
        while await servers(api, place) != [("server", method)]:
            await asyncio.sleep(0.5)


async def test_no_request_is_lost_while_candidates_lose_and_win(cluster, api, place, tmp_path):
    """Users never pause, so stable is measured on a copy; one candidate is rolled back, the next one promoted."""
    async with (
        serving(cluster, api, place, tmp_path) as url,
        users.using(url, users.Crowd(concurrency=3, max_tokens=24)) as tally,
    ):
        await ask_for(api, place, served.ngram(5))
        measured = await reached(api, place, lambda status: status.get("rollout", {}).get("round", 0) > 0)
        assert "on a copy that serves nobody" in measured["rollout"]["measuredOn"]
        await reached(api, place, ended("SlowerThanControl"))
        await only(api, place, "None")
        before = tally.answered

        await ask_for(api, place, served.ngram(3))
        await reached(api, place, ended("Promoted"))
        await only(api, place, "Ngram")
        assert tally.answered > before

    assert tally.lost == []
    assert tally.all_accounted_for
    assert tally.answered > 100


async def test_serving_pods_that_go_in_mid_traffic_lose_no_request(cluster, api, place, tmp_path):
    """One is deleted, then its sister evicted: each ends what it was asked, and new requests go to the other."""
    async with (
        serving(cluster, api, place, tmp_path) as url,
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


async def test_probe_makes_way_for_users_who_wait_and_goes_on_when_they_do_not(cluster, api, place, tmp_path):
    """On a pod that serves: two requests of the probe at most, none while users wait, and evidence that tells so."""
    crowd = users.Crowd(concurrency=16, max_tokens=24)
    changes = {"replicas": 1, "rollout": shared_with_users(ttft_limit_ms=400, probe_concurrency=2)}
    async with serving(cluster, api, place, tmp_path, served.resource(place, FEW_SLOTS, **changes)) as url:
        (pod,) = await frontpods.ready(api, place, "standin", count=1)
        await ask_for(api, place, served.ngram(3))
        await until_probe(pod, lambda probe: probe["asked"] > WARM_UP)
        async with users.using(url, users.Crowd(concurrency=1, max_tokens=12)) as patient:
            async with users.using(url, crowd) as tally:
                await reached(api, place, lambda status: "The probe pauses" in status["rollout"]["message"])
                paused = await until_probe(pod, lambda probe: probe["in_flight"] == 0)
                await tally.more(40)
                assert (await probe_of(pod))["asked"] == paused["asked"]
            await until_probe(pod, lambda probe: probe["asked"] > paused["asked"])
        status = await reached(api, place, lambda status: status["rollout"]["round"] > 0)
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


async def test_only_replica_is_stopped_for_a_loser_and_back_in_the_stated_time(cluster, api, place, tmp_path, one_gpu):
    """One node, one replica: who asks all along goes without once, and no longer than the status said before."""
    del one_gpu
    async with serving(cluster, api, place, tmp_path, stop_and_start(place)) as url:
        with lookout.Lookout(url, model="m") as watch:
            await served_to(watch, 3)
            await asyncio.to_thread(watch.users_go)
            await ask_for(api, place, served.ngram(5))
            said = await reached(api, place, lambda status: "longestDowntime" in (status.get("rollout") or {}))
            assert said["readyReplicas"] == 1
            await reached(api, place, ended("Recovered"))
            await served_to(watch, 3)
        loser, recovery = (await history(api, place))[-2:]

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
    manifest = served.resource(place, BEHAVIOUR, replicas=1)
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


async def history(api, place):
    """Return the rollouts' records, oldest first."""
    found = [one for one in await api.items(kinds.CONFIG_MAP, place) if records.KEY in (one.get("data") or {})]
    return sorted((records.read(one).record for one in found), key=lambda one: one.number)


async def test_no_request_is_lost_while_a_candidate_gets_its_shares(cluster, api, place, tmp_path):
    """A third by one pod of three, half by two of four, then all; users ask all along, and both sides answer."""
    steps = [{"weight": 33, "pause": "4s"}, {"weight": 50, "pause": "4s"}]
    manifest = served.resource(place, BEHAVIOUR)
    manifest["spec"]["rollout"]["steps"] = steps
    shares = set()

    def is_half(status):
        shares.add((status.get("rollout") or {}).get("weight", 0))
        return 50 in shares

    async with (
        serving(cluster, api, place, tmp_path, manifest) as url,
        users.using(url, users.Crowd(concurrency=3, max_tokens=24)) as tally,
    ):
        await ask_for(api, place, served.ngram(3))
        await reached(api, place, is_half)
        pods = await frontpods.ready(api, place, "standin", count=4)
        before = await asked_by_revision(pods)
        await tally.more(40)
        after = await asked_by_revision(pods)
        await reached(api, place, ended("Promoted"))
        await only(api, place, "Ngram")

    assert 33 in shares
    assert len(after) == 2
    assert all(after[revision] > before[revision] for revision in after)
    assert tally.lost == []
    assert tally.all_accounted_for


async def asked_by_revision(pods):
    """Return how many completions were asked of pods, by their revision."""
    found = collections.Counter()
    async with aiohttp.ClientSession() as session:
        for pod in pods:
            answer = await session.get(f"http://{pod['status']['podIP']}:8000/standin")
            told = await answer.json(content_type=None)
            found[pod["metadata"]["labels"][names.LABEL_REVISION]] += sum(one["asked"] for one in told.values())
    return found
