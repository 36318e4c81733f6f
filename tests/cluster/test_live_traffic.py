"""Real pods, real Services, real requests: users ask all along while candidates lose, win, and pods go.

The engines are stand-ins (``standin/``), everything else is real: probe and inspection pods, EndpointSlices,
kube-proxy, the kubelet's probes and its last seconds of a pod.
"""

import asyncio
import contextlib
import os

import pytest

import harness
from paceline.api import names
from paceline.planning import kinds
from standin import served, users

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
async def serving(cluster, api, place, tmp_path, behaviour=BEHAVIOUR, **changes):
    """Run an operator and a resource of two replicas; yields the front Service's address once it serves."""
    settings = {"PACELINE_NAMESPACE": place, "PACELINE_NAMESPACES": place, "PACELINE_SCRAPE_INTERVAL": "2s"}
    settings["PACELINE_ROOMS"] = "paceline.rollout.room:Rollout"
    with harness.run_operator(cluster.kubeconfig, log=tmp_path / "log", **settings) as operator:
        await operator.ready()
        await api.create(kinds.SPECULATIVE_DEPLOYMENT, served.resource(place, behaviour, **changes))
        await reached(api, place, lambda status: status.get("readyReplicas") == 2 and status.get("endpoint"))
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
