"""Measurements of two arms as paired samples.

A round is A B B A (three arms: A B C C B A) at every concurrency. Blocks at mirrored places are partners: first with
first, second with second. A drift over the round then raises one ratio as much as it lowers the other. Other rivals'
blocks between partners only widen the spread.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from paceline.api.measurement import BlockOutcome, Measurement, Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two partners: one ratio at one concurrency."""

    round: int
    half: int
    """0 in the first half of the round, 1 in the mirrored one."""
    band: tuple[int, str]
    """Concurrency and prompt band."""
    candidate: Measurement
    rival: Measurement

    @property
    def log_ratio(self) -> float:
        """Logarithm of the candidate's throughput over the rival's."""
        return math.log(_throughput(self.candidate)) - math.log(_throughput(self.rival))

    @property
    def resolution(self) -> float:
        """Standard deviation of ``log_ratio`` that comes from whole tokens and whole milliseconds alone."""
        counts = (
            self.candidate.output_tokens,
            self.candidate.window_ms,
            self.rival.output_tokens,
            self.rival.window_ms,
        )
        # A count cut to a whole number is off by up to one, evenly: a variance of 1/12.
        return math.sqrt(math.fsum(1.0 / (12.0 * count * count) for count in counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """What could be paired, and what could not."""

    pairs: tuple[Pair, ...]
    bands: tuple[tuple[int, str], ...]
    """All bands that were tried."""
    blocks: int
    """Blocks of both arms, usable or not."""
    dropped: Mapping[BlockOutcome, int]
    """Unusable blocks by outcome; their partners are dropped with them."""
    alternating: int
    """Blocks of arms that did not live side by side: their ratios hold differences between loads of one
    configuration."""
    all_blocks: tuple[Measurement, ...]
    """All blocks of both arms, each once."""


def pair(measurements: Iterable[Measurement], *, candidate: str, rival: str) -> Paired:
    """Return the pairs of two arms, in the order they were measured."""
    blocks = distinct(one for one in measurements if one.arm in {candidate, rival})
    beside = [one for one in blocks if one.mode is Mode.SIDE_BY_SIDE]
    groups: dict[tuple[int, tuple[int, str]], list[Measurement]] = {}
    for one in beside:
        groups.setdefault((one.round, (one.concurrency, one.prompt_band)), []).append(one)
    pairs = [
        found
        for (number, band), group in sorted(groups.items())
        for found in _pairs_of(group, number=number, band=band, arms=(candidate, rival))
    ]
    return Paired(
        pairs=tuple(pairs),
        bands=tuple(sorted({band for _, band in groups})),
        blocks=len(blocks),
        dropped=Counter(_fault(one) for one in blocks if not _usable(one)),
        alternating=sum(one.mode is Mode.ALTERNATING for one in blocks),
        all_blocks=tuple(blocks),
    )


def _pairs_of(group: Sequence[Measurement], *, number: int, band: tuple[int, str], arms: tuple[str, str]) -> list[Pair]:
    """Return the pairs of one round at one band; none when the arms' blocks do not correspond."""
    ordered = sorted(group, key=lambda one: one.position)
    ours, theirs = ([one for one in ordered if one.arm == arm] for arm in arms)
    if len(ours) != len(theirs):
        return []
    return [
        Pair(round=number, half=half, band=band, candidate=one, rival=other)
        for half, (one, other) in enumerate(zip(ours, theirs, strict=True))
        if _usable(one) and _usable(other)
    ]


def distinct(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Return each block once: a report that was appended twice must not count twice."""
    seen: dict[tuple[object, ...], Measurement] = {}
    for one in measurements:
        key = (one.arm, one.round, one.concurrency, one.prompt_band, one.position, one.mode, one.pod_uid, one.load)
        seen.setdefault(key, one)
    return list(seen.values())


def _usable(one: Measurement) -> bool:
    return bool(one.tokens_per_second)


def _fault(one: Measurement) -> BlockOutcome:
    """Return why a block is unusable; one that claims to be fine and generated nothing is not."""
    return BlockOutcome.NO_TOKENS if one.outcome is BlockOutcome.OK else one.outcome


def _throughput(one: Measurement) -> float:
    throughput = one.tokens_per_second
    if not throughput:
        raise ValueError(f"block of arm {one.arm} in round {one.round} has no throughput and cannot be paired")
    return throughput
