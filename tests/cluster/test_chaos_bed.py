"""The bed itself fails in mid-rollout, under users who never stop asking: API server and etcd, a node, a pod.

Everything is real but the engines, which are stand-ins. The bed is this module's own: others could not live on it.
"""

import asyncio
import contextlib
import json

import pytest

import beds
import harness
from bedctl import controlplane, host, node, provider, record
from paceline.planning import kinds
from standin import frontpods, live, served, users
from supervisor import supervised

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(1200)]

BED = beds.own("chaosbed")
CROWD = users.Crowd(concurrency=3, max_tokens=24)
APART = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "podAffinityTerm": {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"paceline.dev/part": "server"}},
                },
            }
        ]
    }
}


@pytest.fixture(scope="module")
def bed():
    """Two nodes with the stand-in's images, taken down at the end."""
    reason = host.why_no_node()
    if reason is not None:
        pytest.skip(reason)
    own = provider.Embedded(name=BED)
    found = own.up(nodes=2, mounts=())
    served.load_images(BED)
    yield found
    own.down()


@pytest.fixture
async def api(bed):
    """The bed's API server, with our kinds."""
    async with harness.connect(bed.kubeconfig) as opened:
        await harness.install_crds(opened)
        yield opened


@pytest.fixture
async def place(bed, api, namespace, tmp_path):
    """Return a namespace with a target's files."""
    del bed
    async with served.target(api, namespace, bed=BED, folder=tmp_path):
        yield namespace


@contextlib.asynccontextmanager
async def serving(bed, api, place, tmp_path):
    """Run a supervised operator and a resource of two replicas, on a node each; yields the front Service's address."""
    manifest = served.resource(place, live.BEHAVIOUR)
    manifest["spec"]["engine"]["podTemplate"]["affinity"] = APART
    async with supervised(bed.kubeconfig, log=tmp_path / "log", **live.settings(place)):
        yield await live.front(api, place, manifest)


async def candidate(api, place, tokens):
    """Ask for a candidate, and wait until its first round is measured; return the evidence so far."""
    await live.ask_for(api, place, served.ngram(tokens))
    status = await live.reached(api, place, lambda status: (status.get("rollout") or {}).get("round", 0) > 0)
    return status["rollout"]["evidence"]


def ended(reason):
    """Return the claim that the newest rollout ended so, and that all of two replicas serve."""
    is_over = live.ended(reason)
    return lambda status: is_over(status) and status.get("readyReplicas") == 2


async def test_restart_of_api_server_and_etcd_in_mid_rollout_loses_nothing(bed, api, place, tmp_path):
    """Users do not notice; the operator comes back and ends the rollout on the measurements it had."""
    async with serving(bed, api, place, tmp_path) as url, users.using(url, CROWD) as tally:
        evidence = await candidate(api, place, 5)
        before = await api.get(kinds.CONFIG_MAP, place, evidence)
        await asyncio.to_thread(controlplane.restart, record.load(BED))
        await live.reached(api, place, ended("SlowerThanControl"))
        after = await api.get(kinds.CONFIG_MAP, place, evidence)
        await tally.more(20)
    assert tally.lost == []
    assert tally.all_accounted_for
    assert before["metadata"]["uid"] == after["metadata"]["uid"]
    assert blocks(before)
    assert blocks(after)[: len(blocks(before))] == blocks(before)


def blocks(evidence):
    """Return the measured blocks of a record."""
    return json.loads(evidence["data"]["record.json"])["measurements"]


async def test_evicted_serving_pod_drains_and_is_replaced_in_mid_rollout(bed, api, place, tmp_path):
    """By the Eviction API, as a drain does; no request is lost, and the faster candidate is promoted all the same."""
    async with serving(bed, api, place, tmp_path) as url, users.using(url, CROWD) as tally:
        await candidate(api, place, 3)
        await frontpods.evict(api, (await frontpods.selected(api, place, live.NAME))[0])
        await live.reached(api, place, ended("Promoted"))
        await tally.more(20)
    assert tally.lost == []
    assert tally.all_accounted_for


async def test_lost_node_takes_no_more_than_what_it_held(bed, api, place, tmp_path):
    """The pod left serves on; once the Node is gone its pods are made anew, and the rollout comes to its end."""
    async with serving(bed, api, place, tmp_path) as url, users.using(url, CROWD) as tally:
        await candidate(api, place, 5)
        lost = {pod["metadata"]["uid"] for pod in await on_second_node(api, place)}
        assert len(lost) == 1
        await asyncio.to_thread(node.lose, record.load(BED), 2)
        async with asyncio.timeout(120):
            while any(map(frontpods.is_ready, await on_second_node(api, place))):
                await asyncio.sleep(0.2)
        # What a cloud's controller does once the machine is gone; until then nobody knows whether its pods still run.
        await api.server.request("DELETE", "/api/v1/nodes/node-2")
        left = await frontpods.ready(api, place, live.NAME, count=2)
        assert not lost & {pod["metadata"]["uid"] for pod in left}
        await live.reached(api, place, ended("SlowerThanControl"))
        await tally.more(20)
    # Of each user the stream that broke, and one sent before the endpoint went, which hangs to its time-out: no more.
    assert len(tally.lost) <= 2 * CROWD.concurrency
    assert tally.all_accounted_for


async def on_second_node(api, place):
    """Return the serving pods that are bound to the node that is lost."""
    return [pod for pod in await frontpods.selected(api, place, live.NAME) if pod["spec"].get("nodeName") == "node-2"]
