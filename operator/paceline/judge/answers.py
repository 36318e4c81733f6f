"""Whether speculation changed the answers.

Greedy answers of one server differ between runs, since numerics depend on what else is in the batch; a verified draft
makes a batch of another shape. So the control's agreement with itself is the yardstick, the lowest of any concurrency,
and a tolerance comes on top of it. A head of a foreign vocabulary, or a wrong sampler, agrees on next to nothing.

Source: Newcombe, Statistics in Medicine 17 (1998) 873, method 10: bounds of a difference of two shares from Wilson's
bounds of each.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from paceline.api.measurement import Measurement

_OVERDISPERSION: Final = 2.0
"""The same prompts come again in later rounds and answer alike, so that half the answers tell something new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How often an arm gave the control's greedy answer."""

    agreed: int
    compared: int

    @property
    def share(self) -> float:
        """0 to 1."""
        return self.agreed / self.compared

    def wilson(self, tail: float) -> tuple[float, float]:
        """Return Wilson's bounds of the share."""
        count = max(1.0, self.compared / _OVERDISPERSION)
        z = statistics.NormalDist().inv_cdf(1.0 - tail)
        centre = (self.share + z * z / (2.0 * count)) / (1.0 + z * z / count)
        width = z / (1.0 + z * z / count) * math.sqrt(self.share * (1.0 - self.share) / count + (z / count / 2.0) ** 2)
        return max(0.0, centre - width), min(1.0, centre + width)


def changed(
    measurements: Sequence[Measurement], *, candidate: str, control: str, tolerance_percent: float, tail: float
) -> str:
    """Return what shows that the candidate answers otherwise than the control does; empty while nothing does.

    Args:
        measurements: blocks of both; those that compared nothing say nothing.
        candidate: the arm in question.
        control: the arm whose agreement with itself is the yardstick.
        tolerance_percent: percentage points by which the candidate may agree less often.
        tail: the error of this question.
    """
    theirs = _yardstick(measurements, control)
    ours = _agreement([one for one in measurements if one.arm == candidate])
    if ours is None or theirs is None:
        return ""
    upper, lower = ours.wilson(tail)[1], theirs.wilson(tail)[0]
    largest = ours.share - theirs.share + math.hypot(upper - ours.share, theirs.share - lower)
    if largest >= -tolerance_percent / 100.0:
        return ""
    return (
        f"{ours.agreed} of {ours.compared} greedy answers are the control's, which gives {theirs.agreed} of "
        f"{theirs.compared} of its own again: speculation changes what the model says"
    )


def _yardstick(measurements: Sequence[Measurement], control: str) -> Agreement | None:
    """Return the control's agreement with itself at the concurrency where it agrees least."""
    mine = [one for one in measurements if one.arm == control and one.compared]
    bands = [_agreement([one for one in mine if one.concurrency == band]) for band in {one.concurrency for one in mine}]
    return min((one for one in bands if one is not None), key=lambda one: one.share, default=None)


def _agreement(blocks: Sequence[Measurement]) -> Agreement | None:
    compared = sum(one.compared for one in blocks)
    return Agreement(agreed=min(compared, sum(one.agreed for one in blocks)), compared=compared) if compared else None
