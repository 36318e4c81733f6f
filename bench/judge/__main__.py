"""Four rules on the noise of real servers: how often each is wrong, and what it costs until it speaks.

    PYTHONPATH=operator python -m bench.judge --out bench/results/judge [--quick] [RECORDING ...]

Writes ``judge.json``, ``judge.md`` (the tables) and ``judge.svg``. The budget is 15 minutes in which both arms serve:
1,800 server-seconds. A run without a verdict by then is undecided. Everything is drawn from one seed.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.judge import faults, loads, noise, report, rules

BUDGET_S: Final = 900.0
"""Seconds in which both arms serve."""
RECORDINGS: Final = Path(__file__).resolve().parent.parent / "results"
MOST_ERROR: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One line of what a rule should do."""

    key: str
    truth: float
    gain: bool
    verdict: int
    often: bool
    """Whether the verdict is wanted in at least 99 % of runs, or at most in 1 %."""

    def share(self, ended: rules.Ended) -> float:
        """Return how often the verdict came."""
        return float(np.mean(ended.verdicts == self.verdict))

    def missed_by(self, share: float) -> float:
        """Return how far a share is from what is wanted; 0 when it is reached."""
        return max(0.0, (1.0 - MOST_ERROR) - share if self.often else share - MOST_ERROR)


WANTED: Final = (
    Wanted(key="5 % slower promoted", truth=0.95, gain=False, verdict=rules.PROMOTED, often=False),
    Wanted(key="15 % slower rejected", truth=0.85, gain=False, verdict=rules.REJECTED, often=True),
    Wanted(key="equal rejected as slower", truth=1.0, gain=False, verdict=rules.REJECTED, often=False),
    Wanted(key="equal promoted as faster", truth=1.0, gain=True, verdict=rules.PROMOTED, often=False),
    Wanted(key="20 % faster promoted", truth=1.2, gain=True, verdict=rules.PROMOTED, often=True),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate and write."""
    options = _options(arguments)
    recordings = [noise.read(path) for path in options.recordings] or _recorded(options.only)
    runs, sweep_runs = (60, 40) if options.quick else (options.runs, 600)
    rows: list[dict[str, Any]] = []
    choices = {recording.name: _rivals(recording, sweep_runs, options.seed) for recording in recordings}
    for recording in recordings:
        chosen = choices[recording.name]
        conditions = noise.CONDITIONS[:1] if options.quick else noise.CONDITIONS
        for condition in conditions:
            source = _source(recording, condition, options.seed)
            ours = rules.Paceline(max_rounds=options.max_rounds, budget_s=BUDGET_S)
            rows.append(_ours("Paceline", ours, source, runs))
            if condition.node:
                told = dataclasses.replace(ours, node_spread_percent=100.0 * condition.node)
                rows.append(_ours("Paceline, told of the nodes", told, source, runs))
            rows += [_rival(name, pair, source, runs) for name, pair in chosen.items()]
            _say(f"{recording.name}, {condition.name}: done")
    answer = {
        "seed": options.seed,
        "runs": runs,
        "budgetServerSeconds": 2 * BUDGET_S,
        "recordings": [_about(one) for one in recordings],
        "faults": faults.verdicts(),
        "copyAgrees": _checked(recordings[0], options.seed, count=10 if options.quick else 200),
        "rows": rows,
        "loads": loads.rates(runs=max(5, runs // 10), seed=options.seed, spreads=(0.01, 0.03, 0.06)),
        "curves": _curves(recordings[0], choices[recordings[0].name], options, runs=runs // 4),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "judge.json").write_text(json.dumps(answer, separators=(",", ":")) + "\n")
    (options.out / "judge.md").write_text(report.tables(answer))
    report.plot(answer, options.out / "judge.svg")
    _say(report.tables(answer))
    return 0


def _ours(name: str, rule: rules.Paceline, source: noise.Source, runs: int) -> dict[str, Any]:
    ends = {one.key: rule.run(source, runs=runs, truth=one.truth, gain=one.gain) for one in WANTED}
    return _row(name, rule.title, source, ends)


def _rival(name: str, pair: dict[bool, rules.Rival], source: noise.Source, runs: int) -> dict[str, Any]:
    """Return the row of a rival: one threshold for each of the two questions."""
    ends = {
        one.key: rules.run_rival(pair[one.gain], source, runs=runs, truth=one.truth, gain=one.gain) for one in WANTED
    }
    return _row(name, f"{pair[False].title}; for a gain {pair[True].title}", source, ends)


def _row(name: str, title: str, source: noise.Source, ends: dict[str, rules.Ended]) -> dict[str, Any]:
    return {
        "rule": name,
        "title": title,
        "recording": source.recording.name,
        "condition": source.condition.name,
        "shares": {one.key: round(one.share(ends[one.key]), 4) for one in WANTED},
        "reached": {one.key: one.missed_by(one.share(ends[one.key])) == 0.0 for one in WANTED},
        "undecided": {key: round(float(np.mean(ended.verdicts == rules.OPEN)), 4) for key, ended in ends.items()},
        "medianSamples": {key: float(np.median(ended.samples)) for key, ended in ends.items()},
        "medianServerSeconds": {key: round(2 * float(np.median(ended.seconds)), 1) for key, ended in ends.items()},
    }


def _rivals(recording: noise.Recording, runs: int, seed: int) -> dict[str, dict[bool, rules.Rival]]:
    """Return for each rival and question the thresholds that err least, and of those the cheapest in samples.

    They are chosen on the recording as it is, within the budget; what else may be wrong is not known beforehand.
    """
    most = int(BUDGET_S // rules.window_seconds(recording))
    drawn = {}
    for truth in sorted({one.truth for one in WANTED}):
        source = _source(recording, noise.CONDITIONS[0], seed + 1)
        drawn[truth] = source.windows(runs=runs, count=min(most, 200), effect=float(np.log(truth)))
    best: dict[tuple[str, bool], tuple[tuple[float, float], rules.Rival]] = {}
    for name, rival in rules.sweep(min(most, 200)):
        for gain in (False, True):
            score = _score(rival, drawn, gain=gain, worst=best.get((name, gain)))
            if (name, gain) not in best or score < best[name, gain][0]:
                best[name, gain] = (score, rival)
    names = dict.fromkeys(name for name, _ in best)
    return {name: {gain: best[name, gain][1] for gain in (False, True)} for name in names}


def _score(
    rival: rules.Rival,
    drawn: dict[float, tuple[noise.Array, noise.Array]],
    *,
    gain: bool,
    worst: tuple[tuple[float, float], rules.Rival] | None,
) -> tuple[float, float]:
    """Return by how much what is wanted is missed, and the median samples; stops once it cannot be the best."""
    missed, samples = 0.0, 0.0
    for one in WANTED:
        if one.gain is not gain:
            continue
        verdicts, counts = rival.judged(*drawn[one.truth], gain=gain)
        missed += one.missed_by(float(np.mean(verdicts == one.verdict)))
        samples = max(samples, float(np.median(counts)))
        if worst and (missed, samples) > worst[0]:
            break
    return missed, samples


def _source(recording: noise.Recording, condition: noise.Condition, seed: int) -> noise.Source:
    return noise.Source(recording=recording, condition=condition, random=np.random.default_rng(seed))


def _checked(recording: noise.Recording, seed: int, *, count: int) -> dict[str, int]:
    """Return in how many runs the copy in numpy says what ``judge.compare`` says."""
    rule = rules.Paceline(budget_s=1e9)
    source = _source(recording, noise.CONDITIONS[-1], seed + 2)
    same = 0
    for at in range(count):
        gain = bool(at % 2)
        ours, theirs = source.rounds(runs=1, rounds=rule.max_rounds, effect=float(np.log(0.9 + 0.05 * (at % 7))))
        verdicts, rounds = rule.judged(ours - theirs, rule.max_rounds, gain=gain)
        said = faults.first_verdict(recording, ours[0], theirs[0], rule.policy(gain=gain))
        same += said == (int(verdicts[0]), int(rounds[0]))
    return {"same": same, "of": count}


def _curves(
    recording: noise.Recording, chosen: dict[str, dict[bool, rules.Rival]], options: argparse.Namespace, *, runs: int
) -> dict[str, Any]:
    """Return by the true ratio how often each rule promotes and leaves open, asked for a regression."""
    truths = [round(0.8 + 0.025 * step, 3) for step in range(11)]
    condition = noise.CONDITIONS[-1]
    curves: dict[str, Any] = {"recording": recording.name, "condition": condition.name, "truths": truths, "rules": {}}
    for name in ("Paceline", *chosen):
        promoted, undecided, seconds = [], [], []
        for truth in truths:
            source = _source(recording, condition, options.seed + 3)
            if name == "Paceline":
                rule = rules.Paceline(max_rounds=options.max_rounds, budget_s=BUDGET_S)
                ended = rule.run(source, runs=runs, truth=truth, gain=False)
            else:
                ended = rules.run_rival(chosen[name][False], source, runs=runs, truth=truth, gain=False)
            promoted.append(float(np.mean(ended.verdicts == rules.PROMOTED)))
            undecided.append(float(np.mean(ended.verdicts == rules.OPEN)))
            seconds.append(2 * float(np.median(ended.seconds)))
        curves["rules"][name] = {"promoted": promoted, "undecided": undecided, "serverSeconds": seconds}
    return curves


def _about(recording: noise.Recording) -> dict[str, Any]:
    return {
        "name": recording.name,
        "bands": list(recording.bands),
        "blockSeconds": round(recording.block_s, 2),
        "spread": recording.spread(),
        "conditions": [dataclasses.asdict(one) for one in noise.CONDITIONS],
    }


def _recorded(only: str) -> list[noise.Recording]:
    """Return the recordings of bench/results: unequal arms first, since theirs is the noise that a rollout meets."""
    side, old = "h200-noise-side-by-side.json", "h200-enlarged-6.7b-k3.json"
    named = (
        ("H200, k=3 against no speculation", side, ("k=3#0", "none#0")),
        ("H200, two servers without speculation", side, ("none#1", "none#0")),
        ("H200, one server against itself", "h200-noise-same-server.json", ("none#0", "none#0-again")),
        ("H200, k=3, short blocks", old, ("k=3", "none")),
        ("CPU, n-gram against no speculation", "cpu-noise-ngram.json", ("ngram=3#0", "none#0")),
        ("CPU, two servers without speculation", "cpu-noise-equal.json", ("none#1", "none#0")),
        ("CPU, one server against itself", "cpu-noise-equal.json", ("none#0", "none#0-again")),
    )
    return [
        noise.read(RECORDINGS / file, name=name, arms=arms)
        for name, file, arms in named
        if (RECORDINGS / file).exists() and name.startswith(only)
    ]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*", type=Path, help="by default all of bench/results")
    parser.add_argument("--only", default="", help="of those the ones whose names begin so, such as CPU")
    parser.add_argument("--out", type=Path, required=True, help="folder")
    parser.add_argument("--runs", type=int, default=4000, help="of each rule in each case (default %(default)s)")
    parser.add_argument("--max-rounds", type=int, default=rules.Paceline().max_rounds, help="of our rule (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="60 runs: shows that it runs, not how rules compare")
    return parser.parse_args(arguments)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
