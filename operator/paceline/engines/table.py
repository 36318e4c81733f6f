"""Samples by name, and how those of several engines, ranks and labels add up to one value."""

import math
from collections.abc import Iterable
from typing import Final

from paceline.engines import series
from paceline.engines.reading import Spent, UnreadableError, UnreadableReason

_LARGEST: Final = 1e18
"""Above any count: a year of a billion tokens a second is 3e16."""
_MOST_POSITIONS: Final = 1000


class Table:
    """Samples by name, with the rules of adding up."""

    def __init__(self, samples: Iterable[series.Sample]) -> None:
        self._by_name: dict[str, list[series.Sample]] = {}
        for sample in samples:
            self._by_name.setdefault(sample.name, []).append(sample)

    def total(self, names: tuple[str, ...]) -> float | None:
        """Return the sum over engines of the first of ``names`` that exists."""
        values = self._values(names)
        return math.fsum(values) if values else None

    def count(self, names: tuple[str, ...]) -> int | None:
        """Return the sum of a counter over engines."""
        total = self.total(names)
        return None if total is None else round(total)

    def mean(self, names: tuple[str, ...]) -> float | None:
        """Return the mean of a gauge over engines."""
        values = self._values(names)
        return math.fsum(values) / len(values) if values else None

    def spent(self, names: tuple[str, ...]) -> Spent | None:
        """Return a histogram's sum and count."""
        for name in names:
            seconds, count = self.total((f"{name}_sum",)), self.count((f"{name}_count",))
            if seconds is not None and count is not None:
                return Spent(seconds=seconds, count=count)
        return None

    def by_position(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Return a counter by its ``position`` label, summed over engines, in the order of positions."""
        totals: dict[int, float] = {}
        for sample in (one for name in names for one in self._by_name.get(name, ())):
            position = sample.labels.get("position", "")
            if not (position.isascii() and position.isdecimal() and int(position[:6]) < _MOST_POSITIONS):
                raise UnreadableError(UnreadableReason.BAD_VALUE, f"{sample.name} has position {position!r}")
            totals[int(position)] = totals.get(int(position), 0.0) + checked(sample)
        return tuple(round(totals[position]) for position in sorted(totals))

    def _values(self, names: tuple[str, ...]) -> list[float]:
        """Return one value an engine; ranks of one engine repeat its value and are taken once."""
        for name in names:
            if samples := self._by_name.get(name):
                distinct: dict[frozenset[tuple[str, str]], float] = {}
                for sample in samples:
                    key = frozenset(item for item in sample.labels.items() if item[0] not in series.REPEATING_LABELS)
                    distinct[key] = max(distinct.get(key, 0.0), checked(sample))
                return list(distinct.values())
        return []


def checked(sample: series.Sample) -> float:
    """Return the value of a sample that can be one: not negative, and no more than there can be."""
    if not 0 <= sample.value <= _LARGEST:  # NaN is neither
        raise UnreadableError(
            UnreadableReason.BAD_VALUE, f"{sample.name} is {sample.value}, which no count or share can be"
        )
    return sample.value
