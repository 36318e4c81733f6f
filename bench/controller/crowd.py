"""Many resources on a real API server, and pods that are played by writes of their status.

A SpeculativeDeployment serves its target without speculation, which is where a settled one stands; a DraftTrainingJob
runs its second stage, so that its pod is asked for progress all the time.
"""

import asyncio
import collections
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final

import harness
import kubeletless
import playbook
from paceline.api import names, report, stages
from paceline.controller import apiserver, errors
from paceline.planning import kinds
from paceline.planning.kinds import Kind

NAMESPACES: Final = 10
CLAIMS: Final = ("models", "work")
_AT_ONCE: Final = 16
_TRIES: Final = 60


def deployment(number: int) -> dict[str, Any]:
    """Return a SpeculativeDeployment that serves its baseline."""
    return _resource(
        kinds.SPECULATIVE_DEPLOYMENT,
        number,
        {
            "target": {"uri": "pvc://models/target"},
            "engine": {
                "image": "vllm/vllm-openai:v0.33.0",
                "args": ["--max-model-len=32768"],
                "podTemplate": {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
            },
            "rollout": {"analysis": {"prompts": {"configMap": {"name": "prompts"}}}},
        },
    )


def training_job(number: int) -> dict[str, Any]:
    """Return a DraftTrainingJob."""
    return _resource(
        kinds.DRAFT_TRAINING_JOB,
        number,
        {
            "target": {"uri": "pvc://models/target"},
            "engine": {"image": "vllm/vllm-openai:v0.33.0"},
            "trainer": {"image": "trainer:1"},
            "data": {"prompts": {"configMap": {"name": "prompts"}}},
            "workspace": {"claimName": "work"},
            "output": {"uri": "pvc://models/heads"},
            "activeDeadline": "99999h",
        },
    )


def namespace(number: int) -> str:
    """Return the namespace of a resource."""
    return f"crowd-{number % NAMESPACES}"


def name(number: int) -> str:
    """Return the name of a resource."""
    return f"r{number:04d}"


def _resource(kind: Kind, number: int, spec: Mapping[str, Any]) -> dict[str, Any]:
    meta = {"name": name(number), "namespace": namespace(number)}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": dict(spec)}


async def make(api: harness.Api, *, deployments: range, jobs: range) -> None:
    """Make resources, several at a time; those that exist stay as they are."""
    made = [(kinds.SPECULATIVE_DEPLOYMENT, deployment(number)) for number in deployments]
    made += [(kinds.DRAFT_TRAINING_JOB, training_job(number)) for number in jobs]
    await several(iter(made), lambda one: ensure(api, *one))


async def ensure(api: harness.Api, kind: Kind, manifest: dict[str, Any]) -> None:
    """Make an object, unless one of its name exists; an API server that has no time is asked again."""
    for _ in range(_TRIES):
        try:
            await api.create(kind, manifest)
        except errors.AlreadyExistsError:
            return
        except errors.UnavailableError:
            await asyncio.sleep(1.0)
        else:
            return
    raise SystemExit(f"{kind.kind} {manifest['metadata']['name']} could not be made in {_TRIES} tries")


async def several(items: Iterator[Any], work: Callable[[Any], Any]) -> None:
    """Do ``work`` on every item, ``_AT_ONCE`` at a time."""

    async def one_after_another() -> None:
        for item in items:
            await work(item)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_AT_ONCE):
            tasks.create_task(one_after_another())


@contextlib.asynccontextmanager
async def played(api: harness.Api) -> AsyncIterator[None]:
    """Play every pod of ours for the length of an ``async with`` block."""
    due: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_follow(api, due))]
        running += [tasks.create_task(_play(api, due)) for _ in range(_AT_ONCE)]
        try:
            yield
        finally:
            for task in running:
                task.cancel()


async def _follow(api: harness.Api, due: asyncio.Queue[dict[str, Any]]) -> None:
    """Queue every pod that has a node and no status yet, as the watch tells of it."""
    queued: set[str] = set()
    async for pod in changes(api, kinds.POD):
        uid, told = pod["metadata"]["uid"], pod["status"]
        if told.get("phase") == "Pending" and "podIP" not in told and "nodeName" in pod["spec"] and uid not in queued:
            queued.add(uid)
            due.put_nowait(pod)


async def _play(api: harness.Api, due: asyncio.Queue[dict[str, Any]]) -> None:
    while True:
        pod = await due.get()
        meta = pod["metadata"]
        patch = {"status": kubeletless.status_of(pod, _part_of(pod))}
        try:
            await api.merge(kinds.POD, meta["namespace"], meta["name"], patch, subresource="status")
        except errors.NotFoundError:
            pass  # it went meanwhile
        except errors.TransientError:
            due.put_nowait(pod)


def _part_of(pod: Mapping[str, Any]) -> kubeletless.Play:
    labels = pod["metadata"]["labels"]
    if "inspect" in (labels.get(names.LABEL_PART), labels.get(names.LABEL_STAGE)):
        told = report.encode(stages.StageReport(result=playbook.FACTS))
        return kubeletless.Play(phase="Succeeded", message=told)
    return kubeletless.Play(phase="Running")


async def changes(api: harness.Api, kind: Kind) -> AsyncIterator[dict[str, Any]]:
    """Yield every object of ours of a kind, what exists first, then as it changes; for ever."""
    query = {"labelSelector": f"{names.LABEL_MANAGED_BY}={names.FIELD_MANAGER}"} if kind not in kinds.OURS else {}
    while True:
        listed = await api.server.request("GET", apiserver.collection(kind, None), query=query, timeout_s=60.0)
        for one in listed["items"]:
            yield one
        watch = {**query, "watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
        with contextlib.suppress(errors.TransientError):
            async for event in api.server.stream(apiserver.collection(kind, None), query=watch):
                if event["type"] in ("ADDED", "MODIFIED"):
                    yield event["object"]


async def standing(api: harness.Api) -> collections.Counter[str]:
    """Return how many resources stand where they are to stay, by kind."""
    found: collections.Counter[str] = collections.Counter()
    for kind, is_there in ((kinds.SPECULATIVE_DEPLOYMENT, _serves), (kinds.DRAFT_TRAINING_JOB, _runs)):
        with contextlib.suppress(errors.UnavailableError):  # it is busy: nobody is counted, and all are asked again
            listed = await api.server.request("GET", apiserver.collection(kind, None), timeout_s=60.0)
            found[kind.kind] = sum(is_there(one.get("status") or {}) for one in listed["items"])
    return found


def _serves(status: Mapping[str, Any]) -> bool:
    told = {one["type"]: one["status"] for one in status.get("conditions", ())}
    return told.get("Available") == "True" and told.get("Progressing") == "False"


def _runs(status: Mapping[str, Any]) -> bool:
    return any(one["name"] == "Prepare" and one["state"] == "Running" for one in status.get("stages", ()))
