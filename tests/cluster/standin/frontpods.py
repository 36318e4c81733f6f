"""The pods behind a resource's front Service, as a test takes them away and waits for others."""

import asyncio
from collections.abc import Mapping
from typing import Any

import harness
from paceline.planning import kinds

Pod = Mapping[str, Any]


async def selected(api: harness.Api, namespace: str, name: str) -> list[Pod]:
    """Return the pods that the front Service selects, those that end among them."""
    wanted = (await api.get(kinds.SERVICE, namespace, name))["spec"]["selector"]
    pods = await api.items(kinds.POD, namespace)
    return [pod for pod in pods if wanted.items() <= pod["metadata"]["labels"].items()]


async def ready(api: harness.Api, namespace: str, name: str, *, count: int, within_s: float = 240.0) -> list[Pod]:
    """Wait until so many pods serve, and none that is to go is left; return them."""
    async with asyncio.timeout(within_s):
        while True:
            found = await selected(api, namespace, name)
            if len(found) == count and all(map(is_ready, found)):
                return found
            await asyncio.sleep(0.5)


def is_ready(pod: Pod) -> bool:
    """Whether a pod is ready and stays."""
    told = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
    return told.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


async def evict(api: harness.Api, pod: Pod) -> None:
    """Ask for a pod's eviction, as a drain of its node does."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    await api.server.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body=body)
