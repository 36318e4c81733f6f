"""Nodes that exist in the API alone, with devices for the real scheduler to count, and a kubelet that only lets go.

A node without a kubelet would be lost within seconds, so its Ready condition is renewed; and a pod that was bound to it
would end for ever, so what is being deleted is let go after a moment, as a server that drains would.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import harness
from paceline.api import names
from paceline.controller import apiserver, errors
from paceline.planning import kinds

GPU = "nvidia.com/gpu"
POOL = "paceline.dev/test-pool"
_BEAT_S = 2.0


def template(pool: str, gpus: int, **more: Any) -> dict[str, Any]:
    """Return the pod template of servers that take so many GPUs on the test's own nodes."""
    return {
        "nodeSelector": {POOL: pool},
        "tolerations": [{"key": POOL, "operator": "Exists"}],
        "resources": {"limits": {GPU: str(gpus)}},
        **more,
    }


@contextlib.asynccontextmanager
async def nodes(api: harness.Api, pool: str, gpus: Mapping[str, int]) -> AsyncIterator[None]:
    """Have nodes with devices for the length of an ``async with`` block, tainted so that only their pool comes."""
    created = [f"{pool}-{name}" for name in gpus]
    for name, count in zip(created, gpus.values(), strict=True):
        await add(api, pool, name, count)
    kubelet = asyncio.create_task(_live(api, pool))
    try:
        yield
    finally:
        kubelet.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await kubelet
        for node in await api.items(kinds.NODE, None):
            if (node["metadata"].get("labels") or {}).get(POOL) == pool:
                await api.server.request("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")


async def add(api: harness.Api, pool: str, name: str, count: int) -> None:
    """Make one node."""
    taints = [{"key": POOL, "value": pool, "effect": "NoSchedule"}]
    meta = {"name": name, "labels": {POOL: pool, "kubernetes.io/hostname": name}}
    await api.create(kinds.NODE, {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": taints}})
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(count)}
    await _patch(api, name, {"capacity": amounts, "allocatable": amounts, "conditions": [_ready()]})


async def _live(api: harness.Api, pool: str) -> None:
    while True:
        own = [
            node["metadata"]["name"]
            for node in await api.items(kinds.NODE, None)
            if (node["metadata"].get("labels") or {}).get(POOL) == pool
        ]
        for name in own:
            with contextlib.suppress(errors.TransientError):
                await _patch(api, name, {"conditions": [_ready()]})
        for pod in await api.items(kinds.POD, None):
            if pod["spec"].get("nodeName") in own and "deletionTimestamp" in pod["metadata"]:
                await _let_go(api, pod)
        await asyncio.sleep(_BEAT_S)


async def _let_go(api: harness.Api, pod: Mapping[str, Any]) -> None:
    path = apiserver.item(kinds.POD, pod["metadata"]["namespace"], pod["metadata"]["name"])
    with contextlib.suppress(errors.ControllerError):
        await api.server.request("DELETE", path, body={"gracePeriodSeconds": 0})


async def _patch(api: harness.Api, name: str, status: Mapping[str, Any]) -> None:
    await api.server.request(
        "PATCH",
        f"/api/v1/nodes/{name}/status",
        body={"status": dict(status)},
        content_type="application/strategic-merge-patch+json",
    )


def _ready() -> dict[str, str]:
    now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "Ready", "status": "True", "reason": "Faked", "lastHeartbeatTime": now, "lastTransitionTime": now}


def is_bound(pod: Mapping[str, Any]) -> bool:
    """Whether the scheduler has given a pod a node."""
    return bool(pod["spec"].get("nodeName"))


def waits_for_devices(pod: Mapping[str, Any]) -> bool:
    """Whether a pod asks for devices and has no node yet."""
    limits = (one.get("resources", {}).get("limits") or {} for one in pod["spec"]["containers"])
    return not is_bound(pod) and any(GPU in one for one in limits)


def is_server(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is a server of ours."""
    return names.LABEL_REVISION in (pod["metadata"].get("labels") or {})
