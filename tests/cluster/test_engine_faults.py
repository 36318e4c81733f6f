"""Engines that fail on a real node: what a kubelet keeps, what the log tells, and what a startup probe finds out.

The engines are stand-ins (``standin/``); containers, probes, logs and their API are real.
"""

import pytest

from paceline.api import names
from paceline.planning import kinds
from standin import live, served

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

BEHAVIOUR = served.Behaviour(faults={"ngram:5": "buried", "ngram:3": "deaf"})


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

    status = await live.reached(api, place, watched)
    for pod in await api.items(kinds.POD, place):
        if pod["metadata"]["labels"].get(names.LABEL_REVISION) not in hashes | {None}:
            restarts += [one["restartCount"] for one in pod["status"].get("containerStatuses", ())]
    told = next(one for one in status["conditions"] if one["type"] == "Progressing")
    return told, max(restarts, default=0), max(ready, default=0)


async def test_failures_of_real_containers_are_told_apart(cluster, api, place, tmp_path):
    """A cause that only the log holds ends a rollout at its first end; an engine without tokens never gets ready."""
    async with live.serving(cluster, api, place, tmp_path, served.resource(place, BEHAVIOUR, replicas=1)):
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
