"""Starts of one configuration, one after the other: how much they differ, and what the second design makes of them.

    PYTHONPATH=operator python -m bench.judge.starts bench/results/h200-noise-starts.json

Prints two tables in Markdown for every configuration in a recording of ``bench.record_noise starts``. The spread
between starts, what their blocks alone explain of it, and what is left. And the verdicts of the product on every way to
divide the starts into two equal arms (A/A), as they are and with a true ratio laid over one of them.
"""

import argparse
import itertools
import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.judge import loads
from paceline import judge
from paceline.api.measurement import Measurement

WHOLE: Final = 0
"""In place of a concurrency: the mean over all of them."""
_SCALE: Final = 1000
"""Tokens and windows are counted so much finer, for a true ratio to be laid over them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Standard deviations of log throughput."""

    starts: int
    between: float
    """Of the starts' means."""
    blocks: float
    """Of which their blocks explain so much, by themselves."""

    @property
    def left(self) -> float:
        """What is between starts and not in their blocks; 0 where the blocks explain it all."""
        return math.sqrt(max(0.0, self.between**2 - self.blocks**2))


def read(path: Path) -> dict[str, list[Measurement]]:
    """Return the usable blocks of every configuration."""
    rows = [Measurement.model_validate(row) for row in json.loads(path.read_text())["measurements"]]
    found: dict[str, list[Measurement]] = {}
    for one in rows:
        if one.tokens_per_second:
            found.setdefault(one.arm, []).append(one)
    return found


def spreads(blocks: Sequence[Measurement]) -> dict[int, Spread]:
    """Return the spread at every concurrency, and of the mean over all of them.

    Args:
        blocks: of one configuration; every start has at least two at every concurrency.
    """
    bands = sorted({one.concurrency for one in blocks})
    means: dict[int, list[float]] = {band: [] for band in bands}
    noise: dict[int, list[float]] = {band: [] for band in bands}
    for load in sorted({one.load for one in blocks}):
        for band in bands:
            logs = [_log(one) for one in blocks if one.load == load and one.concurrency == band]
            means[band].append(statistics.fmean(logs))
            noise[band].append(statistics.variance(logs) / len(logs))
    whole = [statistics.fmean(one) for one in zip(*means.values(), strict=True)]
    found = {
        band: Spread(
            starts=len(whole), between=statistics.stdev(means[band]), blocks=math.sqrt(statistics.fmean(noise[band]))
        )
        for band in bands
    }
    of_whole = math.sqrt(math.fsum(statistics.fmean(one) for one in noise.values())) / len(bands)
    return found | {WHOLE: Spread(starts=len(whole), between=statistics.stdev(whole), blocks=of_whole)}


def _log(one: Measurement) -> float:
    return math.log(one.tokens_per_second or math.nan)


def verdicts(blocks: Sequence[Measurement], truth: float, *, gain: bool) -> Counter[judge.Verdict]:
    """Return the first verdicts over every way to divide the starts into a candidate and a rival of as many.

    Args:
        blocks: of one configuration.
        truth: what the candidate's throughput is multiplied by.
        gain: whether a gain is asked for, else no regression.
    """
    starts = sorted({one.load for one in blocks})
    half = len(starts) // 2
    policy = judge.Policy(
        kind=judge.Bar.BETTER if gain else judge.Bar.NO_WORSE,
        min_gain_percent=3,
        max_regression_percent=3,
        min_rounds=1,
        max_rounds=half,
    )
    found: Counter[judge.Verdict] = Counter()
    for ours in itertools.combinations(starts, half):
        for theirs in itertools.combinations([one for one in starts if one not in ours], half):
            arms = [*_arm(blocks, "candidate", ours, truth), *_arm(blocks, "rival", theirs, 1.0)]
            found[_first_verdict(arms, policy)] += 1
    return found


def _first_verdict(blocks: Sequence[Measurement], policy: judge.Policy) -> judge.Verdict:
    """Return the verdict of one who looks after each load of both arms."""
    for rounds in range(1, policy.max_rounds + 1):
        seen = [one for one in blocks if one.round < rounds]
        found = judge.compare(seen, candidate="candidate", rival="rival", policy=policy)
        if found.verdict is not judge.Verdict.INCONCLUSIVE:
            return found.verdict
    return judge.Verdict.INCONCLUSIVE


def _arm(blocks: Sequence[Measurement], arm: str, starts: Sequence[int], truth: float) -> list[Measurement]:
    """Return the blocks of some starts as an arm's loads, one a round."""
    places: Counter[tuple[int, int]] = Counter()
    found = []
    for one in blocks:
        if one.load in starts:
            places[one.load, one.concurrency] += 1
            changed = {
                "arm": arm,
                "load": starts.index(one.load),
                "round": starts.index(one.load),
                "position": places[one.load, one.concurrency],
                "started_at": "2026-01-01T00:00:00Z",
                "output_tokens": round(one.output_tokens * _SCALE * truth),
                "window_ms": one.window_ms * _SCALE,
            }
            found.append(one.model_copy(update=changed))
    return found


def report(name: str, blocks: Sequence[Measurement]) -> Iterator[str]:
    """Yield the tables of one configuration."""
    yield f"| {name} | starts | between starts | their blocks explain | left |"
    yield "|---|---|---|---|---|"
    for band, one in spreads(blocks).items():
        figures = " | ".join(f"{100 * value:.2f} %" for value in (one.between, one.blocks, one.left))
        yield f"| {f'c={band}' if band else 'all'} | {one.starts} | {figures} |"
    yield ""
    yield "| asked | verdict in question | times | of |"
    yield "|---|---|---|---|"
    for case, truth, gain, verdict in loads.CASES:
        found = verdicts(blocks, truth, gain=gain)
        yield f"| {'gain' if gain else 'no regression'} | {case} | {found[verdict]} | {found.total()} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of every configuration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=Path)
    for path in parser.parse_args(arguments).recordings:
        for name, blocks in read(path).items():
            sys.stdout.write("\n".join(report(f"{path.stem}, {name}", blocks)) + "\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
