"""A whole run's account, ramp and tail included: what an open loop is measured by, and what other tools report.

Tokens over the time from the first start to the last end; TTFT over all requests; time per output token by request,
(last token - first token) / (tokens - 1); silences between chunks as they came. These are the definitions of
``vllm bench serve`` (``calculate_metrics`` in ``vllm/benchmarks/serve.py``). Pure arithmetic over traces.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from paceline.probe.exchange import FaultKind, Trace
from paceline.probe.window import percentile

_HIGH: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRun:
    """What was seen from the first start to the last end; latencies in milliseconds, None where there were none."""

    seconds: float
    requests: int
    """Answered."""
    errors: int
    """Not answered, stalls among them."""
    stalls: int
    tokens: int
    prompt_tokens: int | None
    ttft_median_ms: float | None
    ttft_p99_ms: float | None
    tpot_mean_ms: float | None
    """Mean over requests of more than one token."""
    silence_p99_ms: float | None
    """Between two chunks."""
    busy_s: float
    """Time of all requests together; over ``seconds`` it is the mean number in flight (Little's law)."""

    @property
    def tokens_per_second(self) -> float | None:
        """Throughput; None of no time."""
        return self.tokens / self.seconds if self.seconds > 0 else None


def measure(traces: Sequence[Trace]) -> WholeRun:
    """Return the account of a run."""
    answered = [trace for trace in traces if trace.fault is None]
    waits = [(trace.marks[0][0] - trace.started_s) * 1000.0 for trace in answered if trace.marks]
    silences = [(after - before) * 1000.0 for one in answered for (before, _), (after, _) in pairwise(one.marks)]
    paces = [_tpot_ms(trace) for trace in answered if trace.tokens > 1]
    lengths = [trace.prompt_tokens for trace in answered if trace.prompt_tokens is not None]
    return WholeRun(
        seconds=max(one.ended_s for one in traces) - min(one.started_s for one in traces) if traces else 0.0,
        requests=len(answered),
        errors=len(traces) - len(answered),
        stalls=sum(one.fault is not None and one.fault.kind is FaultKind.STALLED for one in traces),
        tokens=sum(trace.tokens for trace in answered),
        prompt_tokens=sum(lengths) if lengths and len(lengths) == len(answered) else None,
        ttft_median_ms=statistics.median(waits) if waits else None,
        ttft_p99_ms=percentile(waits, _HIGH),
        tpot_mean_ms=statistics.fmean(paces) if paces else None,
        silence_p99_ms=percentile(silences, _HIGH),
        busy_s=sum(trace.ended_s - trace.started_s for trace in traces),
    )


def _tpot_ms(trace: Trace) -> float:
    return (trace.marks[-1][0] - trace.marks[0][0]) * 1000.0 / (trace.tokens - 1)
