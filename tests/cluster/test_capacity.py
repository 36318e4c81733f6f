"""Capacity on a real scheduler: nodes with fake GPUs, real Deployments and pods, and only their kubelet is played."""

import asyncio
import contextlib

import pytest

import fakenodes
import harness
import kubeletless
import playbook
from api import builders
from paceline.api import names
from paceline.api.measurement import Purpose
from paceline.capacity import ledger
from paceline.planning import kinds
from paceline.rollout.documents import records

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
SPEEDS = {"None": 100.0, "Ngram": 160.0}
WITHIN_S = 150.0


@pytest.fixture
def settings(settings):
    """Let the operator of one namespace see the nodes of the cluster."""
    return {**settings, "PACELINE_FORECAST": "true"}


class Playbook(playbook.Playbook):
    """Pods with devices run when the real scheduler has bound them."""

    async def __call__(self, pod):
        """Return what is said of a pod."""
        if fakenodes.is_server(pod) and not fakenodes.is_bound(pod):
            return None
        return await super().__call__(pod)


@contextlib.asynccontextmanager
async def world(control_plane, api, namespace, settings, log, gpus, *, speeds=SPEEDS):
    """Run the operator beside a scheduler that has these nodes."""
    script = Playbook(api=api, namespace=namespace, speeds=speeds)
    with harness.run_operator(control_plane.kubeconfig, log=log, **settings) as operator:
        await operator.ready()
        async with fakenodes.nodes(api, namespace, gpus), kubeletless.playing(api, namespace, script):
            yield operator


async def serve(api, namespace, name="served", **spec):
    """Make a resource whose baseline takes 8 GPUs a replica, and wait until it serves."""
    template = fakenodes.template(namespace, 8)
    # From a hub: a claim that does not exist would keep the real scheduler from placing anything.
    manifest = builders.deployment(name, target={"uri": "hf://a/b"}, engine={"podTemplate": template}, **spec)
    manifest["spec"]["rollout"]["deadlines"] = {"draining": "1s"}
    manifest["metadata"]["namespace"] = namespace
    await api.create(kinds.SPECULATIVE_DEPLOYMENT, manifest)
    await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, namespace, name, stable_is("None"), within_s=WITHIN_S)


async def ask(api, namespace, name="served"):
    """Ask for a draft."""
    await api.merge(kinds.SPECULATIVE_DEPLOYMENT, namespace, name, {"spec": {"speculation": {"method": "Ngram"}}})


def stable_is(method):
    """Return the claim that a method serves, all of it."""

    def claim(status):
        stable = status.get("stable") or {}
        return stable.get("method") == method and stable.get("readyReplicas", 0) > 0

    return claim


def progressing(reason):
    """Return the claim that condition Progressing has a reason."""
    return lambda status: any(
        one["type"] == "Progressing" and one["reason"] == reason for one in status.get("conditions", ())
    )


async def reached(api, namespace, claim, name="served"):
    """Wait for a claim on the status."""
    return await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, namespace, name, claim, within_s=WITHIN_S)


async def servers(api, namespace):
    """Return servers' pods."""
    return [pod for pod in await api.items(kinds.POD, namespace) if fakenodes.is_server(pod)]


def filler(namespace, node, gpus):
    """Return somebody else's pod, bound to a node."""
    container = {"name": "main", "image": "x", "resources": {"limits": {fakenodes.GPU: str(gpus)}}}
    meta = {"name": f"filler-{node}", "namespace": namespace, "labels": {"app": "other"}}
    spec = {"nodeName": f"{namespace}-{node}", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


async def test_four_and_four_free_make_no_pod_and_a_freed_node_does(control_plane, api, namespace, settings, tmp_path):
    """No candidate waits in the scheduler's queue; as soon as one node has all eight free it is made and wins."""
    gpus = {"a": 8, "b": 8, "c": 4}
    async with world(control_plane, api, namespace, settings, tmp_path / "log", gpus):
        await api.create(kinds.POD, filler(namespace, "b", 4))
        await serve(api, namespace, rollout={"strategy": "Surge"})
        await ask(api, namespace)
        stored = await reached(api, namespace, progressing("InsufficientGPU"))
        told = next(one["message"] for one in stored["status"]["conditions"] if one["type"] == "Progressing")
        assert "the largest free block is 4" in told
        assert len(await servers(api, namespace)) == 1
        await api.delete(kinds.POD, namespace, "filler-b")
        await reached(api, namespace, stable_is("Ngram"))


async def test_two_rollouts_never_claim_one_node(control_plane, api, namespace, settings, tmp_path):
    """Both ask at once for the one spare node: the second is made only when the first is through."""
    async with world(control_plane, api, namespace, settings, tmp_path / "log", {"a": 8, "b": 8, "c": 8}):
        for name in ("one", "two"):
            await serve(api, namespace, name, rollout={"strategy": "Surge"})
        await asyncio.gather(*(ask(api, namespace, name) for name in ("one", "two")))
        refused = set()
        async with asyncio.timeout(WITHIN_S):
            while not await both_serve_their_drafts(api, namespace):
                refused |= {told for pod in await servers(api, namespace) if (told := refusal(pod))}
                await asyncio.sleep(0.1)
        assert refused == set()


async def test_winner_grows_onto_no_node_that_was_promised(control_plane, api, namespace, settings, tmp_path):
    """Of two free nodes the candidate takes one; the other is another's, and is waited for until that one lets go."""
    async with world(control_plane, api, namespace, settings, tmp_path / "log", {"a": 8, "b": 8, "c": 8, "d": 8}):
        await serve(api, namespace, rollout={"strategy": "Surge"}, replicas=2)
        await reached(api, namespace, lambda status: status.get("readyReplicas") == 2)
        await api.create(kinds.CONFIG_MAP, promise(namespace))
        await ask(api, namespace)
        stored = await reached(api, namespace, progressing("InsufficientGPU"))
        told = next(one["message"] for one in stored["status"]["conditions"] if one["type"] == "Progressing")
        assert "asks for the devices of one more replica" in told
        pods = await servers(api, namespace)
        assert len(pods) == 3
        assert not any(map(refusal, pods))
        await api.delete(kinds.CONFIG_MAP, namespace, "record-of-another")
        await reached(api, namespace, lambda status: stable_is("Ngram")(status) and status["readyReplicas"] == 2)


def promise(namespace):
    """Return a record that was granted a node, and has made no pod yet."""
    spec = fakenodes.template(namespace, 8)
    spec["containers"] = [{"name": "engine", "resources": spec.pop("resources")}]
    claim = ledger.document({"another": ledger.Wish(count=1, pod_spec=spec)})
    meta = {"name": "record-of-another", "namespace": namespace}
    labels = {names.LABEL_MANAGED_BY: names.FIELD_MANAGER, **ledger.labels(claim)}
    meta |= {"labels": labels, "annotations": ledger.annotations(claim)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {}}


async def both_serve_their_drafts(api, namespace):
    """Whether both rollouts are through."""
    found = await api.items(kinds.SPECULATIVE_DEPLOYMENT, namespace)
    return all(stable_is("Ngram")(one.get("status") or {}) for one in found)


def refusal(pod):
    """Return why the scheduler found no node for a pod; empty while it has not said so."""
    told = [one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"]
    said = next((one.get("message", "no reason") for one in told if one["status"] == "False"), "")
    return f"{pod['metadata']['name']}: {said}" if said else ""


async def test_single_node_is_given_up_for_a_loser_and_recovers(control_plane, api, namespace, settings, tmp_path):
    """Stop-and-start on one node: the candidate waits for the GPUs, loses, and stable is measured when it is back."""
    replace = {"allowDowntime": True, "allowNodeLoss": True}
    speeds = {"None": 100.0, "Ngram": 50.0}
    async with world(control_plane, api, namespace, settings, tmp_path / "log", {"a": 8}, speeds=speeds):
        await serve(api, namespace, rollout={"replace": replace})
        await ask(api, namespace)
        stored = await reached(api, namespace, progressing("Recovered"))
        assert stored["status"]["stable"]["readyReplicas"] == 1
        found = await history(api, namespace)
        loser, recovery = found[-2:]
        assert (loser.reason, recovery.purpose) == ("SlowerThanControl", Purpose.RECOVERY)
        assert loser.released_at is not None
        assert loser.longest_downtime_s > 0


async def history(api, namespace):
    """Return the rollouts' records, oldest first."""
    found = [one for one in await api.items(kinds.CONFIG_MAP, namespace) if records.KEY in (one.get("data") or {})]
    return sorted((records.read(one).record for one in found), key=lambda one: one.number)


async def test_full_cluster_hands_over_one_replica_after_the_other(control_plane, api, namespace, settings, tmp_path):
    """Two replicas on two nodes: one ready endpoint at least, whenever anybody looks."""
    async with world(control_plane, api, namespace, settings, tmp_path / "log", {"a": 8, "b": 8}):
        await serve(api, namespace, rollout={"replace": {"allowNodeLoss": True}}, replicas=2)
        await reached(api, namespace, lambda status: status.get("readyReplicas") == 2)
        await ask(api, namespace)
        fewest = 2
        async with asyncio.timeout(WITHIN_S):
            while not await is_handed_over(api, namespace):
                fewest = min(fewest, await endpoints(api, namespace))
                await asyncio.sleep(0.1)
        assert fewest == 1


async def is_handed_over(api, namespace):
    """Whether the new revision has both replicas, alone."""
    stored = await api.get(kinds.SPECULATIVE_DEPLOYMENT, namespace, "served")
    left = await api.items(kinds.DEPLOYMENT, namespace)
    return stable_is("Ngram")(stored["status"]) and stored["status"]["readyReplicas"] == 2 and len(left) == 1


async def endpoints(api, namespace):
    """Return how many ready pods the front Service selects."""
    service = await api.get(kinds.SERVICE, namespace, names.front("served"))
    selector = service["spec"]["selector"].items()
    return sum(
        selector <= pod["metadata"]["labels"].items()
        and "deletionTimestamp" not in pod["metadata"]
        and any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))
        for pod in await servers(api, namespace)
    )
