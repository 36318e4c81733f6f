"""Autoscalers, drains and neighbours on a real API server: each meets what serves, and nothing else of a rollout."""

import asyncio

import pytest

import harness
import kubeletless
import playbook
from api import builders
from paceline.api import names
from paceline.controller import apiserver, errors
from paceline.planning import kinds
from paceline.planning.kinds import Kind

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

AUTOSCALER = Kind(api_version="autoscaling/v2", kind="HorizontalPodAutoscaler", plural="horizontalpodautoscalers")


@pytest.fixture
def settings(settings):
    """Run the rollout's room alone."""
    return {**settings, "PACELINE_ROOMS": "paceline.rollout.room:Rollout"}


async def make(api, namespace, name, **spec):
    """Make a resource."""
    manifest = builders.deployment(name, **spec)
    manifest["metadata"]["namespace"] = namespace
    return await api.create(kinds.SPECULATIVE_DEPLOYMENT, manifest)


async def reached(api, namespace, name, claim):
    """Wait until a claim holds of a resource's status; return it."""
    return (await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, namespace, name, claim))["status"]


async def sizes(api, namespace, owner):
    """Return the replicas of a resource's Deployments by what their revision drafts."""
    revisions = {
        one["metadata"]["labels"][names.LABEL_REVISION]: one["data"]["inputs"]["method"]
        for one in await api.items(kinds.CONTROLLER_REVISION, namespace)
    }
    return {
        revisions[one["metadata"]["labels"][names.LABEL_REVISION]]: one["spec"]["replicas"]
        for one in await api.items(kinds.DEPLOYMENT, namespace)
        if one["metadata"]["labels"][names.LABEL_DEPLOYMENT] == owner
    }


async def until_sizes(api, namespace, owner, expected):
    """Wait until a resource's Deployments have these sizes."""
    async with asyncio.timeout(60):
        while await sizes(api, namespace, owner) != expected:
            await asyncio.sleep(0.2)


class Slow(playbook.Playbook):
    """Probes never end, so that a rollout stays where it is measured."""

    async def __call__(self, pod):
        """Leave probe pods Pending."""
        if pod["metadata"]["labels"][names.LABEL_PART] == "probe":
            return None
        return await super().__call__(pod)


def is_measuring(status):
    """Whether the rollout has all its arms."""
    return status["rollout"]["phase"] in {"Measuring", "WarmingUp"}


async def test_scale_subresource_speaks_of_what_serves_alone(control_plane, api, namespace, settings, tmp_path):
    """In mid-rollout its selector finds no unpromoted pod, and what it writes scales stable and no other arm."""
    script = Slow(api=api, namespace=namespace, speeds={})
    item = apiserver.item(kinds.SPECULATIVE_DEPLOYMENT, namespace, "served", subresource="scale")
    with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "log", **settings) as operator:
        await operator.ready()
        await make(api, namespace, "served", replicas=2, speculation={"method": "Ngram"})
        async with kubeletless.playing(api, namespace, script):
            await until_sizes(api, namespace, "served", {"None": 2, "Ngram": 1})
            await reached(api, namespace, "served", lambda status: status.get("replicas") == 2)
            scale = await api.server.request("GET", item)
            found = await api.server.request(
                "GET", apiserver.collection(kinds.POD, namespace), query={"labelSelector": scale["status"]["selector"]}
            )
            assert scale["spec"]["replicas"] == scale["status"]["replicas"] == len(found["items"]) == 2

            scale["spec"]["replicas"] = 3
            # The status moves on meanwhile; an autoscaler would try again.
            del scale["metadata"]["resourceVersion"]
            await api.server.request("PUT", item, body=scale)
            await until_sizes(api, namespace, "served", {"None": 3, "Ngram": 1})
            # The new replica of stable has to be ready first; then the rollout goes on where it was.
            await reached(api, namespace, "served", lambda status: status.get("replicas") == 3 and is_measuring(status))
            await autoscaled(api, namespace)


async def autoscaled(api, namespace):
    """A real autoscaler takes the resource for one that it can scale."""
    spec = {
        "scaleTargetRef": {"apiVersion": "paceline.dev/v1alpha1", "kind": "SpeculativeDeployment", "name": "served"},
        "minReplicas": 1, "maxReplicas": 4,
        "metrics": [{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
        }}],
    }  # fmt: skip
    named = {"metadata": {"name": "served", "namespace": namespace}}
    await api.create(AUTOSCALER, {"apiVersion": AUTOSCALER.api_version, "kind": AUTOSCALER.kind, **named, "spec": spec})

    async def told():
        stored = await api.get(AUTOSCALER, namespace, "served")
        return {one["type"]: one for one in (stored.get("status") or {}).get("conditions") or ()}

    async with asyncio.timeout(60):
        while (await told()).get("AbleToScale", {}).get("status") != "True":
            await asyncio.sleep(0.5)
    assert (await told())["AbleToScale"]["reason"] in {"SucceededGetScale", "ReadyForNewScale"}


async def test_drain_takes_serving_pods_one_by_one(control_plane, api, namespace, settings, tmp_path):
    """The second eviction is refused until the first pod has been replaced; the candidate's is not in the way."""
    script = Slow(api=api, namespace=namespace, speeds={})
    with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "log", **settings) as operator:
        await operator.ready()
        await make(api, namespace, "served", replicas=2, speculation={"method": "Ngram"})
        async with kubeletless.playing(api, namespace, script):
            await until_sizes(api, namespace, "served", {"None": 2, "Ngram": 1})
            await protected(api, namespace)
        # Nobody plays the kubelet now, so what replaces an evicted pod does not become ready.
        stable = await reached(api, namespace, "served", lambda status: status.get("readyReplicas") == 2)
        serving = [
            one["metadata"]["name"]
            for one in await api.items(kinds.POD, namespace)
            if one["metadata"]["labels"].get(names.LABEL_REVISION) == stable["stable"]["hash"]
        ]
        await evict(api, namespace, serving[0])
        with pytest.raises(errors.TransientError, match="disruption budget"):
            await evict(api, namespace, serving[1])


async def protected(api, namespace):
    """Wait until the disruption controller has counted the serving pods."""
    async with asyncio.timeout(60):
        while True:
            found = await api.items(kinds.POD_DISRUPTION_BUDGET, namespace)
            status = found[0].get("status") or {} if found else {}
            if (status.get("expectedPods"), status.get("disruptionsAllowed")) == (2, 1):
                return
            await asyncio.sleep(0.2)


async def evict(api, namespace, pod):
    """Ask for an eviction, as a drain does."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    await api.server.request("POST", apiserver.item(kinds.POD, namespace, pod, subresource="eviction"), body=body)


async def test_neighbours_never_touch_each_other(control_plane, api, namespace, settings, tmp_path):
    """Names of which one begins with the other, and two that only differ beyond a label's length."""
    twins = ["a", "a-server", "b" * 70 + ".one", "b" * 70 + ".two"]
    script = playbook.Playbook(api=api, namespace=namespace, speeds={"Ngram": 150.0})
    with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "log", **settings) as operator:
        await operator.ready()
        async with kubeletless.playing(api, namespace, script):
            for name in twins:
                draining = {"analysis": {"prompts": {"configMap": {"name": "p"}}}, "deadlines": {"draining": "1s"}}
                await make(api, namespace, name, speculation={"method": "Ngram"}, rollout=draining)
            for name in twins:
                await reached(api, namespace, name, lambda s: (s.get("stable") or {}).get("method") == "Ngram")
            before = await children(api, namespace, twins[1:])
            await api.delete(kinds.SPECULATIVE_DEPLOYMENT, namespace, twins[0])
            async with asyncio.timeout(60):
                while await children(api, namespace, twins[:1]):
                    await asyncio.sleep(0.2)
            assert await children(api, namespace, twins[1:]) >= before - passing(before)
    selectors = [one["spec"]["selector"] for one in await api.items(kinds.SERVICE, namespace)]
    assert len({frozenset(one.items()) for one in selectors}) == len(twins) - 1


async def children(api, namespace, owners):
    """Return kind and UID of everything that these resources own."""
    found = set()
    for kind in (kinds.DEPLOYMENT, kinds.SERVICE, kinds.CONTROLLER_REVISION, kinds.POD_DISRUPTION_BUDGET):
        for one in await api.items(kind, namespace):
            references = one["metadata"].get("ownerReferences") or ()
            if any(reference["name"] in owners for reference in references):
                found.add((kind.kind, one["metadata"]["uid"]))
    return found


def passing(found):
    """Return what a rollout's own end takes away meanwhile: the Deployment of the revision that drains."""
    return {one for one in found if one[0] == "Deployment"}
