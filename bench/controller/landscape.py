"""Nodes without machines: one that takes the crowd's pods, and a cluster full of other people's nodes and pods.

The scheduler binds pods to the first; who plays their kubelet is ``crowd``. The others are what an operator on a large
cluster has in its watches of nodes and pods: of no use to it, and paid for all the same.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import crowd

import harness
from paceline.controller import apiserver, errors
from paceline.planning import kinds
from paceline.planning.kinds import Kind

_ACCOUNT: Final = Kind(api_version="v1", kind="ServiceAccount", plural="serviceaccounts")
_VOLUME: Final = Kind(api_version="v1", kind="PersistentVolume", plural="persistentvolumes", namespaced=False)
_CLAIM: Final = Kind(api_version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims")
_HOME: Final = "crowd-home"
_FOREIGN: Final = "foreign"
# A bed takes a node for lost that has said nothing for eight seconds.
_BEAT_S: Final = 3.0
_GPUS: Final = 8


@contextlib.asynccontextmanager
async def home(api: harness.Api) -> AsyncIterator[None]:
    """Keep one node Ready that has room for the whole crowd, for the length of an ``async with`` block."""
    room = {"cpu": "1M", "memory": "1Pi", "ephemeral-storage": "1Pi", "pods": "100k", "nvidia.com/gpu": "100k"}
    await _ensure_node(api, _HOME, room=room)
    beating = asyncio.create_task(_beat(api))
    try:
        yield
    finally:
        beating.cancel()


async def _beat(api: harness.Api) -> None:
    """Say that the node is well, as its kubelet would; one that was taken for lost comes back by that."""
    while True:
        with contextlib.suppress(errors.ControllerError):
            await _say_ready(api, _HOME, {})
        await asyncio.sleep(_BEAT_S)


async def _say_ready(api: harness.Api, name: str, status: dict[str, Any]) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    told = {"type": "Ready", "status": "True", "reason": "Played", "lastHeartbeatTime": now, "lastTransitionTime": now}
    await api.server.request(
        "PATCH",
        f"{kinds.NODE.path}/{kinds.NODE.plural}/{name}/status",
        body={"status": {**status, "conditions": [told]}},
        content_type="application/strategic-merge-patch+json",
    )


async def namespaces(api: harness.Api) -> None:
    """Make the crowd's namespaces, with the claims that its pods mount: the scheduler waits until they are bound."""
    for number in range(crowd.NAMESPACES):
        await crowd.ensure(api, harness.NAMESPACE, _manifest(harness.NAMESPACE, {"name": crowd.namespace(number)}, {}))
        for name in crowd.CLAIMS:
            place = {"name": name, "namespace": crowd.namespace(number)}
            volume = f"{place['namespace']}-{name}"
            size, modes = {"storage": "1Ti"}, ["ReadWriteMany"]
            kept = {"capacity": size, "accessModes": modes, "claimRef": place, "storageClassName": "fixed"}
            kept |= {"nfs": {"server": "files.example", "path": f"/{volume}"}}
            asked = {"resources": {"requests": size}, "accessModes": modes, "volumeName": volume}
            asked |= {"storageClassName": "fixed"}
            await crowd.ensure(api, _VOLUME, _manifest(_VOLUME, {"name": volume}, kept))
            await crowd.ensure(api, _CLAIM, _manifest(_CLAIM, place, asked))


def _manifest(kind: Kind, meta: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


async def others(api: harness.Api, *, nodes: int, pods: int) -> None:
    """Make nodes with GPUs, and pods spread over them of which every third holds one; those that exist stay."""
    room = {"cpu": "128", "memory": "2Ti", "pods": "250", "nvidia.com/gpu": str(_GPUS)}
    await crowd.several(iter(range(nodes)), lambda number: _ensure_node(api, f"{_FOREIGN}-{number}", room=room))
    await crowd.ensure(api, harness.NAMESPACE, _manifest(harness.NAMESPACE, {"name": _FOREIGN}, {}))
    # No pod can be made before its namespace has an account for it.
    account = apiserver.item(_ACCOUNT, _FOREIGN, "default")
    async with asyncio.timeout(60):
        while not await _exists(api, account):  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.2)
    await crowd.several(pods_of(nodes, pods), lambda pod: crowd.ensure(api, kinds.POD, pod))


async def _exists(api: harness.Api, path: str) -> bool:
    try:
        await api.server.request("GET", path)
    except errors.NotFoundError:
        return False
    return True


def pods_of(nodes: int, pods: int) -> Iterator[dict[str, Any]]:
    """Yield pods as long as people's are: a main container and a sidecar, with settings, probes and volumes."""
    for number in range(pods):
        holds = number % 3 == 0 and number // 3 < nodes * _GPUS
        resources = {"limits": {"cpu": "4", "memory": "16Gi"} | ({"nvidia.com/gpu": "1"} if holds else {})}
        settings = [{"name": f"SETTING_{one}", "value": "x" * 40} for one in range(30)]
        mounts = [{"name": "work", "mountPath": "/work"}]
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{number:05d}", "namespace": _FOREIGN, "labels": {"app": f"app-{number % 200}"}},
            "spec": {
                "nodeName": f"{_FOREIGN}-{number % nodes}",
                "tolerations": [{"operator": "Exists"}],
                "automountServiceAccountToken": False,
                "containers": [
                    {"name": name, "image": "app:1", "env": settings, "resources": own, "volumeMounts": mounts}
                    for name, own in (("main", resources), ("proxy", {"limits": {"cpu": "1", "memory": "1Gi"}}))
                ],
                "volumes": [{"name": "work", "emptyDir": {}}],
            },
        }


async def _ensure_node(api: harness.Api, name: str, *, room: dict[str, str]) -> None:
    is_home = name == _HOME
    # Others' nodes are as good as gone for the scheduler: none of the crowd's pods may go there.
    spec = {} if is_home else {"unschedulable": True, "taints": [{"key": "others", "effect": "NoSchedule"}]}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name, "pool": "a"}}
    await crowd.ensure(api, kinds.NODE, {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec})
    await _say_ready(api, name, {"capacity": room, "allocatable": room})
