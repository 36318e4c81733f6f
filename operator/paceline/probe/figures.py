"""What a block's traces say, as fields of a measurement: of a closed loop its window, of an open one the whole run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paceline.probe import wholerun, window
from paceline.probe.exchange import Trace
from paceline.probe.loops import ClosedLoop
from paceline.probe.workload import Place

_DECIMALS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Fields of a measurement, and why they say too little; empty when they say enough."""

    values: Mapping[str, int | float | None]
    too_few: str = ""


def closed(loop: ClosedLoop, place: Place) -> Figures:
    """Return what was seen while every slot was busy."""
    seen = window.measure(loop.traces, concurrency=place.concurrency, drained_s=loop.drained_s)
    values = {
        "window_ms": round(seen.seconds * 1000),
        "output_tokens": max(0, seen.tokens),
        "ttft_ms": _rounded(seen.ttft_ms),
        "itl_ms": _rounded(seen.itl_ms),
        "ttft_p99_ms": _rounded(seen.ttft_p99_ms),
        "itl_p99_ms": _rounded(seen.itl_p99_ms),
    }
    steady = seen.is_steady(place.concurrency)
    said = f"{seen.finished} requests ended while {place.concurrency} were in flight; ask more of each slot"
    return Figures(values=values, too_few="" if steady else said)


def opened(traces: Sequence[Trace]) -> Figures:
    """Return what was seen of all requests; the concurrency is what there was, rounded up, and not what was asked."""
    seen = wholerun.measure(traces)
    values = {
        "concurrency": max(1, math.ceil(seen.busy_s / seen.seconds)) if seen.seconds > 0 else 1,
        "window_ms": round(seen.seconds * 1000),
        "output_tokens": seen.tokens,
        "ttft_ms": _rounded(seen.ttft_median_ms),
        "itl_ms": _rounded(seen.tpot_mean_ms),
        "ttft_p99_ms": _rounded(seen.ttft_p99_ms),
        "itl_p99_ms": _rounded(seen.silence_p99_ms),
    }
    return Figures(values=values)


def _rounded(value: float | None) -> float | None:
    """Return what travels: a report is 4 KiB, and a hundredth of a millisecond is finer than any clock here."""
    return None if value is None else round(value, _DECIMALS)
