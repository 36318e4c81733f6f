"""Whether speculation changed the answers.

Greedy answers of one server differ between runs, since numerics depend on what else is in the batch; a verified draft
makes a batch of another shape. So the control's agreement with itself is the yardstick, and a tolerance comes on top of
it. A head of a foreign vocabulary, or a wrong sampler, agrees on next to nothing.

Both are compared band by band, and the differences added up by how many of the candidate's answers each band has. A
yardstick taken from the one band where the control agrees least would rest on that band's answers alone, two a round at
concurrency 1: one of them that the control did not repeat would hide a plain fault for ten rounds.

Sources: Newcombe, Statistics in Medicine 17 (1998) 873, method 10: bounds of a difference of two shares from Wilson's
bounds of each; Zou and Donner, Statistics in Medicine 27 (2008) 1693, for sums of more than two.
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
    pairs = [
        (ours, theirs)
        for band in {(one.concurrency, one.prompt_band) for one in measurements}
        if (ours := _agreement(measurements, candidate, band)) and (theirs := _agreement(measurements, control, band))
    ]
    if not pairs:
        return ""
    ours, theirs = (_summed(arm) for arm in zip(*pairs, strict=True))
    shares = [one.compared / ours.compared for one, _ in pairs]
    difference = math.fsum(share * (one.share - other.share) for share, (one, other) in zip(shares, pairs, strict=True))
    reach = math.hypot(
        *(share * (one.wilson(tail)[1] - one.share) for share, (one, _) in zip(shares, pairs, strict=True)),
        *(share * (other.share - other.wilson(tail)[0]) for share, (_, other) in zip(shares, pairs, strict=True)),
    )
    if difference + reach >= -tolerance_percent / 100.0:
        return ""
    return (
        f"{ours.agreed} of {ours.compared} greedy answers are the control's, which gives {theirs.agreed} of "
        f"{theirs.compared} of its own again: speculation changes what the model says"
    )


def _agreement(blocks: Sequence[Measurement], arm: str, band: tuple[int, str]) -> Agreement | None:
    """Return an arm's agreement in one band; None where nothing was compared."""
    mine = [one for one in blocks if one.arm == arm and (one.concurrency, one.prompt_band) == band]
    compared = sum(one.compared for one in mine)
    return Agreement(agreed=min(compared, sum(one.agreed for one in mine)), compared=compared) if compared else None


def _summed(bands: Sequence[Agreement]) -> Agreement:
    return Agreement(agreed=sum(one.agreed for one in bands), compared=sum(one.compared for one in bands))
