"""Four ways to judge: Paceline's, and three rivals' as their documents describe them.

Every rule gets throughput that was measured under the same load on both arms, which rivals do not arrange by
themselves, and every rival's window takes no longer than one of our blocks at each band, both arms at once. Each says
of every run how it ended and after how many samples.

- Argo Rollouts (Analysis & Progressive Delivery): every measurement is compared with a threshold
(``successCondition``);
  more than ``failureLimit`` failed ones fail the run, ``count`` measurements without that pass it.
- Flagger (How it works, Metrics Analysis): a check outside ``thresholdRange`` is a failed check, ``threshold`` of them
  roll back; the weight moves on with each check that holds, and ``iterations`` of them promote.
- Kayenta (its Mann-Whitney classifier): once, over all points of both arms: Low when the confidence bounds of the shift
  lie below a fraction of its estimate, and then the canary fails, else it passes. It knows no gain to be asked for;
  here one is asked by the same test on the other side.
"""

import dataclasses
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.judge import noise
from paceline import judge
from paceline.judge import interval, spending, student

PROMOTED, OPEN, REJECTED = 1, 0, -1
Ends = NDArray[np.int_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How runs ended, and after how many samples and seconds of serving on both arms."""

    verdicts: Ends
    samples: Ends
    seconds: noise.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Paceline:
    """Our own, in numpy; the bench checks it against ``judge.compare`` on single runs.

    ``max_rounds`` is set to what the budget holds, if that is less: who knows the deadline sets it so.
    """

    min_rounds: int = 2
    max_rounds: int = 10
    confidence_percent: float = 95.0
    min_gain_percent: float = 3.0
    max_regression_percent: float = 3.0
    band_floor_percent: float = 80.0
    node_spread_percent: float = 0.0
    budget_s: float = 900.0

    @property
    def title(self) -> str:
        """What it is called."""
        nodes = f", nodeSpreadPercent {self.node_spread_percent:g}" if self.node_spread_percent else ""
        return f"Paceline ({self.min_rounds} to {self.max_rounds} rounds, {self.confidence_percent:.0f} %{nodes})"

    def policy(self, *, gain: bool) -> judge.Policy:
        """Return the same as the product's policy."""
        return judge.Policy(
            kind=judge.Bar.BETTER if gain else judge.Bar.NO_WORSE,
            min_gain_percent=self.min_gain_percent,
            max_regression_percent=self.max_regression_percent,
            confidence_percent=self.confidence_percent,
            min_rounds=self.min_rounds,
            max_rounds=self.max_rounds,
            band_floor_percent=self.band_floor_percent,
        )

    def run(self, source: noise.Source, *, runs: int, truth: float, gain: bool) -> Ended:
        """Look after every round that the budget has room for."""
        round_s = 4.0 * len(source.recording.bands) * source.recording.block_s
        driven = max(1, min(self.max_rounds, int(self.budget_s // round_s)))
        ours, theirs = source.rounds(runs=runs, rounds=driven, effect=float(np.log(truth)))
        verdicts, rounds = dataclasses.replace(self, max_rounds=driven).judged(ours - theirs, driven, gain=gain)
        return Ended(verdicts=verdicts, samples=2 * rounds, seconds=rounds * round_s)

    def judged(self, ratios: noise.Array, driven: int, *, gain: bool) -> tuple[Ends, Ends]:
        """Return the verdict of each run ``[run, half, band]`` and after which round it stood."""
        policy = self.policy(gain=gain)
        bar, floor = np.log(policy.bar), np.log(self.band_floor_percent / 100.0)
        verdicts = np.full(len(ratios), OPEN)
        rounds = np.full(len(ratios), driven)
        for number in range(self.min_rounds, driven + 1):
            looks = range(self.min_rounds, number + 1)
            tail = spending.tail(
                tuple(2 * look for look in looks),
                tuple(look / self.max_rounds for look in looks),
                error=policy.error,
            )
            shared = np.sqrt(2.0) * self.node_spread_percent / 100.0
            lower, upper = _bounds(ratios[:, : 2 * number].mean(axis=2), tail, shared)
            lowest, highest = _bounds(ratios[:, : 2 * number], tail, shared)
            fails = (upper < bar) | (highest < floor).any(axis=1)
            passes = (lower > bar) & (lowest > floor).all(axis=1) & ~fails
            undecided = verdicts == OPEN
            verdicts[undecided & fails], verdicts[undecided & passes] = REJECTED, PROMOTED
            rounds[undecided & (fails | passes)] = number
        return verdicts, rounds


def _bounds(samples: noise.Array, tail: float, shared: float) -> tuple[noise.Array, noise.Array]:
    """Return the bounds of the mean along axis 1, as :func:`paceline.judge.interval.of_samples` has them."""
    count = samples.shape[1]
    mean = samples.mean(axis=1)
    off = samples - mean[:, None]
    squares = (off**2).sum(axis=1)
    correlation = np.clip(
        (off[:, 1:] * off[:, :-1]).sum(axis=1) / squares + 1.0 / count, 0.0, interval.MOST_CORRELATION
    )
    spread = np.sqrt(squares / (count - 1) * (1.0 + correlation) / (1.0 - correlation))
    half = np.hypot(
        student.quantile(tail, count - 1) * spread / np.sqrt(count),
        statistics.NormalDist().inv_cdf(1.0 - tail) * shared,
    )
    return mean - half, mean + half


class Rival(Protocol):
    """A rule over windows in which both arms serve at once."""

    @property
    def title(self) -> str:
        """What it is called in the table, thresholds included."""
        ...

    @property
    def windows(self) -> int:
        """The most windows it takes."""
        ...

    def judged(self, ours: noise.Array, theirs: noise.Array, *, gain: bool) -> tuple[Ends, Ends]:
        """Return how each run of log throughputs ``[run, window]`` ended, and after how many windows."""
        ...


def run_rival(rival: Rival, source: noise.Source, *, runs: int, truth: float, gain: bool) -> Ended:
    """Judge ``runs`` candidates of a true ratio."""
    ours, theirs = source.windows(runs=runs, count=rival.windows, effect=float(np.log(truth)))
    verdicts, samples = rival.judged(ours, theirs, gain=gain)
    return Ended(verdicts=verdicts, samples=samples, seconds=samples * window_seconds(source.recording))


def window_seconds(recording: noise.Recording) -> float:
    """Return what a rival's window takes: one of our blocks at each band, both arms at once."""
    return len(recording.bands) * recording.block_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Argo:
    """A threshold on every measurement."""

    threshold: float
    count: int
    failure_limit: int

    @property
    def title(self) -> str:
        """What it is called."""
        return f"Argo Rollouts (>= {self.threshold:.3f}, count {self.count}, failureLimit {self.failure_limit})"

    @property
    def windows(self) -> int:
        """The most windows it takes."""
        return self.count

    def judged(self, ours: noise.Array, theirs: noise.Array, *, gain: bool) -> tuple[Ends, Ends]:  # noqa: ARG002
        """Fail at the first failure too many, else pass after ``count``; the threshold tells what is asked."""
        low = np.exp(ours[:, : self.count] - theirs[:, : self.count]) < self.threshold
        too_many = np.cumsum(low, axis=1) > self.failure_limit
        failed = too_many.any(axis=1)
        return np.where(failed, REJECTED, PROMOTED), np.where(failed, too_many.argmax(axis=1) + 1, self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flagger:
    """Failed checks against checks that held."""

    minimum: float
    iterations: int
    threshold: int

    @property
    def title(self) -> str:
        """What it is called."""
        return f"Flagger (min {self.minimum:.3f}, iterations {self.iterations}, threshold {self.threshold})"

    @property
    def windows(self) -> int:
        """The most windows it takes: all but one of each count."""
        return self.iterations + self.threshold - 1

    def judged(self, ours: noise.Array, theirs: noise.Array, *, gain: bool) -> tuple[Ends, Ends]:  # noqa: ARG002
        """End with whichever count is full first; the minimum tells what is asked."""
        low = np.exp(ours[:, : self.windows] - theirs[:, : self.windows]) < self.minimum
        failed = np.cumsum(low, axis=1) >= self.threshold
        held = np.cumsum(~low, axis=1) >= self.iterations
        fails_at, holds_at = (np.where(one.any(axis=1), one.argmax(axis=1), self.windows) for one in (failed, held))
        return np.where(fails_at < holds_at, REJECTED, PROMOTED), np.minimum(fails_at, holds_at) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kayenta:
    """Mann-Whitney over all points of both arms, once."""

    points: int
    confidence: float
    fraction: float = 0.25

    @property
    def title(self) -> str:
        """What it is called."""
        return f"Kayenta (Mann-Whitney, {self.points} points, confidence {self.confidence}, fraction {self.fraction})"

    @property
    def windows(self) -> int:
        """The most windows it takes."""
        return self.points

    def judged(self, ours: noise.Array, theirs: noise.Array, *, gain: bool) -> tuple[Ends, Ends]:
        """Compare the bounds of the shift with a fraction of its estimate."""
        verdicts = np.empty(len(ours), dtype=int)
        rank, last = self._rank(), self.points * self.points - 1
        for at, (one, other) in enumerate(zip(np.exp(ours), np.exp(theirs), strict=True)):
            shifts = (one[: self.points, None] - other[None, : self.points]).ravel()
            lower, estimate, upper = np.partition(shifts, [rank, last // 2, last - rank])[
                [rank, last // 2, last - rank]
            ]
            allowed = self.fraction * abs(float(estimate))
            if gain:
                verdicts[at] = PROMOTED if lower > allowed else REJECTED
            else:
                verdicts[at] = REJECTED if upper < -allowed else PROMOTED
        return verdicts, np.full(len(ours), self.points)

    def _rank(self) -> int:
        """Return which of the sorted differences, from 0, is the bound, by the normal approximation."""
        count = self.points
        z = statistics.NormalDist().inv_cdf(0.5 + self.confidence / 2.0)
        return max(0, int(count * count / 2.0 - z * np.sqrt(count * count * (2 * count + 1) / 12.0)) - 1)


def sweep(most_windows: int) -> Iterator[tuple[str, Rival]]:
    """Yield every rival with every combination of thresholds, of at most ``most_windows`` windows."""
    for count in (5, 10, 15, 20, 30, 40, 60, 80, 110, 150, 200):
        if count > most_windows:
            return
        for threshold in (0.9, 0.925, 0.95, 0.96, 0.97, 0.975, 0.98, 0.99, 1.0, 1.03, 1.06, 1.1):
            for limit in sorted({0, 1, 3, count // 4, count // 3, count // 2 - 1, count // 2, count * 2 // 3}):
                yield "Argo Rollouts", Argo(threshold=threshold, count=count, failure_limit=limit)
            for limit in sorted({1, 2, 5, count // 2, count}):
                if count + limit - 1 <= most_windows:
                    yield "Flagger", Flagger(minimum=threshold, iterations=count, threshold=limit)
        for confidence in (0.9, 0.95, 0.98, 0.99, 0.998):
            for fraction in (0.1, 0.25, 0.5):
                yield "Kayenta", Kayenta(points=count, confidence=confidence, fraction=fraction)
