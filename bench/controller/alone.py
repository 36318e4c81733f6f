"""What the operator's process costs by itself at a size, against an API server in memory.

    PYTHONPATH=operator:tests:tests/cluster python bench/controller/alone.py --sizes 100,1000 --others 200,5000

The resources speculate and are guarded, as after a promotion; nobody answers for their metrics. What takes processor
time here is the operator's own, so it says the same on a busy machine.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

import counters
import landscape
import latency
import memoryapi

import harness
from paceline.controller import apiserver
from paceline.planning import kinds
from rollout import builders
from rollout.cluster import Cluster

_SPECULATING: Final = "EAGLE3 k=3"
_REST_S: Final = 30.0


def settled() -> list[dict[str, Any]]:
    """Return the objects of one resource that serves a promoted head."""
    model = Cluster()
    model.speeds[_SPECULATING] = 1.5
    model.settle()
    return [one for (kind, _), one in model.store.items() if kind in kinds.BY_KIND and kind != kinds.REPLICA_SET.kind]


def fill(server: memoryapi.MemoryApi, *, size: int, others: tuple[int, int]) -> None:
    """Put ``size`` resources with their children into the server, each in a namespace of its own."""
    text = json.dumps(settled())
    for number in range(size):
        own = text.replace(f'"{builders.NAMESPACE}"', f'"{_namespace(number)}"').replace('"uid-', f'"uid-{number}-')
        for one in json.loads(own):
            kind, meta = kinds.BY_KIND[one["kind"]], one["metadata"]
            server.kept.put(apiserver.item(kind, meta["namespace"], meta["name"]), one)
    nodes, pods = others
    for number in range(nodes):
        status = {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
        server.kept.put(f"/api/v1/nodes/foreign-{number}", {"kind": "Node", "metadata": {}, "status": status})
    server.others = [
        {**pod, "metadata": {**pod["metadata"], "uid": f"foreign-{number}", "resourceVersion": "1"}}
        for number, pod in enumerate(landscape.pods_of(nodes, pods))
    ]
    server.kept.log.clear()


async def measure(size: int, *, others: tuple[int, int], changes: int, per_s: float) -> dict[str, Any]:
    """Return what a process costs that starts on ``size`` settled resources."""
    followed: dict[str, float] = {}

    def written(_verb: str, path: str, at: float) -> None:
        if "/services/" in path:
            followed.setdefault(path.split("/")[4], at)

    server = memoryapi.MemoryApi(written)
    fill(server, size=size, others=others)
    runner, address = await server.start()
    folder = Path(tempfile.mkdtemp(prefix="bench-alone-"))
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(address)))
    answer: dict[str, Any] = {"deployments": size, "othersNodes": others[0], "othersPods": others[1]}
    settings = {"PACELINE_NAMESPACE": "default", "PACELINE_LOG_LEVEL": "info", "PACELINE_LEASE_DURATION": "90s"}
    with harness.run_operator(
        kubeconfig, log=folder / "operator.log", **settings, PACELINE_LEASE_RENEW_DEADLINE="60s"
    ) as operator:
        began = time.monotonic()
        while (await asyncio.to_thread(counters.read, operator)).passes < size:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.5)
        started = await asyncio.to_thread(counters.read, operator)
        answer["startUp"] = {
            "allSeenS": round(time.monotonic() - began, 1),
            "cpuS": round(started.cpu_s, 1),
            **counters.memory(operator),
        }
        await asyncio.sleep(_REST_S)
        answer["atRest"] = await counters.during(operator, asyncio.sleep(_REST_S))
        edits = _edits(server, followed, size=size, changes=changes, per_s=per_s)
        answer["edits"] = await counters.during(operator, edits)
        await asyncio.to_thread(operator.stop)  # it gives its Lease back to us
    await runner.cleanup()
    return answer


async def _edits(
    server: memoryapi.MemoryApi, followed: dict[str, float], *, size: int, changes: int, per_s: float
) -> dict[str, Any]:
    followed.clear()
    sent: dict[str, float] = {}
    for number in random.Random(size).sample(range(size), min(size, changes)):  # noqa: S311 - which ones is no secret
        path = apiserver.item(kinds.SPECULATIVE_DEPLOYMENT, _namespace(number), builders.NAME)
        one = server.kept.objects[path]
        meta = {**one["metadata"], "generation": one["metadata"]["generation"] + 1}
        spec = {**one["spec"], "traffic": {**(one["spec"].get("traffic") or {}), "port": 8123}}
        sent[_namespace(number)] = time.monotonic()
        server.kept.put(path, {**one, "metadata": meta, "spec": spec})
        await asyncio.sleep(1.0 / per_s)
    async with asyncio.timeout(120):
        while len(followed) < len(sent):  # noqa: ASYNC110 - another process writes
            await asyncio.sleep(0.1)
    return {"editToChildWriteS": latency.quantiles([followed[place] - at for place, at in sent.items()])}


def _namespace(number: int) -> str:
    return f"crowd-{number:04d}"


def _kubeconfig(address: str) -> dict[str, Any]:
    named = {"name": "alone"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "alone",
        "contexts": [{**named, "context": {"cluster": "alone", "user": "alone"}}],
        "clusters": [{**named, "cluster": {"server": address}}],
        "users": [{**named, "user": {"token": "none"}}],
    }


async def run(options: argparse.Namespace) -> None:
    """Measure at every size."""
    options.out.mkdir(parents=True, exist_ok=True)
    for size in options.sizes:
        answer = await measure(size, others=tuple(options.others), changes=options.changes, per_s=options.per_s)
        sys.stderr.write(json.dumps(answer) + "\n")
        (options.out / f"controller-alone-{size}.json").write_text(json.dumps(answer, indent=1) + "\n")


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


if __name__ == "__main__":
    parse = argparse.ArgumentParser(description="Measures the operator's process by itself.")
    parse.add_argument("--sizes", type=_numbers, default=[100, 1000])
    parse.add_argument("--others", type=_numbers, default=[200, 5000], help="nodes and pods of others, as 200,5000")
    parse.add_argument("--changes", type=int, default=100, help="edits whose latency is taken, at each size")
    parse.add_argument("--per-s", type=float, default=2.0, help="so many of them a second")
    parse.add_argument("--out", type=Path, default=Path("bench/results"), help="folder for controller-alone-N.json")
    asyncio.run(run(parse.parse_args()))
