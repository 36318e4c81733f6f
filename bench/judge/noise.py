"""Noise of real servers, and what else may be wrong with it.

A recording gives, for every band and arm, how far single blocks lay from their mean. Simulated blocks draw from these
residuals, slightly blurred since there are few. What a short recording cannot show is laid over it: heavy tails, a
drift that both arms share, a slow wander of each arm, and nodes that differ.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline.api.measurement import Measurement

Array = NDArray[np.float64]

_BLUR = 0.3
"""Of a band's standard deviation: a bootstrap of six values would else know six values."""
_FEWEST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Residual log throughputs by band, candidate's and rival's, and what a block takes."""

    name: str
    bands: tuple[int, ...]
    candidate: tuple[Array, ...]
    rival: tuple[Array, ...]
    block_s: float
    """Mean time from one block's start to the next one's."""

    def spread(self) -> dict[str, list[float]]:
        """Return the standard deviation of each arm by band."""
        return {
            arm: [round(float(np.std(one)), 4) for one in pools]
            for arm, pools in (("candidate", self.candidate), ("rival", self.rival))
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What is laid over a recording; standard deviations are of log throughput."""

    name: str
    tail_share: float = 0.0
    """Share of blocks that are slowed down by an exponential of mean 0.3."""
    drift: float = 0.0
    """Standard deviation of where a run has drifted to after 15 minutes; half as much swings every five. Both arms
    share it."""
    wander: float = 0.0
    """Standard deviation of a slow wander of each arm, with a correlation of 0.8 from block to block."""
    node: float = 0.0
    """Standard deviation of what an arm's node gives or takes for the whole run."""


CONDITIONS = (
    Condition(name="as recorded"),
    Condition(name="heavy tails", tail_share=0.03),
    Condition(name="drift", drift=0.06),
    Condition(name="wander", wander=0.02),
    Condition(name="nodes", node=0.01),
    Condition(name="all of it", tail_share=0.02, drift=0.04, wander=0.01, node=0.005),
)
_TAIL_MEAN = 0.3
_CORRELATION = 0.8
_DRIFT_S = 900.0
_PERIOD_S = 300.0


def read(path: Path, *, name: str = "", arms: tuple[str, str] | None = None) -> Recording:
    """Return the recording in a file of measurements.

    Args:
        path: the file.
        name: what to call it; by default the file's name.
        arms: candidate and rival; by default as the file names them, else its first two.
    """
    document = json.loads(path.read_text())
    rows = document["measurements"] if isinstance(document, dict) else document
    blocks = [one for one in (Measurement.model_validate(row) for row in rows) if one.tokens_per_second]
    seen = list(dict.fromkeys(one.arm for one in blocks))
    named = [document.get(role) for role in ("candidate", "rival")] if isinstance(document, dict) else []
    candidate, rival = arms or [arm for arm in named if arm in seen] or seen[:2]
    bands = tuple(sorted({one.concurrency for one in blocks}))
    return Recording(
        name=name or path.stem,
        bands=bands,
        candidate=tuple(_residuals(blocks, candidate, band) for band in bands),
        rival=tuple(_residuals(blocks, rival, band) for band in bands),
        block_s=_block_seconds(blocks),
    )


def _residuals(blocks: Sequence[Measurement], arm: str, band: int) -> Array:
    """Return how far an arm's blocks lie from their mean, widened by what taking the mean cost."""
    values = [one.tokens_per_second or 0.0 for one in blocks if one.arm == arm and one.concurrency == band]
    if len(values) < _FEWEST:
        raise SystemExit(f"arm {arm} has {len(values)} blocks at concurrency {band}; a recording needs {_FEWEST}")
    logs = np.log(np.array(values))
    return (logs - logs.mean()) * np.sqrt(len(logs) / (len(logs) - 1))


def _block_seconds(blocks: Sequence[Measurement]) -> float:
    """Return what a block takes, ramp and tail included: the mean step between starts, without long pauses."""
    starts = sorted(datetime.fromisoformat(one.started_at).timestamp() for one in blocks)
    steps = np.diff(np.array(starts))
    return float(max(np.mean(steps[steps < 5.0 * max(1.0, np.median(steps))]), 0.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Draws the noise of many runs at once."""

    recording: Recording
    condition: Condition
    random: np.random.Generator

    def rounds(self, *, runs: int, rounds: int, effect: float) -> tuple[Array, Array]:
        """Return log throughput of A B B A rounds: candidate's and rival's ``[run, half, band]``.

        ``effect`` is the true log ratio. Blocks follow each other: at each band A B B A.
        """
        bands = len(self.recording.bands)
        shape = (runs, rounds, bands, 4)
        when = np.arange(rounds * bands * 4).reshape(rounds, bands, 4)
        ours, theirs = self._arms(runs, when)
        candidate = ours[..., [0, 3]] + effect
        rival = theirs[..., [1, 2]]
        assert ours.shape == shape  # noqa: S101 - a bug here would show as a result
        return _halves(candidate), _halves(rival)

    def windows(self, *, runs: int, count: int, effect: float) -> tuple[Array, Array]:
        """Return log throughput of windows in which both arms serve at once: ``[run, window]``, a mean over bands."""
        bands = len(self.recording.bands)
        when = np.arange(count * bands).reshape(count, bands, 1)
        ours, theirs = self._arms(runs, when)
        return ours[..., 0].mean(axis=2) + effect, theirs[..., 0].mean(axis=2)

    def _arms(self, runs: int, when: NDArray[np.int_]) -> tuple[Array, Array]:
        shared = self._drift(runs, when)
        ours, theirs = (
            shared + self._own(runs, when, pools) for pools in (self.recording.candidate, self.recording.rival)
        )
        return ours, theirs

    def _own(self, runs: int, when: NDArray[np.int_], pools: Sequence[Array]) -> Array:
        """Return an arm's own noise ``[run, *when]``; the band is the axis before the last."""
        random, condition = self.random, self.condition
        noise = np.empty((runs, *when.shape))
        for band, pool in enumerate(pools):
            where = (runs, *when[..., band, :].shape)
            blur = random.normal(0.0, _BLUR * pool.std(), where)
            noise[..., band, :] = (random.choice(pool, where) + blur) / np.sqrt(1.0 + _BLUR**2)
        if condition.tail_share:
            slowed = random.random(noise.shape) < condition.tail_share
            noise -= slowed * random.exponential(_TAIL_MEAN, noise.shape)
        if condition.wander:
            noise += self._wander(runs, int(when.max()) + 1)[:, when]
        return noise + random.normal(0.0, condition.node, (runs, *[1] * when.ndim))

    def _wander(self, runs: int, blocks: int) -> Array:
        steps = self.random.normal(0.0, self.condition.wander, (runs, blocks))
        for at in range(1, blocks):
            steps[:, at] = _CORRELATION * steps[:, at - 1] + np.sqrt(1 - _CORRELATION**2) * steps[:, at]
        return steps

    def _drift(self, runs: int, when: NDArray[np.int_]) -> Array:
        lead = (runs, *[1] * when.ndim)
        at_s = when * self.recording.block_s
        end = self.random.normal(0.0, self.condition.drift, lead)
        phase = self.random.uniform(0.0, 2 * np.pi, lead)
        swing = 0.5 * self.condition.drift * np.sin(2 * np.pi * at_s / _PERIOD_S + phase)
        return np.asarray(end * at_s / _DRIFT_S + swing)


def _halves(blocks: Array) -> Array:
    """Turn ``[run, round, band, half]`` into ``[run, half, band]``."""
    runs, rounds, bands, halves = blocks.shape
    return blocks.transpose(0, 1, 3, 2).reshape(runs, rounds * halves, bands)
