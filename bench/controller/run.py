"""What the controller costs with many resources: latency, memory, calls, processor time, and start-up.

    PYTHONPATH=operator:tests:tests/cluster python bench/controller/run.py --sizes 100,1000 --others 200,5000

Brings up a control plane of its own (without a node) by the name of --bed, and leaves it up if it was. At each size N
there are N SpeculativeDeployments and N/5 DraftTrainingJobs, and beside them other people's nodes and pods. The
operator is the real process with its real settings but for a short resync, so that looking at everything again is part
of every figure. One JSON file a size is written to --out.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

import counters
import crowd
import landscape
import latency

import harness
from bedctl import provider, status
from paceline.planning import kinds

_RESYNC_S: Final = 30.0
_SETTINGS: Final = {
    "PACELINE_NAMESPACE": "default",
    "PACELINE_LOG_LEVEL": "info",
    "PACELINE_RESYNC": f"{_RESYNC_S:.0f}s",
    # A machine that runs the API server, etcd and this script beside it is slow to answer a renewal.
    "PACELINE_LEASE_DURATION": "90s",
    "PACELINE_LEASE_RENEW_DEADLINE": "60s",
}


async def settled(api: harness.Api, *, size: int, within_s: float) -> float:
    """Wait until everything stands where it stays; return the seconds that took."""
    began = time.monotonic()
    wanted = {kinds.SPECULATIVE_DEPLOYMENT.kind: size, kinds.DRAFT_TRAINING_JOB.kind: size // 5}
    while (found := await crowd.standing(api)) != wanted:
        if time.monotonic() - began > within_s:
            raise SystemExit(f"not settled within {within_s:.0f} s: {dict(found)} of {wanted}")
        _say(f"{dict(found)} of {size} and {size // 5} stand, after {time.monotonic() - began:.0f} s")
        # Counting costs the API server a list of everything.
        await asyncio.sleep(5.0 + size / 100)
    return time.monotonic() - began


async def start_up(operator: harness.Operator, *, keys: int) -> dict[str, float]:
    """Return the seconds from now until a fresh process has its caches, and has looked at every resource once."""
    began = time.monotonic()
    await operator.ready(within_s=300.0)
    synced_s = time.monotonic() - began
    await operator.leading(within_s=300.0)
    while (await asyncio.to_thread(counters.read, operator)).passes < keys:  # noqa: ASYNC110 - another process counts
        await asyncio.sleep(0.2)
    return {"syncedS": round(synced_s, 1), "allSeenS": round(time.monotonic() - began, 1)}


async def measure(options: argparse.Namespace, api: harness.Api, kubeconfig: Path, size: int) -> dict[str, Any]:
    """Return all figures at one size."""
    log = Path(tempfile.gettempdir()) / f"bench-controller-{options.bed}-{size}.log"
    _say(f"making {size} and {size // 5}; the operator's log is {log}")
    answer: dict[str, Any] = {"deployments": size, "trainingJobs": size // 5, "cores": os.cpu_count()}
    answer |= dict(zip(("othersNodes", "othersPods"), options.others, strict=True))
    with harness.run_operator(kubeconfig, log=log, **_SETTINGS) as operator:
        await operator.leading(within_s=300.0)
        began = await asyncio.to_thread(counters.read, operator)
        await crowd.make(api, deployments=range(size), jobs=range(size // 5))
        await settled(api, size=size, within_s=options.patience_s)
        answer["settling"] = counters.between(began, counters.read(operator)) | counters.memory(operator)
        operator.stop()
    _say(json.dumps(answer["settling"]))
    with harness.run_operator(kubeconfig, log=log, **_SETTINGS) as operator:
        answer["startUp"] = await start_up(operator, keys=size + size // 5)
        answer["startUp"] |= counters.memory(operator)
        _say(json.dumps(answer["startUp"]))
        await asyncio.sleep(_RESYNC_S)
        answer["atRest"] = await counters.during(operator, asyncio.sleep(2 * _RESYNC_S))
        _say(json.dumps(answer["atRest"]))
        edits = latency.measure(api, size=size, changes=options.changes, per_s=options.per_s)
        answer["edits"] = await counters.during(operator, edits)
        _say(json.dumps(answer["edits"]))
        answer["atEnd"] = counters.memory(operator)
        operator.stop()
    return answer


async def run(options: argparse.Namespace) -> None:
    """Measure at every size, the smallest first."""
    options.out.mkdir(parents=True, exist_ok=True)
    found = status.describe(options.bed)["state"] == "running"
    bed = provider.Embedded(name=options.bed)
    cluster = bed.up(nodes=0, mounts=())
    try:
        async with harness.connect(cluster.kubeconfig) as api:
            await harness.install_crds(api)
            async with landscape.home(api), crowd.played(api):
                await landscape.namespaces(api)
                nodes, pods = options.others
                _say(f"making {nodes} nodes and {pods} pods of others")
                await landscape.others(api, nodes=nodes, pods=pods)
                for size in sorted(options.sizes):
                    answer = await measure(options, api, cluster.kubeconfig, size)
                    (options.out / f"controller-{size}.json").write_text(json.dumps(answer, indent=1) + "\n")
    finally:
        if not found:
            bed.down()


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def _options() -> argparse.Namespace:
    parse = argparse.ArgumentParser(description="Measures the controller with many resources.")
    parse.add_argument("--sizes", type=_numbers, default=[100, 1000])
    parse.add_argument("--others", type=_numbers, default=[200, 5000], help="nodes and pods of others, as 200,5000")
    parse.add_argument("--changes", type=int, default=200, help="edits whose latency is taken, at each size")
    parse.add_argument("--per-s", type=float, default=5.0, help="so many of them a second")
    parse.add_argument("--patience-s", type=float, default=3600.0, help="longest wait for everything to settle")
    parse.add_argument("--bed", default="bench", help="name of the control plane")
    parse.add_argument("--out", type=Path, default=Path("bench/results"), help="folder for controller-N.json")
    return parse.parse_args()


if __name__ == "__main__":
    asyncio.run(run(_options()))
