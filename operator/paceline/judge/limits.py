"""What is asked beside the whole: the floor of every band, the limits of latency.

Each is a question of its own with the policy's error. To pass, every limit must lie on the good side of its bounds;
that needs no correction for their number, since all must hold at once (Berger, Technometrics 24 (1982) 295). To fail,
one on the bad side is enough: a candidate that sits on m limits exactly is wrongly failed m times as often as on one.
No data about a limit never passes and never fails.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.judge.evidence import Evidence, Latency
from paceline.judge.interval import Interval
from paceline.judge.policy import Policy
from paceline.judge.verdicts import Reason, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The answer to one question."""

    verdict: Verdict
    reason: Reason
    """What it leads to if it decides."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """The words and reasons of one kind of latency."""

    name: str
    above: Reason
    unclear: Reason


_TTFT = _Kind(name="time to first token", above=Reason.TTFT_ABOVE_LIMIT, unclear=Reason.TTFT_UNCLEAR)
_ITL = _Kind(name="inter-token latency", above=Reason.ITL_ABOVE_LIMIT, unclear=Reason.ITL_UNCLEAR)


def findings(evidence: Evidence, policy: Policy) -> Iterator[Finding]:
    """Yield the answer to every limit that is asked."""
    if policy.band_floor_percent is not None:
        yield from _floors(evidence, policy.band_floor_percent / 100.0)
    yield from _latencies(
        evidence.ttft, _TTFT, most_ms=policy.max_ttft_ms, most_increase_percent=policy.max_ttft_increase_percent
    )
    yield from _latencies(
        evidence.itl, _ITL, most_ms=policy.max_itl_ms, most_increase_percent=policy.max_itl_increase_percent
    )


def _floors(evidence: Evidence, floor: float) -> Iterator[Finding]:
    for band in evidence.bands:
        said = (
            f"{band.ratio:.3f} times the rival's throughput ({band.lower:.3f} to {band.upper:.3f}) at concurrency "
            f"{band.concurrency}"
        )
        if band.upper < floor:
            yield Finding(
                verdict=Verdict.FAIL,
                reason=Reason.BAND_BELOW_FLOOR,
                message=f"{said}, below the floor of {floor:.2f} that every band must keep",
            )
        elif band.lower <= floor:
            yield Finding(
                verdict=Verdict.INCONCLUSIVE,
                reason=Reason.BAND_TOO_NOISY,
                message=f"{said}; the bounds hold the floor of {floor:.2f} between them",
            )
    for concurrency, _ in evidence.missing_bands:
        yield Finding(
            verdict=Verdict.INCONCLUSIVE,
            reason=Reason.BAND_TOO_NOISY,
            message=f"too few pairs at concurrency {concurrency} to hold it to the floor of {floor:.2f}",
        )


def _latencies(
    latency: Latency, kind: _Kind, *, most_ms: float | None, most_increase_percent: float | None
) -> Iterator[Finding]:
    if most_increase_percent is not None:
        limit = 1.0 + most_increase_percent / 100.0
        yield from _held(latency.ratio, limit, kind, words=(f"{kind.name} against the rival's", "times", 3))
    if most_ms is not None:
        for level in latency.levels:
            words = (f"{kind.name} at concurrency {level.concurrency}", "ms", 0)
            yield from _held(level.bounds, most_ms, kind, words=words)


def _held(bounds: Interval | None, limit: float, kind: _Kind, *, words: tuple[str, str, int]) -> Iterator[Finding]:
    """Yield nothing when the limit is certainly kept, else what speaks against it."""
    what, unit, digits = words
    if bounds is None:
        yield Finding(
            verdict=Verdict.INCONCLUSIVE,
            reason=kind.unclear,
            message=f"{what} was not measured often enough for the limit of {limit:.{digits}f} {unit}",
        )
        return
    said = f"{what} is {bounds.ratio:.{digits}f} {unit} ({bounds.lower:.{digits}f} to {bounds.upper:.{digits}f})"
    if bounds.lower > limit:
        yield Finding(verdict=Verdict.FAIL, reason=kind.above, message=f"{said}, above {limit:.{digits}f} {unit}")
    elif bounds.upper >= limit:
        yield Finding(
            verdict=Verdict.INCONCLUSIVE,
            reason=kind.unclear,
            message=f"{said}; the bounds hold the limit of {limit:.{digits}f} {unit} between them",
        )
