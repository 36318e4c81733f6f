"""What the operator's process says of itself, and what of that belongs to one span of time."""

import asyncio
import dataclasses
import os
import time
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, Final

from prometheus_client import parser

import harness

_MIB: Final = 1024 * 1024
# Histograms whose mean over a span is told, by the name it is told under.
_MEANS: Final = {
    "queueWaitMs": "paceline_queue_wait_seconds",
    "passMs": "paceline_pass_duration_seconds",
    "callMs": "paceline_api_request_duration_seconds",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """The operator's own counters at one moment."""

    at: float
    cpu_s: float
    passes: float
    writes: float
    """To resources and their children: neither renewals of the Lease nor events."""
    requests: Mapping[str, float]
    """By verb."""
    spent: Mapping[str, tuple[float, float]]
    """Sum in seconds and count, by histogram."""


async def during(operator: harness.Operator, work: Awaitable[dict[str, Any] | None]) -> dict[str, Any]:
    """Return what ``work`` found, and what the process did and held meanwhile."""
    before = await asyncio.to_thread(read, operator)
    figures = await work or {}
    after = await asyncio.to_thread(read, operator)
    return {**figures, **between(before, after), **memory(operator)}


def read(operator: harness.Operator) -> Reading:
    """Return what the process has done so far."""
    requests: dict[str, float] = {}
    sums: dict[str, float] = {}
    for family in parser.text_string_to_metric_families(operator.ask("/metrics")[1]):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
            if sample.name == "paceline_api_requests_total":
                requests[sample.labels["verb"]] = requests.get(sample.labels["verb"], 0.0) + sample.value
    return Reading(
        at=time.monotonic(),
        cpu_s=_cpu_s(operator.pid),
        passes=sums.get("paceline_passes_total", 0.0),
        writes=sums.get("paceline_writes_total", 0.0),
        requests=requests,
        spent={name: (sums.get(f"{name}_sum", 0.0), sums.get(f"{name}_count", 0.0)) for name in _MEANS.values()},
    )


def between(before: Reading, after: Reading) -> dict[str, Any]:
    """Return what was done from one moment to the other."""
    span, passes = after.at - before.at, after.passes - before.passes
    calls = {verb: round(count - before.requests.get(verb, 0.0)) for verb, count in sorted(after.requests.items())}
    cpu_s = after.cpu_s - before.cpu_s
    means = {}
    for name, series in _MEANS.items():
        seconds, count = (after.spent[series][one] - before.spent[series][one] for one in (0, 1))
        means[name] = round(1000 * seconds / count, 2) if count else None
    return {
        "seconds": round(span, 1),
        "passes": round(passes),
        "writes": round(after.writes - before.writes),
        "calls": {verb: count for verb, count in calls.items() if count},
        "cpuMsAPass": round(1000 * cpu_s / max(passes, 1.0), 2),
        "cpuPercent": round(100 * cpu_s / span, 1),
        **means,
        "loadAverage": round(os.getloadavg()[0], 1),
    }


def memory(operator: harness.Operator) -> dict[str, int]:
    """Return the process's resident memory in MiB, and the most it ever was."""
    lines = Path(f"/proc/{operator.pid}/status").read_text().splitlines()
    told = {
        name: int(value.split()[0]) * 1024 for name, _, value in (one.partition(":") for one in lines) if "kB" in value
    }
    return {"rssMiB": round(told["VmRSS"] / _MIB), "mostMiB": round(told["VmHWM"] / _MIB)}


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
