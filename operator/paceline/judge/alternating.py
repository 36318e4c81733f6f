"""Arms that live one after the other: the unit is the load, one start of an engine on one node.

Blocks of one load share its luck: which kernels were picked, how memory was laid out, what the node is like. However
many blocks a load has, they are one sample of a configuration. So bounds hold the spread between starts, and between
nodes unless both arms lived on the same ones.

Replicates tell the spread: loads of one arm on one node. There are few, since a load costs minutes, and a spread from
two loads is nearly unknown; it is therefore taken together with a prior from A/A runs, weighted by the degrees of
freedom of both, and the t quantile is that of the sum. With one load an arm only the prior speaks, and bounds are as
wide as its few degrees of freedom make them. A look is a new load of both arms: the first spends half the error, each
later one half of what is left, so that one need not say beforehand how many there will be. Rounds in between on the
same loads move the mean by less than the spread between starts, and are taken as the same look.

Sources: Searle, Casella and McCulloch, Variance Components (1992), chapter 3 (nested designs); Smyth, Stat. Appl.
Genet. Mol. Biol. 3 (2004) 3, equation 3.1 (the moderated variance and its t); Satterthwaite, Biometrics Bulletin 2
(1946) 110.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from paceline.api.measurement import Measurement, Mode
from paceline.judge import interval, student
from paceline.judge.evidence import Evidence, Latency, Level
from paceline.judge.interval import Interval
from paceline.judge.policy import Policy
from paceline.judge.verdicts import Band

_FEWEST_BLOCKS: Final = 2
"""Of one load at one band: a single block may be anything."""
_LEAST_TAIL: Final = 1e-9
Quantity = Callable[[Measurement], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Standard deviations of log throughput, and the degrees of freedom they are worth.

    Over four concurrencies on one H200, three starts without speculation had a standard deviation of 0.9 %, of which
    blocks alone explain 0.4 %; three more, one after the other, one of 1.6 %, of which they explain 0.6 %; and two
    starts with EAGLE-3 one of 4.2 %, of which they explain 2.5 %. By their degrees of freedom that leaves 1.8 %
    (docs/measurements.md). Nodes were not compared; they are taken to differ as much as starts.
    """

    start: float = 0.02
    start_freedom: float = 4.0
    node: float = 0.02
    node_freedom: float = 4.0


PRIOR: Final = Prior()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """The mean of one load."""

    node: str
    value: float
    noise: float
    """Variance of ``value`` that comes from its blocks alone."""


def gather(blocks: Sequence[Measurement], *, arms: tuple[str, str], policy: Policy, prior: Prior = PRIOR) -> Evidence:
    """Return the numbers of two arms that lived one after the other.

    Args:
        blocks: of both arms, usable or not.
        arms: candidate and rival.
        policy: what is asked.
        prior: what is known of the spread between starts and between nodes.
    """
    kept = [one for one in blocks if one.mode is Mode.ALTERNATING and one.tokens_per_second]
    bands = sorted({_band(one) for one in kept})
    whole = _bounds(kept, bands, _throughput, arms=arms, policy=policy, prior=prior)
    single = {band: _bounds(kept, [band], _throughput, arms=arms, policy=policy, prior=prior) for band in bands}
    return Evidence(
        whole=whole,
        ratio=whole.ratio if whole else None,
        bands=tuple(
            Band(concurrency=band[0], prompt_band=band[1], ratio=one.ratio, lower=one.lower, upper=one.upper)
            for band, one in single.items()
            if one is not None
        ),
        missing_bands=tuple(band for band, one in single.items() if one is None),
        ttft=_latency(kept, bands, _ttft, arms=arms, policy=policy, prior=prior),
        itl=_latency(kept, bands, _itl, arms=arms, policy=policy, prior=prior),
        rounds=min(len({one.round for one in kept if one.arm == arm}) for arm in arms),
        samples=sum(len(_loads(kept, bands, _throughput, arm=arm, policy=policy)) for arm in arms),
    )


def _band(one: Measurement) -> tuple[int, str]:
    return one.concurrency, one.prompt_band


def _throughput(one: Measurement) -> float | None:
    return math.log(one.tokens_per_second) if one.tokens_per_second else None


def _ttft(one: Measurement) -> float | None:
    return math.log(one.ttft_ms) if one.ttft_ms else None


def _itl(one: Measurement) -> float | None:
    return math.log(one.itl_ms) if one.itl_ms else None


def _latency(
    blocks: Sequence[Measurement],
    bands: Sequence[tuple[int, str]],
    quantity: Quantity,
    *,
    arms: tuple[str, str],
    policy: Policy,
    prior: Prior,
) -> Latency:
    levels = [
        Level(
            concurrency=band[0],
            prompt_band=band[1],
            bounds=_mean(_loads(blocks, [band], quantity, arm=arms[0], policy=policy), policy, prior),
        )
        for band in bands
    ]
    return Latency(ratio=_bounds(blocks, bands, quantity, arms=arms, policy=policy, prior=prior), levels=tuple(levels))


def _loads(
    blocks: Sequence[Measurement],
    bands: Sequence[tuple[int, str]],
    quantity: Quantity,
    *,
    arm: str,
    policy: Policy,
) -> list[_Load]:
    """Return an arm's loads that have every band of the whole: one mean over the bands by their weights for each."""
    shares = policy.shares(bands)
    groups: dict[tuple[str, str, int], dict[tuple[int, str], list[float]]] = {}
    for one in blocks:
        value = quantity(one)
        if one.arm == arm and value is not None:
            key = (one.node, one.pod_uid, one.load)
            groups.setdefault(key, {}).setdefault(_band(one), []).append(value)
    loads: list[_Load] = []
    for (node, _, _), values in sorted(groups.items()):
        if any(len(values.get(band, [])) < _FEWEST_BLOCKS for band in shares):
            continue
        noise = {band: statistics.variance(values[band]) / len(values[band]) for band in shares}
        loads.append(
            _Load(
                node=node,
                value=math.fsum(share * statistics.fmean(values[band]) for band, share in shares.items()),
                noise=math.fsum(share**2 * noise[band] for band, share in shares.items()),
            )
        )
    return loads


def _bounds(
    blocks: Sequence[Measurement],
    bands: Sequence[tuple[int, str]],
    quantity: Quantity,
    *,
    arms: tuple[str, str],
    policy: Policy,
    prior: Prior,
) -> Interval | None:
    """Return the bounds of the candidate's quantity over the rival's; None while an arm has no usable load."""
    ours, theirs = (_loads(blocks, bands, quantity, arm=arm, policy=policy) for arm in arms)
    if not ours or not theirs:
        return None
    look = min(len(ours), len(theirs))
    spread = _Spread.of((ours, theirs), prior)
    shared = sorted({one.node for one in ours} & {one.node for one in theirs})
    if shared:
        # The node drops out of a difference on the same node; nodes count by how much they can tell.
        differences = [_difference(_on(ours, node), _on(theirs, node), spread) for node in shared]
        total = math.fsum(1.0 / variance for _, variance in differences)
        mean = math.fsum(value / variance for value, variance in differences) / total
        return _around(mean, [(1.0 / total, spread.freedom)], policy, look=look)
    mean, variance = _difference(ours, theirs, spread)
    nodes = prior.node**2 * math.fsum(1.0 / len({one.node for one in arm}) for arm in (ours, theirs))
    return _around(mean, [(variance, spread.freedom), (nodes, prior.node_freedom)], policy, look=look)


def _mean(loads: Sequence[_Load], policy: Policy, prior: Prior) -> Interval | None:
    """Return the bounds of one arm's own level, whatever node it will live on."""
    if not loads:
        return None
    spread = _Spread.of((loads,), prior)
    nodes = prior.node**2 / len({one.node for one in loads})
    parts = [(_variance(loads, spread), spread.freedom), (nodes, prior.node_freedom)]
    return _around(statistics.fmean(one.value for one in loads), parts, policy, look=len(loads))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    """The variance between starts, and how well it is known."""

    variance: float
    freedom: float

    @classmethod
    def of(cls, arms: Sequence[Sequence[_Load]], prior: Prior) -> "_Spread":
        """Return the variance from replicates, loads of one arm on one node, together with the prior."""
        groups = [_on(loads, node) for loads in arms for node in {one.node for one in loads}]
        squares = math.fsum(
            math.fsum((one.value - statistics.fmean(other.value for other in group)) ** 2 for one in group)
            for group in groups
        )
        freedom = sum(len(group) - 1 for group in groups)
        both = freedom + prior.start_freedom
        return cls(variance=(squares + prior.start_freedom * prior.start**2) / both, freedom=both)


def _on(loads: Iterable[_Load], node: str) -> list[_Load]:
    return [one for one in loads if one.node == node]


def _difference(ours: Sequence[_Load], theirs: Sequence[_Load], spread: _Spread) -> tuple[float, float]:
    """Return the difference of two arms' means, and its variance."""
    mean = statistics.fmean(one.value for one in ours) - statistics.fmean(one.value for one in theirs)
    return mean, _variance(ours, spread) + _variance(theirs, spread)


def _variance(loads: Sequence[_Load], spread: _Spread) -> float:
    """Return the variance of the loads' mean: between starts, and what their blocks leave open."""
    count = len(loads)
    return spread.variance / count + math.fsum(one.noise for one in loads) / count**2


def _around(mean: float, parts: Sequence[tuple[float, float]], policy: Policy, *, look: int) -> Interval:
    """Return the interval from variances that are known with different degrees of freedom; looks count from 1."""
    variance = math.fsum(part for part, _ in parts)
    freedom = variance**2 / math.fsum(part**2 / degrees for part, degrees in parts)
    factor = student.quantile(max(_LEAST_TAIL, policy.error / 2.0**look), freedom)
    return interval.around(mean, factor * math.sqrt(variance))
