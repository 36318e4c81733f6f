"""A resource of stand-ins on the bed, with an operator beside it, and what tests of it wait for."""

import asyncio
import contextlib

import harness
from paceline.api import names
from paceline.planning import kinds
from paceline.rollout.documents import records
from standin import served

NAME = "standin"
_LONG = {"within_s": 400.0}
# One candidate is slower than no draft, the other faster.
BEHAVIOUR = served.Behaviour(speeds={"none": 100.0, "ngram:5": 60.0, "ngram:3": 170.0})


def settings(place):
    """Return the environment of an operator that sees one namespace and looks at its engines often."""
    given = {"PACELINE_NAMESPACE": place, "PACELINE_NAMESPACES": place, "PACELINE_SCRAPE_INTERVAL": "2s"}
    given["PACELINE_ROOMS"] = "paceline.rollout.room:Rollout"
    # Nobody takes over here, and a machine that runs everything at once is late with renewals.
    return {**given, "PACELINE_LEASE_DURATION": "60s", "PACELINE_LEASE_RENEW_DEADLINE": "45s"}


@contextlib.asynccontextmanager
async def serving(cluster, api, place, tmp_path, manifest=None):
    """Run an operator and a resource, by default of two replicas; yields the front Service's address once it serves."""
    with harness.run_operator(cluster.kubeconfig, log=tmp_path / "log", **settings(place)) as operator:
        await operator.ready(within_s=240.0)
        yield await front(api, place, manifest or served.resource(place, BEHAVIOUR))


async def front(api, place, manifest):
    """Make a resource, and wait until all its replicas serve; return the front Service's address."""
    await api.create(kinds.SPECULATIVE_DEPLOYMENT, manifest)
    wanted = manifest["spec"]["replicas"]
    await reached(api, place, lambda status: status.get("readyReplicas") == wanted and status.get("endpoint"))
    service = await api.get(kinds.SERVICE, place, NAME)
    return f"http://{service['spec']['clusterIP']}:8000"


async def reached(api, place, claim):
    """Wait until a claim holds of the status; return that."""
    found = await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, place, NAME, claim, **_LONG)
    return found["status"]


async def ask_for(api, place, speculation):
    """Edit what drafts."""
    await api.merge(kinds.SPECULATIVE_DEPLOYMENT, place, NAME, {"spec": {"speculation": speculation}})


def ended(reason):
    """Return the claim that the newest rollout ended so, and that nothing but what serves is left."""

    def claim(status):
        told = {one["type"]: one["reason"] for one in status.get("conditions", ())}
        return told.get("Progressing") == reason

    return claim


async def lose_and_win(api, place):
    """Ask for a candidate that is rolled back, then for one that is promoted, each once the one before is gone."""
    for tokens, reason, left in ((5, "SlowerThanControl", "None"), (3, "Promoted", "Ngram")):
        await ask_for(api, place, served.ngram(tokens))
        await reached(api, place, ended(reason))
        await only(api, place, left)


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
