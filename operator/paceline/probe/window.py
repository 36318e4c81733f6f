"""The part of a block that counts: while every slot was busy and past its first token.

A block's ramp fills an empty batch and its tail drains one. Counting them measures the shape of the load, and not the
server: on one machine a tail turned 1.09 times the control's throughput into 0.75 times. Pure arithmetic over traces.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from paceline.probe.exchange import Trace

_MIN_TURNOVER: Final = 0.5
"""Requests that must end inside the window, as a share of the slots: fewer, and it saw no steady state."""
_HIGH: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What was seen between ramp and tail."""

    seconds: float
    tokens: int
    finished: int
    """Requests that ended inside."""
    ttft_ms: float | None
    """Median over requests whose first token came inside."""
    itl_ms: float | None
    """Mean over the decoding of requests that ended inside."""
    ttft_p99_ms: float | None = None
    itl_p99_ms: float | None = None
    """Of the silences between two chunks that both came inside."""

    def is_steady(self, concurrency: int) -> bool:
        """Return whether the window saw enough of the target concurrency to be used."""
        return self.seconds > 0 and self.tokens > 0 and self.finished >= _MIN_TURNOVER * concurrency


def measure(traces: Sequence[Trace], *, concurrency: int, drained_s: float) -> Window:
    """Return the window of a block.

    Args:
        traces: all requests of the block, in the order they started.
        concurrency: slots; the first so many requests are each slot's first.
        drained_s: when a slot first found nothing left to start.
    """
    first_tokens = [trace.first_token_s for trace in traces[:concurrency]]
    known = [at_s for at_s in first_tokens if at_s is not None]
    opened_s = max(known) if len(known) == concurrency else drained_s
    inside = [trace for trace in traces if opened_s < trace.ended_s <= drained_s]
    waits = [
        (trace.first_token_s - trace.started_s) * 1000.0
        for trace in traces
        if trace.first_token_s is not None and opened_s <= trace.first_token_s <= drained_s
    ]
    return Window(
        seconds=max(0.0, drained_s - opened_s),
        tokens=sum(_tokens_between(trace, opened_s, drained_s) for trace in traces),
        finished=len(inside),
        ttft_ms=statistics.median(waits) if waits else None,
        itl_ms=_mean_itl_ms(inside),
        ttft_p99_ms=percentile(waits, _HIGH),
        itl_p99_ms=percentile(_silences_ms(traces, opened_s, drained_s), _HIGH),
    )


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least ``share`` of all do not exceed (nearest rank); None of none."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else None


def _silences_ms(traces: Sequence[Trace], opened_s: float, drained_s: float) -> list[float]:
    return [
        (after - before) * 1000.0
        for trace in traces
        for (before, _), (after, _) in pairwise(trace.marks)
        if before >= opened_s and after <= drained_s
    ]


def _tokens_between(trace: Trace, opened_s: float, drained_s: float) -> int:
    """Return the tokens that arrived after ``opened_s`` and not after ``drained_s``."""
    before = max((count for at_s, count in trace.marks if at_s <= opened_s), default=0)
    until = max((count for at_s, count in trace.marks if at_s <= drained_s), default=0)
    return until - before


def _mean_itl_ms(traces: Sequence[Trace]) -> float | None:
    """Return decoding time by token, first chunks left out: they are the prefill's."""
    seconds = sum(trace.marks[-1][0] - trace.marks[0][0] for trace in traces if trace.marks)
    tokens = sum(trace.marks[-1][1] - trace.marks[0][1] for trace in traces if trace.marks)
    return seconds * 1000.0 / tokens if tokens else None
