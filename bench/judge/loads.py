"""Arms that live one after the other: how often the second design is wrong, by loads an arm and by what starts differ.

Every load draws its luck, every block its noise, and one looks after every round. The prior of the product is fixed, so
this also shows what happens where starts differ more than it says.
"""

from typing import Any, Final

import numpy as np

from paceline import judge
from paceline.api.measurement import Measurement, Mode
from paceline.judge import alternating

LOADS: Final = (1, 2, 3, 4)
BANDS: Final = (1, 8)
BLOCKS: Final = 4
BLOCK_NOISE: Final = 0.03
CASES: Final = (
    ("5 % slower promoted", 0.95, False, judge.Verdict.PASS),
    ("15 % slower rejected", 0.85, False, judge.Verdict.FAIL),
    ("equal rejected as slower", 1.0, False, judge.Verdict.FAIL),
    ("equal promoted as faster", 1.0, True, judge.Verdict.PASS),
    ("20 % faster promoted", 1.2, True, judge.Verdict.PASS),
)


def rates(*, runs: int, seed: int, spreads: tuple[float, ...]) -> list[dict[str, Any]]:
    """Return a row for each spread between starts and number of loads: what had been said by then.

    Args:
        runs: simulated rollouts a figure.
        seed: of everything drawn.
        spreads: standard deviations of log throughput between starts.
    """
    rows: list[dict[str, Any]] = []
    for spread in spreads:
        ends = {
            name: _ends(np.random.default_rng(seed), runs, spread, truth, gain=gain) for name, truth, gain, _ in CASES
        }
        rows += [
            {
                "startSpread": spread,
                "loads": loads,
                "shares": {
                    name: round(sum(end.get(verdict, loads + 1) <= loads for end in ends[name]) / runs, 4)
                    for name, _, _, verdict in CASES
                },
            }
            for loads in LOADS
        ]
    return rows


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the rows in Markdown, with the prior they were judged by."""
    names = [name for name, *_ in CASES]
    prior = 100 * alternating.PRIOR.start
    return [
        f"Prior: {prior:.1f} % between starts, with {alternating.PRIOR.start_freedom:.0f} degrees of freedom.",
        "",
        "| starts differ by | loads an arm | " + " | ".join(names) + " |",
        "|---" * (len(names) + 2) + "|",
        *(
            f"| {100 * row['startSpread']:.1f} % | {row['loads']} | "
            + " | ".join(f"{100 * row['shares'][name]:.1f}" for name in names)
            + " |"
            for row in rows
        ),
    ]


def _ends(
    random: np.random.Generator, runs: int, spread: float, truth: float, *, gain: bool
) -> list[dict[judge.Verdict, int]]:
    """Return for each run the first verdict and the loads an arm until then, of one who looks after every round."""
    policy = judge.Policy(
        kind=judge.Bar.BETTER if gain else judge.Bar.NO_WORSE,
        min_gain_percent=3,
        max_regression_percent=3,
        min_rounds=1,
        max_rounds=2 * LOADS[-1],
    )
    return [_end(_blocks(random, spread, truth), policy) for _ in range(runs)]


def _end(blocks: list[Measurement], policy: judge.Policy) -> dict[judge.Verdict, int]:
    for number in range(policy.max_rounds):
        seen = [one for one in blocks if one.round <= number]
        found = judge.compare(seen, candidate="candidate", rival="rival", policy=policy)
        if found.verdict is not judge.Verdict.INCONCLUSIVE:
            return {found.verdict: number // 2 + 1}
    return {}


def _blocks(random: np.random.Generator, spread: float, truth: float) -> list[Measurement]:
    """Return the blocks of all loads; each load is driven for two rounds."""
    return [
        Measurement(
            arm=arm,
            node="one",
            pod_uid=f"{arm}-{load}",
            load=load,
            mode=Mode.ALTERNATING,
            round=2 * load + block // (BLOCKS // 2),
            position=block,
            concurrency=band,
            started_at="2026-01-01T00:00:00Z",
            window_ms=20_000,
            output_tokens=round(1e6 * mean * float(np.exp(luck + random.normal(0.0, BLOCK_NOISE)))),
            requests=100,
        )
        for arm, mean in (("candidate", truth), ("rival", 1.0))
        for load in range(LOADS[-1])
        for luck in (float(random.normal(0.0, spread)),)
        for band in BANDS
        for block in range(BLOCKS)
    ]
