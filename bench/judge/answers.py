"""The rule on changed answers on what real servers answered: how often it is wrong, and what it sees.

    PYTHONPATH=operator python -m bench.judge.answers bench/results/h200-answers.json

Prints three tables in Markdown. How often two arms begin alike, by the length of the beginning. How often the product's
rule says that answers changed, for arms that are right (the control again, another start of it, a true speculating
server: false alarms) and for arms that are wrong (a sampler at a temperature, drafts accepted unseen). And the same for
the control's own answers with a wrong token let through now and then.

Rollouts are drawn from the recorded prompts as a probe drives them: in every round 12 answers a slot of the candidate,
and 2 a slot of the control against its own. One looks after every round.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline import judge
from paceline.api.measurement import Measurement
from paceline.judge import answers

BEGINNINGS: Final = (16, 32, 64, 128, 256)
TOLERANCES: Final = (10, 20, 30, 50)
FAULTS: Final = (0.005, 0.01, 0.02, 0.05, 0.1)
"""Shares of tokens that come out wrong."""
_TOKEN: Final = 4
"""Characters of a token, in the mean."""
_CANDIDATE_A_SLOT: Final = 12
_CONTROL_A_SLOT: Final = 2
_LOOKS: Final = range(2, 11)
_TAIL: Final = judge.Policy(kind=judge.Bar.BETTER).error / len(_LOOKS)
Flags = dict[int, NDArray[np.bool_]]
"""By concurrency: whether an answer begins as the control's does, by prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Answers of several arms to the same prompts."""

    about: str
    texts: dict[tuple[str, int], list[str]]
    """By arm and concurrency, in the order of the prompts."""

    @classmethod
    def read(cls, path: Path) -> "Recording":
        """Return what ``bench.record_answers`` wrote."""
        document = json.loads(path.read_text(encoding="utf-8"))
        texts = {
            (row["arm"], row["concurrency"]): [
                known[at] for known, at in zip(document["texts"], row["which"], strict=True)
            ]
            for row in document["answers"]
        }
        return cls(about=document["about"], texts=texts)

    @property
    def arms(self) -> list[str]:
        """The control first."""
        return list(dict.fromkeys(arm for arm, _ in self.texts))

    def alike(self, arm: str, beginning: int | None) -> Flags:
        """Return which of an arm's answers begin as the control's first ones do; None compares whole answers."""
        control = self.arms[0]
        return {
            band: np.array(
                [
                    one[:beginning] == other[:beginning]
                    for one, other in zip(mine, self.texts[control, band], strict=True)
                ]
            )
            for (name, band), mine in self.texts.items()
            if name == arm
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """Draws what probes would have counted."""

    yardstick: Flags
    """The control against itself."""
    random: np.random.Generator
    runs: int

    def convicted(self, candidate: Flags, tolerance: float, *, wrong: float = 0.0) -> float:
        """Return the share of rollouts in which the rule says that answers changed.

        Args:
            candidate: how an arm's answers compare with the control's.
            tolerance: percentage points.
            wrong: chance that an answer which is alike is not, over all its tokens that are compared.
        """
        return float(np.mean([self._one(candidate, tolerance, wrong) for _ in range(self.runs)]))

    def _one(self, candidate: Flags, tolerance: float, wrong: float) -> bool:
        """Return whether one rollout ends so; its prompts come again in every round, and answer alike."""
        ours = {band: self._rounds(flags, _CANDIDATE_A_SLOT * band, wrong) for band, flags in candidate.items()}
        theirs = {band: self._rounds(flags, _CONTROL_A_SLOT * band, 0.0) for band, flags in self.yardstick.items()}
        return any(
            bool(
                answers.changed(
                    [*_counted("candidate", ours, rounds), *_counted("control", theirs, rounds)],
                    candidate="candidate",
                    control="control",
                    tolerance_percent=tolerance,
                    tail=_TAIL,
                )
            )
            for rounds in _LOOKS
        )

    def _rounds(self, flags: NDArray[np.bool_], asked: int, wrong: float) -> NDArray[np.bool_]:
        """Return the answers of all rounds ``[round, answer]``: a draw of prompts, asked in turn."""
        drawn = self.random.choice(flags, len(flags)) & (self.random.random(len(flags)) >= wrong)
        return np.resize(drawn, (_LOOKS[-1], asked))


def _counted(arm: str, rounds: dict[int, NDArray[np.bool_]], until: int) -> Iterator[Measurement]:
    """Yield what was counted until a round, a measurement for each concurrency."""
    for band, flags in rounds.items():
        yield Measurement(
            arm=arm,
            concurrency=band,
            started_at="2026-01-01T00:00:00Z",
            compared=flags[:until].size,
            agreed=int(flags[:until].sum()),
        )


def report(recording: Recording, *, runs: int, seed: int) -> list[str]:
    """Return the three tables."""
    control, again, *others = recording.arms
    random = np.random.default_rng(seed)
    lines = [f"{recording.about}.", "", *_shares(recording)]
    lines += ["", f"Convicted, per cent of {runs} rollouts:", ""]
    lines += ["| beginning | tolerance | " + " | ".join([again, *others]) + " |", "|---" * (3 + len(others)) + "|"]
    for beginning in BEGINNINGS:
        source = Rollouts(yardstick=recording.alike(again, beginning), random=random, runs=runs)
        arms = [recording.alike(arm, beginning) for arm in (again, *others)]
        for tolerance in TOLERANCES:
            lines.append(_row(f"{beginning} | {tolerance}", [source.convicted(arm, tolerance) for arm in arms]))
    lines += ["", f"{control} with so many of its tokens wrong, convicted:", ""]
    lines += ["| beginning | tolerance | " + " | ".join(f"{100 * fault:g} %" for fault in FAULTS) + " |"]
    lines += ["|---" * (2 + len(FAULTS)) + "|"]
    for beginning in BEGINNINGS:
        source = Rollouts(yardstick=recording.alike(again, beginning), random=random, runs=runs)
        equal = recording.alike(again, beginning)
        for tolerance in TOLERANCES:
            shares = [source.convicted(equal, tolerance, wrong=lost(fault, beginning)) for fault in FAULTS]
            lines.append(_row(f"{beginning} | {tolerance}", shares))
    return lines


def lost(fault: float, beginning: int) -> float:
    """Return the chance that a beginning holds a wrong token."""
    return 1.0 - float((1.0 - fault) ** (beginning / _TOKEN))


def _shares(recording: Recording) -> Iterator[str]:
    """Yield how often arms begin alike, over all concurrencies and at the one where they do least."""
    yield "| arm | " + " | ".join(f"{one} characters" for one in BEGINNINGS) + " | whole answers |"
    yield "|---" * (2 + len(BEGINNINGS)) + "|"
    for arm in recording.arms[1:]:
        cells = []
        for beginning in (*BEGINNINGS, None):
            flags = recording.alike(arm, beginning)
            whole, least = np.concatenate(list(flags.values())).mean(), min(one.mean() for one in flags.values())
            cells.append(f"{100 * whole:.0f} ({100 * least:.0f})")
        yield f"| {arm} | {' | '.join(cells)} |"


def _row(label: str, shares: Sequence[float]) -> str:
    return f"| {label} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of every recording."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    for path in options.recordings:
        found = report(Recording.read(path), runs=options.runs, seed=options.seed)
        sys.stdout.write("\n".join(found) + "\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
