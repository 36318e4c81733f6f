"""Does speculation change what is said? Greedy answers of an arm against the control's, and the control's own twice.

Two answers of one and the same server differ now and then, since numerics depend on what shares its batch. So the
share of equal answers says nothing by itself; the control's agreement with itself is the yardstick.

Nor are two starts of one server alike: compiled kernels differ, a token flips here and there, and all that follows is
another text. On an H200 answers of 96 tokens were the same in 97 % within one start, and in 20 % between two. So only
the beginnings of answers are held together: speculation that is wrong is wrong at once. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paceline.api.measurement import Measurement
from paceline.probe.block import Driven
from paceline.probe.workload import Place

_BEGINNING: Final = 64
"""Characters of an answer that are compared, some 16 tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of a round, and whose it was."""

    arm: int
    """Place of the arm in the configuration."""
    place: Place
    driven: Driven


def counted(blocks: Sequence[Block], second: Mapping[int, str], *, control: int) -> list[Measurement]:
    """Return the measurements of one band's blocks with what was compared and what agreed.

    Args:
        blocks: all blocks of one concurrency and one band of prompts.
        second: the control's second answers by prompt; empty where there are none.
        control: the arm that others are held against.
    """
    first = {prompt: text for one in blocks if one.arm == control for prompt, text in one.driven.texts.items()}
    return [_counted(one, second if one.arm == control else first) for one in blocks]


def _counted(block: Block, theirs: Mapping[int, str]) -> Measurement:
    ours = block.driven.texts
    both = ours.keys() & theirs.keys()
    agreed = sum(ours[prompt][:_BEGINNING] == theirs[prompt][:_BEGINNING] for prompt in both)
    return block.driven.measurement.model_copy(update={"compared": len(both), "agreed": agreed})


def percent(measurements: Iterable[Measurement]) -> float | None:
    """Return the share of answers that agreed; None when none were compared."""
    seen = list(measurements)
    compared = sum(one.compared for one in seen)
    return round(100.0 * sum(one.agreed for one in seen) / compared, 1) if compared else None
