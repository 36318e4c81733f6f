"""The bed itself fails in mid-rollout, under users who never stop asking: API server and etcd, a node, a pod.

Everything is real but the engines, which are stand-ins. The bed is this module's own: others could not live on it.
"""

import asyncio
import contextlib
import json

import pytest

import harness
from bedctl import controlplane, host, node, provider, record
from paceline.planning import kinds
from standin import served, users
from supervisor import supervised

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(1200)]

BED = "chaosbed"
NAME = "standin"
NODE = kinds.Kind(api_version="v1", kind="Node", plural="nodes", namespaced=False)
BEHAVIOUR = served.Behaviour(speeds={"none": 100.0, "ngram:5": 60.0, "ngram:3": 170.0})
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


@contextlib.asynccontextmanager
async def serving(bed, api, namespace, tmp_path):
    """Run a supervised operator and a resource of two replicas; yields the front Service's address."""
    settings = {"PACELINE_NAMESPACE": namespace, "PACELINE_NAMESPACES": namespace, "PACELINE_SCRAPE_INTERVAL": "2s"}
    settings["PACELINE_ROOMS"] = "paceline.rollout.room:Rollout"
    manifest = served.resource(namespace, BEHAVIOUR)
    manifest["spec"]["engine"]["podTemplate"]["affinity"] = APART
    async with (
        served.target(api, namespace, bed=BED, folder=tmp_path),
        supervised(bed.kubeconfig, log=tmp_path / "log", **settings) as operators,
    ):
        await api.create(kinds.SPECULATIVE_DEPLOYMENT, manifest)
        await reached(api, namespace, lambda status: status.get("readyReplicas") == 2 and status.get("endpoint"))
        service = await api.get(kinds.SERVICE, namespace, NAME)
        yield f"http://{service['spec']['clusterIP']}:8000", operators


async def reached(api, namespace, claim):
    """Wait until a claim holds of the status; return that."""
    found = await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, namespace, NAME, claim, within_s=400.0)
    return found["status"]


async def candidate(api, namespace, tokens):
    """Ask for a candidate, and wait until its first round is measured; return the evidence so far."""
    patch = {"spec": {"speculation": served.ngram(tokens)}}
    await api.merge(kinds.SPECULATIVE_DEPLOYMENT, namespace, NAME, patch)
    status = await reached(api, namespace, lambda status: (status.get("rollout") or {}).get("round", 0) > 0)
    return status["rollout"]["evidence"]


def ended(reason):
    """Return the claim that the newest rollout ended so."""

    def claim(status):
        told = {one["type"]: one["reason"] for one in status.get("conditions", ())}
        return told.get("Progressing") == reason and status.get("readyReplicas") == 2

    return claim


async def serving_pods(api, namespace):
    """Return the pods that the front Service selects."""
    wanted = (await api.get(kinds.SERVICE, namespace, NAME))["spec"]["selector"]
    pods = await api.items(kinds.POD, namespace)
    return [pod for pod in pods if wanted.items() <= pod["metadata"]["labels"].items()]


async def ready_again(api, namespace, *, without, within_s=240.0):
    """Wait until two pods serve, and none of those in ``without`` is among them."""
    async with asyncio.timeout(within_s):
        while True:
            ready = {pod["metadata"]["uid"] for pod in await serving_pods(api, namespace) if is_ready(pod)}
            if len(ready) == 2 and not ready & without:
                return
            await asyncio.sleep(0.5)


def is_ready(pod):
    """Whether a pod is ready and stays."""
    told = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
    return told.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


async def answered(tally, more):
    """Wait until so many more requests were answered."""
    wanted = tally.answered + more
    async with asyncio.timeout(120):
        while tally.answered < wanted:
            await asyncio.sleep(0.2)


async def test_restart_of_api_server_and_etcd_in_mid_rollout_loses_nothing(bed, api, tmp_path):
    """Users do not notice; the operator comes back and ends the rollout on the measurements it had."""
    async with (
        harness.scratch_namespace(api) as namespace,
        serving(bed, api, namespace, tmp_path) as (url, _),
        users.using(url, CROWD) as tally,
    ):
        evidence = await candidate(api, namespace, 5)
        before = await api.get(kinds.CONFIG_MAP, namespace, evidence)
        await asyncio.to_thread(controlplane.restart, record.load(BED))
        await reached(api, namespace, ended("SlowerThanControl"))
        after = await api.get(kinds.CONFIG_MAP, namespace, evidence)
        await answered(tally, 20)
    assert tally.lost == []
    assert tally.all_accounted_for
    assert before["metadata"]["uid"] == after["metadata"]["uid"]
    assert blocks(before)
    assert blocks(after)[: len(blocks(before))] == blocks(before)


def blocks(evidence):
    """Return the measured blocks of a record."""
    return json.loads(evidence["data"]["record.json"])["measurements"]


async def test_evicted_serving_pod_drains_and_is_replaced_in_mid_rollout(bed, api, tmp_path):
    """By the Eviction API, as a drain does; no request is lost, and the faster candidate is promoted all the same."""
    async with (
        harness.scratch_namespace(api) as namespace,
        serving(bed, api, namespace, tmp_path) as (url, _),
        users.using(url, CROWD) as tally,
    ):
        await candidate(api, namespace, 3)
        victim = (await serving_pods(api, namespace))[0]["metadata"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim["name"]}}
        await api.server.request("POST", f"/api/v1/namespaces/{namespace}/pods/{victim['name']}/eviction", body=body)
        await reached(api, namespace, ended("Promoted"))
        await answered(tally, 20)
    assert tally.lost == []
    assert tally.all_accounted_for


async def test_lost_node_takes_no_more_than_what_it_held(bed, api, tmp_path):
    """The pod left serves on; once the Node is gone its pods are made anew, and the rollout comes to its end."""
    async with (
        harness.scratch_namespace(api) as namespace,
        serving(bed, api, namespace, tmp_path) as (url, _),
        users.using(url, CROWD) as tally,
    ):
        await candidate(api, namespace, 5)
        lost = {pod["metadata"]["uid"] for pod in await serving_pods(api, namespace) if on_second_node(pod)}
        assert len(lost) == 1
        await asyncio.to_thread(node.lose, record.load(BED), 2)
        async with asyncio.timeout(120):
            while any(is_ready(pod) for pod in await serving_pods(api, namespace) if on_second_node(pod)):
                await asyncio.sleep(0.2)
        # What a cloud's controller does once the machine is gone; until then nobody knows whether its pods still run.
        await api.server.request("DELETE", "/api/v1/nodes/node-2")
        await ready_again(api, namespace, without=lost)
        await reached(api, namespace, ended("SlowerThanControl"))
        await answered(tally, 20)
    # Of each user the stream that broke, and one sent before the endpoint went, which hangs to its time-out: no more.
    assert len(tally.lost) <= 2 * CROWD.concurrency
    assert tally.all_accounted_for


def on_second_node(pod):
    """Whether a pod is bound to the node that is lost."""
    return pod["spec"].get("nodeName") == "node-2"
