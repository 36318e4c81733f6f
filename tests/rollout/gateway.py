"""The Gateway API in the model of a cluster: a user's HTTPRoute, and a gateway that answers for it."""

import copy
from collections.abc import Sequence
from typing import Any

from paceline.api import names
from paceline.planning import kinds
from rollout import builders
from rollout.cluster import Cluster

NAME = "llm"
TIMEOUTS = {"request": "0s"}
OTHER = {
    "matches": [{"path": {"type": "PathPrefix", "value": "/docs"}}],
    "backendRefs": [{"group": "", "kind": "Service", "name": "docs", "port": 80, "weight": 1}],
}


def front(weight: int = 1) -> dict[str, Any]:
    """Return the backend of the front Service, as the API server stores it."""
    return {"group": "", "kind": "Service", "name": builders.NAME, "port": 8000, "weight": weight}


def rule(*backends: dict[str, Any]) -> dict[str, Any]:
    """Return a rule of a user's with a time-out of its own."""
    matches = [{"path": {"type": "PathPrefix", "value": "/v1"}}]
    return {"matches": matches, "timeouts": TIMEOUTS, "backendRefs": [*backends]}


def route(*rules: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """Return a user's HTTPRoute: by default one rule to the front Service, and one that is no business of ours."""
    return {
        "apiVersion": kinds.HTTP_ROUTE.api_version,
        "kind": kinds.HTTP_ROUTE.kind,
        "metadata": {
            "name": NAME,
            "namespace": builders.NAMESPACE,
            "uid": "uid-of-route",
            "generation": 1,
            "labels": {"team": "search"},
            "annotations": {"example.com/owner": "search", **annotations},
        },
        "spec": {
            "parentRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "public"}],
            "hostnames": ["llm.example.com"],
            "rules": [*rules] or [rule(front()), OTHER],
        },
    }


def answer(manifest: dict[str, Any], *, accepted: bool = True, message: str = "") -> dict[str, Any]:
    """Return a route with what a gateway says of its newest version."""
    generation = manifest["metadata"]["generation"]
    told = [
        {"type": kind, "status": status, "reason": kind, "message": message, "observedGeneration": generation}
        for kind, status in (("Accepted", str(accepted)), ("ResolvedRefs", "True"))
    ]
    made = copy.deepcopy(manifest)
    made["status"] = {"parents": [{"controllerName": "example.com/gateway", "conditions": told}]}
    return made


def play(cluster: Cluster) -> None:
    """Let the gateway take in the route's newest version."""
    found = cluster.store.get((kinds.HTTP_ROUTE.kind, NAME))
    if found is not None and (answered := answer(found)) != found:
        cluster.put(answered)


def stored(cluster: Cluster) -> dict[str, Any]:
    """Return the route as it is."""
    return cluster.store[kinds.HTTP_ROUTE.kind, NAME]


def split(cluster: Cluster) -> dict[str, int]:
    """Return the weights of the first rule, by what the revisions behind them draft; the front Service is ``front``."""
    services = {one["metadata"]["name"]: one for one in cluster.objects(kinds.SERVICE)}
    found: dict[str, int] = {}
    for one in backends(cluster):
        short = services[one["name"]]["spec"]["selector"].get(names.LABEL_REVISION, "")
        found["front" if one["name"] == builders.NAME else cluster.title(short)] = one["weight"]
    return found


def backends(cluster: Cluster) -> Sequence[dict[str, Any]]:
    """Return the backends of the first rule."""
    found: Sequence[dict[str, Any]] = stored(cluster)["spec"]["rules"][0]["backendRefs"]
    return found
