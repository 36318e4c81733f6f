"""Plays the kubelet on a control plane without nodes: says of pods what a test's script wants to be said.

The real controllers of Jobs and Deployments run and make the pods; only the pods' own status is played, so what the
operator sees of Jobs and Deployments is Kubernetes' own conclusion.
"""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import harness
from paceline.controller import errors
from paceline.planning import kinds

_NOW = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What is said of one pod."""

    phase: Literal["Running", "Succeeded", "Failed"]
    message: str = ""
    """Termination message of the first container."""
    exit_code: int = 0
    reason: str = ""
    """Why the container ended, such as ``OOMKilled``; else Completed or Error."""
    is_ready: bool = True
    """Whether a running pod passes its readiness probe."""
    ip: str = "127.0.0.1"
    restarts: int = 0
    disrupted: bool = False
    """Whether the cluster took the pod away: condition DisruptionTarget."""


Script = Callable[[Mapping[str, Any]], Play | Awaitable[Play | None] | None]
"""Given a pod, what is said of it, also as a coroutine; None leaves it Pending."""


@contextlib.asynccontextmanager
async def playing(api: harness.Api, namespace: str, script: Script, *, every_s: float = 0.1) -> AsyncIterator[None]:
    """Play all pods of a namespace for the length of an ``async with`` block; a script's error is raised at its end."""
    task = asyncio.create_task(_play(api, namespace, script, every_s))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _play(api: harness.Api, namespace: str, script: Script, every_s: float) -> None:
    said: dict[str, Play] = {}
    while True:
        for pod in await api.items(kinds.POD, namespace):
            meta = pod["metadata"]
            if "deletionTimestamp" in meta or pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            found = script(pod)
            play = await found if inspect.isawaitable(found) else found
            if play is not None and said.get(meta["uid"]) != play:
                # A pod may go between the list and the patch.
                with contextlib.suppress(errors.TransientError):
                    patch = {"status": status_of(pod, play)}
                    await api.merge(kinds.POD, namespace, meta["name"], patch, subresource="status")
                    said[meta["uid"]] = play
        await asyncio.sleep(every_s)


def status_of(pod: Mapping[str, Any], play: Play) -> dict[str, Any]:
    """Return the pod status that stands for ``play``."""
    spec = pod["spec"]
    is_running = play.phase == "Running"
    ready = "True" if is_running and play.is_ready else "False"
    conditions = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": ready, "Ready": ready}
    if play.disrupted:
        conditions["DisruptionTarget"] = "True"
    return {
        "phase": play.phase,
        "podIP": play.ip,
        "podIPs": [{"ip": play.ip}],
        "startTime": _NOW,
        "conditions": [
            {"type": name, "status": value, "lastTransitionTime": _NOW} for name, value in conditions.items()
        ],
        "containerStatuses": [
            _container(container, play, is_first=position == 0) for position, container in enumerate(spec["containers"])
        ],
        "initContainerStatuses": [
            _container(container, play, is_first=False) for container in spec.get("initContainers") or ()
        ],
    }


def _container(container: Mapping[str, Any], play: Play, *, is_first: bool) -> dict[str, Any]:
    state: dict[str, Any] = {"running": {"startedAt": _NOW}}
    if play.phase != "Running":
        code = play.exit_code if is_first else 0
        state = {
            "terminated": {
                "exitCode": code,
                "reason": (play.reason if is_first else "") or ("Error" if code else "Completed"),
                "message": play.message if is_first else "",
                "startedAt": _NOW,
                "finishedAt": _NOW,
            }
        }
    is_ready = play.phase == "Running" and play.is_ready
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": is_ready,
        "started": is_ready,
        "restartCount": play.restarts if is_first else 0,
        "state": state,
    }
