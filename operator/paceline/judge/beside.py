"""Arms that live side by side: a sample is one half of a round, and every round is a look.

A sample is the mean log ratio over all bands by their weights. All bands of a half go into one sample, so that what
slows a whole half down is one observation and not one a band.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from paceline.api.measurement import Measurement
from paceline.judge import interval, spending
from paceline.judge.evidence import Evidence, Latency, Level
from paceline.judge.interval import Interval
from paceline.judge.pairs import Pair, Paired
from paceline.judge.policy import Policy
from paceline.judge.verdicts import Band

Quantity = Callable[[Pair], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    round: int
    nodes: tuple[str, str]
    """The candidate's and the rival's."""
    value: float
    resolution: float


def gather(paired: Paired, rounds: Sequence[int], policy: Policy) -> Evidence:
    """Return the numbers of two arms that live side by side.

    Args:
        paired: their pairs.
        rounds: numbers of all rounds that were driven, usable or not, in order: so often was looked.
        policy: what is asked.
    """
    shares = policy.shares(paired.bands)
    halves = _halves(paired, shares)
    whole = _weighted(halves, shares, lambda one: one.log_ratio)
    bands = {band: _bounds(_of_band(paired, band, lambda one: one.log_ratio), rounds, policy) for band in paired.bands}
    return Evidence(
        whole=_bounds(whole, rounds, policy),
        ratio=math.exp(math.fsum(one.value for one in whole) / len(whole)) if whole else None,
        bands=tuple(
            Band(concurrency=band[0], prompt_band=band[1], ratio=one.ratio, lower=one.lower, upper=one.upper)
            for band, one in bands.items()
            if one is not None
        ),
        missing_bands=tuple(band for band, one in bands.items() if one is None),
        ttft=_latency(paired, halves, rounds, policy, lambda one: one.ttft_ms),
        itl=_latency(paired, halves, rounds, policy, lambda one: one.itl_ms),
        rounds=len({one.round for one in whole}),
        samples=len(whole),
    )


def _halves(paired: Paired, shares: Mapping[tuple[int, str], float]) -> list[list[Pair]]:
    """Return the pairs of each half, only of those halves that have every band of the whole.

    A half that lacks a band has another composition, and would move the mean by the difference between bands.
    """
    halves: dict[tuple[int, int], list[Pair]] = {}
    for one in paired.pairs:
        if one.band in shares:
            halves.setdefault((one.round, one.half), []).append(one)
    return [group for _, group in sorted(halves.items()) if len(group) == len(shares)]


def _weighted(
    halves: Sequence[Sequence[Pair]], shares: Mapping[tuple[int, str], float], quantity: Quantity
) -> list[_Sample]:
    """Return one sample a half: the weighted mean of a quantity, left out where a band does not have it."""
    samples: list[_Sample] = []
    for half in halves:
        values = [(shares[one.band], value) for one in half if (value := quantity(one)) is not None]
        if len(values) == len(half):
            variance = math.fsum((shares[one.band] * one.resolution) ** 2 for one in half)
            samples.append(
                _Sample(
                    round=half[0].round,
                    nodes=_nodes(half[0]),
                    value=math.fsum(share * value for share, value in values),
                    resolution=math.sqrt(variance),
                )
            )
    return samples


def _nodes(one: Pair) -> tuple[str, str]:
    return one.candidate.node, one.rival.node


def _of_band(paired: Paired, band: tuple[int, str], quantity: Quantity) -> list[_Sample]:
    return [
        _Sample(round=one.round, nodes=_nodes(one), value=value, resolution=one.resolution)
        for one in paired.pairs
        if one.band == band and (value := quantity(one)) is not None
    ]


def _latency(
    paired: Paired,
    halves: Sequence[Sequence[Pair]],
    rounds: Sequence[int],
    policy: Policy,
    of_block: Callable[[Measurement], float | None],
) -> Latency:
    """Return the bounds of one kind of latency, which ``of_block`` reads from a block."""

    def ratio(one: Pair) -> float | None:
        ours, theirs = of_block(one.candidate), of_block(one.rival)
        return math.log(ours / theirs) if ours and theirs else None

    def level(one: Pair) -> float | None:
        ours = of_block(one.candidate)
        return math.log(ours) if ours else None

    shares = policy.shares(paired.bands)
    return Latency(
        ratio=_bounds(_weighted(halves, shares, ratio), rounds, policy),
        levels=tuple(
            Level(
                concurrency=band[0],
                prompt_band=band[1],
                bounds=_bounds(_of_band(paired, band, level), rounds, policy),
            )
            for band in paired.bands
        ),
    )


def _bounds(samples: Sequence[_Sample], rounds: Sequence[int], policy: Policy) -> Interval | None:
    """Return the bounds of samples at the last of all looks so far."""
    if len(samples) < interval.MIN_SAMPLES:
        return None
    resolution = math.sqrt(math.fsum(one.resolution**2 for one in samples) / len(samples))
    return interval.of_samples(
        [one.value for one in samples],
        tail=_tail(samples, rounds, policy),
        resolution=resolution,
        shared=_node_spread(samples, policy),
    )


def _node_spread(samples: Sequence[_Sample], policy: Policy) -> float:
    """Return the standard deviation that nodes give the mean ratio: none where both arms shared one.

    Arms that swap nodes are compared on as many pairs of them, and the spread shrinks with their number.
    """
    apart = {one.nodes for one in samples if one.nodes[0] != one.nodes[1]}
    if not apart or not policy.node_spread_percent:
        return 0.0
    share = sum(one.nodes in apart for one in samples) / len(samples)
    return share * math.sqrt(2.0 / len(apart)) * policy.node_spread_percent / 100.0


def _tail(samples: Sequence[_Sample], rounds: Sequence[int], policy: Policy) -> float:
    """Return the tail that is left to the latest look: after min_rounds rounds was the first, each later one is one."""
    counts: list[int] = []
    shares: list[float] = []
    for number in range(min(policy.min_rounds, len(rounds)), len(rounds) + 1):
        seen = set(rounds[:number])
        count = sum(one.round in seen for one in samples)
        if count >= interval.MIN_SAMPLES:
            counts.append(count)
            shares.append(number / max(policy.max_rounds, number))
    return spending.tail(tuple(counts), tuple(shares), error=policy.error)
