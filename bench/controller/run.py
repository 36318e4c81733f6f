"""What the controller costs with many resources: latency, memory, calls, processor time, and start-up.

    PYTHONPATH=operator:tests:tests/cluster python bench/controller/run.py --sizes 100,1000 --report FILE

Brings up a control plane of its own (without a node) by the name of --bed, and leaves it up if it was. At each size N
there are N SpeculativeDeployments and N/5 DraftTrainingJobs. The operator is the real process with its real settings
but for a short resync, so that looking at everything again is part of every figure.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

import crowd
from prometheus_client import parser

import harness
from bedctl import provider, status
from paceline.planning import kinds

_RESYNC_S: Final = 30.0
_MIB: Final = 1024 * 1024
_SETTINGS: Final = {
    "PACELINE_LOG_LEVEL": "info",
    "PACELINE_RESYNC": f"{_RESYNC_S:.0f}s",
    # A machine that runs the API server, etcd and this script beside it is slow to answer a renewal.
    "PACELINE_LEASE_DURATION": "90s",
    "PACELINE_LEASE_RENEW_DEADLINE": "60s",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """The operator's own counters at one moment."""

    at: float
    cpu_s: float
    passes: float
    writes: float
    """To resources and their children: neither renewals of the Lease nor events."""
    requests: dict[str, float]


def read(operator: harness.Operator) -> Reading:
    """Return what the process has done so far."""
    requests: dict[str, float] = {}
    passes = writes = 0.0
    for family in parser.text_string_to_metric_families(operator.ask("/metrics")[1]):
        for sample in family.samples:
            if sample.name == "paceline_api_requests_total":
                requests[sample.labels["verb"]] = requests.get(sample.labels["verb"], 0.0) + sample.value
            elif sample.name == "paceline_passes_total":
                passes += sample.value
            elif sample.name == "paceline_writes_total":
                writes += sample.value
    fields = Path(f"/proc/{operator.pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return Reading(
        at=time.monotonic(), cpu_s=ticks / os.sysconf("SC_CLK_TCK"), passes=passes, writes=writes, requests=requests
    )


async def settled(api: harness.Api, *, size: int, within_s: float) -> float:
    """Wait until everything stands where it stays; return the seconds that took."""
    began = time.monotonic()
    wanted = {kinds.SPECULATIVE_DEPLOYMENT.kind: size, kinds.DRAFT_TRAINING_JOB.kind: size // 5}
    while (found := await crowd.standing(api)) != wanted:
        if time.monotonic() - began > within_s:
            raise SystemExit(f"not settled within {within_s:.0f} s: {dict(found)} of {wanted}")
        _say(f"{dict(found)} of {size} and {size // 5}")
        await asyncio.sleep(5.0)
    return time.monotonic() - began


async def at_rest(operator: harness.Operator, seconds: float) -> dict[str, Any]:
    """Return what a settled crowd costs while nothing happens but resyncs."""
    before = await asyncio.to_thread(read, operator)
    await asyncio.sleep(seconds)
    after = await asyncio.to_thread(read, operator)
    span = after.at - before.at
    calls = {verb: round(count - before.requests.get(verb, 0.0)) for verb, count in sorted(after.requests.items())}
    passes = after.passes - before.passes
    return {
        "seconds": round(span),
        "passes": round(passes),
        "writes": round(after.writes - before.writes),
        "calls": calls,
        "cpuMsAPass": round(1000 * (after.cpu_s - before.cpu_s) / max(passes, 1.0), 2),
        "cpuPercent": round(100 * (after.cpu_s - before.cpu_s) / span, 1),
        "rssMiB": round(operator.rss_bytes() / _MIB),
    }


async def latencies(api: harness.Api, *, size: int, changes: int, every_s: float) -> list[float]:
    """Edit resources one after another; return the seconds from each edit to the write of its front Service."""
    edited: dict[tuple[str, str], float] = {}
    seconds: list[float] = []
    port = 8000 + random.randrange(1, 1000)  # noqa: S311 - another one than last time

    async def watch() -> None:
        async for one in crowd.changes(api, kinds.SERVICE):
            place = one["metadata"]["namespace"], one["metadata"]["name"]
            if place in edited and one["spec"]["ports"][0]["port"] == port:
                seconds.append(time.monotonic() - edited.pop(place))

    watching = asyncio.create_task(watch())
    await asyncio.sleep(2.0)
    for number in random.Random(size).sample(range(size), min(size, changes)):  # noqa: S311 - which ones is no secret
        place = crowd.namespace(number), f"r{number:04d}"
        edited[place] = time.monotonic()
        await api.merge(kinds.SPECULATIVE_DEPLOYMENT, *place, {"spec": {"traffic": {"port": port}}})
        await asyncio.sleep(every_s)
    async with asyncio.timeout(120):
        while edited:  # noqa: ASYNC110 - the watch above empties it
            await asyncio.sleep(0.1)
    watching.cancel()
    return seconds


async def start_up(operator: harness.Operator, *, keys: int) -> float:
    """Return the seconds from now until a fresh process has looked at every resource once."""
    began = time.monotonic()
    await operator.ready(within_s=300.0)
    await operator.leading(within_s=300.0)
    while (await asyncio.to_thread(read, operator)).passes < keys:  # noqa: ASYNC110 - another process counts
        await asyncio.sleep(0.2)
    return time.monotonic() - began


async def measure(options: argparse.Namespace, api: harness.Api, kubeconfig: Path, size: int) -> dict[str, Any]:
    """Return all figures at one size."""
    _say(f"making {size} and {size // 5}")
    log = options.report.with_suffix(f".{size}.log")
    answer: dict[str, Any] = {"deployments": size, "trainingJobs": size // 5}
    with harness.run_operator(kubeconfig, log=log, PACELINE_NAMESPACE="default", **_SETTINGS) as operator:
        await operator.leading(within_s=300.0)
        await crowd.make(api, deployments=range(size), jobs=range(size // 5))
        answer["settledS"] = round(await settled(api, size=size, within_s=options.patience_s))
        answer["rssAfterSettlingMiB"] = round(operator.rss_bytes() / _MIB)
        operator.stop()
    with harness.run_operator(kubeconfig, log=log, PACELINE_NAMESPACE="default", **_SETTINGS) as operator:
        answer["startUpS"] = round(await start_up(operator, keys=size + size // 5), 1)
        await asyncio.sleep(_RESYNC_S)
        answer["atRest"] = await at_rest(operator, 2 * _RESYNC_S)
        answer["changeToWriteS"] = quantiles(
            await latencies(api, size=size, changes=options.changes, every_s=options.every_s)
        )
        answer["rssAtEndMiB"] = round(operator.rss_bytes() / _MIB)
        operator.stop()
    return answer


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median, the 99th percentile and the worst, in seconds."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        "count": len(ordered),
        "p50": round(statistics.median(ordered), 3),
        "p99": round(ordered[min(last, round(0.99 * last))], 3),
        "worst": round(ordered[-1], 3),
    }


async def run(options: argparse.Namespace) -> None:
    """Measure at every size, the smallest first."""
    found = status.describe(options.bed)["state"] == "running"
    bed = provider.Embedded(name=options.bed)
    cluster = bed.up(nodes=0, mounts=())
    answers: list[dict[str, Any]] = []
    try:
        async with harness.connect(cluster.kubeconfig) as api:
            await harness.install_crds(api)
            async with crowd.played(api):
                for size in sorted(options.sizes):
                    answers.append(await measure(options, api, cluster.kubeconfig, size))
                    _say(json.dumps(answers[-1]))
                    document = {"loadAverage": os.getloadavg(), "cores": os.cpu_count(), "sizes": answers}
                    options.report.write_text(json.dumps(document, indent=1) + "\n")
    finally:
        if not found:
            bed.down()


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def _options() -> argparse.Namespace:
    parse = argparse.ArgumentParser(description="Measures the controller with many resources.")
    parse.add_argument("--sizes", type=lambda text: [int(one) for one in text.split(",")], default=[100, 1000])
    parse.add_argument("--changes", type=int, default=200, help="edits whose latency is taken, at each size")
    parse.add_argument("--every-s", type=float, default=0.1, help="seconds between two of them")
    parse.add_argument("--patience-s", type=float, default=3600.0, help="longest wait for everything to settle")
    parse.add_argument("--bed", default="bench", help="name of the control plane")
    parse.add_argument("--report", type=Path, required=True, help="JSON file to write")
    return parse.parse_args()


if __name__ == "__main__":
    asyncio.run(run(_options()))
