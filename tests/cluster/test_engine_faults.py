"""Engines that fail on a real node: what a kubelet keeps, what the log tells, and what a startup probe finds out.

The engines are stand-ins (``standin/``); containers, probes, logs and their API are real.
"""

import os

import pytest

import harness
from paceline.api import names
from paceline.planning import kinds
from standin import served

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

BED = os.environ.get("BED") or "default"
BEHAVIOUR = served.Behaviour(faults={"ngram:5": "buried", "ngram:3": "deaf"})


@pytest.fixture
async def place(cluster, api, namespace, tmp_path):
    """Return a namespace in which one stand-in serves without a draft."""
    if cluster.provider != "embedded":
        pytest.skip("the stand-in's image is made for the embedded bed; set CLUSTER=embedded")
    served.load_images(BED)
    settings = {"PACELINE_NAMESPACE": namespace, "PACELINE_NAMESPACES": namespace, "PACELINE_SCRAPE_INTERVAL": "2s"}
    settings["PACELINE_ROOMS"] = "paceline.rollout.room:Rollout"
    async with served.target(api, namespace, bed=BED, folder=tmp_path):
        with harness.run_operator(cluster.kubeconfig, log=tmp_path / "log", **settings) as operator:
            await operator.ready()
            await api.create(kinds.SPECULATIVE_DEPLOYMENT, served.resource(namespace, BEHAVIOUR, replicas=1))
            await reached(api, namespace, lambda status: status.get("readyReplicas") == 1 and status.get("endpoint"))
            yield namespace


async def reached(api, place, claim):
    """Wait until a claim holds of the status; return that."""
    found = await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, place, "standin", claim, within_s=200.0)
    return found["status"]


async def ended(api, place, tokens, **rollout):
    """Ask for a candidate, and return condition Progressing once its rollout is over, and how often it restarted."""
    restarts, ready = [], []
    known = (await api.get(kinds.SPECULATIVE_DEPLOYMENT, place, "standin"))["status"]
    before = known["rollout"]["candidate"]

    def is_over(status):
        told = {one["type"]: one for one in status.get("conditions", ())}.get("Progressing", {})
        newest = status.get("rollout", {})
        is_new = newest.get("candidate") != before
        return is_new and newest.get("phase") == "Rejected" and told.get("status") == "False"

    wanted = {"speculation": served.ngram(tokens), "rollout": rollout}
    await api.merge(kinds.SPECULATIVE_DEPLOYMENT, place, "standin", {"spec": wanted})
    hashes = {known["stable"]["hash"]}

    def watched(status):
        if candidate := status.get("candidate"):
            ready.append(candidate["readyReplicas"])
        return is_over(status)

    status = await reached(api, place, watched)
    for pod in await api.items(kinds.POD, place):
        if pod["metadata"]["labels"].get(names.LABEL_REVISION) not in hashes | {None}:
            restarts += [one["restartCount"] for one in pod["status"].get("containerStatuses", ())]
    told = next(one for one in status["conditions"] if one["type"] == "Progressing")
    return told, max(restarts, default=0), max(ready, default=0)


async def test_failures_of_real_containers_are_told_apart(api, place):
    """A cause that only the log holds ends a rollout at its first end; an engine without tokens never gets ready."""
    told, restarts, _ = await ended(api, place, 5)
    assert told["reason"] == "HeadLoadFailed"
    assert "HeadKeysUnknown" in told["message"]
    assert "layers.0.mlp.down_proj.weight" in told["message"]
    assert restarts <= 1

    told, _, ready = await ended(api, place, 3, deadlines={"loading": "30s"})
    assert told["reason"] == "LoadingDeadlineExceeded"
    assert ready == 0

    status = (await api.get(kinds.SPECULATIVE_DEPLOYMENT, place, "standin"))["status"]
    assert (status["speculation"], status["readyReplicas"]) == ("None", 1)
