"""Differences of an engine's counters between scrapes, across restarts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from paceline.engines.metrics import Reading

_START_TOLERANCE_S: Final = 1.0
"""process_start_time is computed from the boot time and may move by a clock tick."""
_A_DIFFERENCE: Final = 2
_COUNTERS: Final = (
    "generation_tokens",
    "prompt_tokens",
    "requests_finished",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "prefix_cache_queries",
    "prefix_cache_hits",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Increase:
    """What was counted between scrapes; None where the engine does not count it."""

    generation_tokens: int | None = None
    prompt_tokens: int | None = None
    requests_finished: int | None = None
    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    prefix_cache_queries: int | None = None
    prefix_cache_hits: int | None = None
    resets: int = 0
    """Restarts of the engine in between; what it counted before its last scrape is lost, so counts are lower bounds."""


def was_reset(earlier: Reading, later: Reading) -> bool:
    """Return whether the engine restarted between two readings: its process is another, or a counter fell."""
    starts = (earlier.process_start_s, later.process_start_s)
    if starts[0] is not None and starts[1] is not None and abs(starts[1] - starts[0]) > _START_TOLERANCE_S:
        return True
    pairs = ((getattr(earlier, name), getattr(later, name)) for name in _COUNTERS)
    return any(before is not None and after is not None and after < before for before, after in pairs)


def increase(readings: Sequence[Reading]) -> Increase:
    """Return what was counted from the first reading to the last.

    After a restart a counter began at zero, so its new value is what it counted since: never a negative difference, and
    never the difference of two processes. A counter that is missing from any reading is None: its growth is unknown.
    """
    # Names are the fields' own; a test holds the two lists together.
    resets = [was_reset(earlier, later) for earlier, later in pairwise(readings)]
    grown = {name: _growth([getattr(one, name) for one in readings], resets) for name in _COUNTERS}
    return Increase(**grown, resets=sum(resets))


def _growth(values: Sequence[int | None], resets: Sequence[bool]) -> int | None:
    """Return the growth of one counter; ``resets[i]`` tells whether it restarted between values i and i + 1."""
    known = [value for value in values if value is not None]
    if len(known) < len(values) or len(values) < _A_DIFFERENCE:
        return None
    pairs = zip(pairwise(known), resets, strict=True)
    return sum(after if reset else after - before for (before, after), reset in pairs)
