"""A resource of stand-ins on the bed, with an operator beside it, and what tests of it wait for."""

import asyncio
import contextlib

import harness
from paceline.api import names
from paceline.planning import kinds
from paceline.rollout import records
from standin import served

LONG = {"within_s": 400.0}
# One candidate is slower than no draft, the other faster.
BEHAVIOUR = served.Behaviour(speeds={"none": 100.0, "ngram:5": 60.0, "ngram:3": 170.0})


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


async def _servers(api, place):
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
        while await _servers(api, place) != [("server", method)]:
            await asyncio.sleep(0.5)


async def history(api, place):
    """Return the rollouts' records, oldest first."""
    found = [one for one in await api.items(kinds.CONFIG_MAP, place) if records.KEY in (one.get("data") or {})]
    return sorted((records.read(one).record for one in found), key=lambda one: one.number)
