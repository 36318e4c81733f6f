"""Whether measurements may be trusted at all: what spoils a comparison although enough blocks look well."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from paceline.api.measurement import BlockOutcome, Measurement
from paceline.judge.verdicts import Reason

MOST_ERRORS: Final = 0.005
"""Share of an arm's requests that may end in an error. One in a hundred is what users notice."""
MOST_FAULTY: Final = 0.1
"""Share of an arm's blocks that may be faulty by its own doing: what is left is what went well."""
MOST_PROMPT_DIFFERENCE: Final = 0.05
"""Between the arms' mean prompts, in tokens; the same prompts give the same mean, but for what ends at the edges."""
MOST_HIT_DIFFERENCE: Final = 0.1
"""Between the arms' shares of prompt tokens found in a cache, where it is also more than LEAST_CACHED_DIFFERENCE."""
LEAST_CACHED_DIFFERENCE: Final = 128.0
"""Cached tokens a request that arms may differ by. An engine that drafts with hidden states computes the last block
that its cache held again (vLLM, ``find_longest_cache_hit``; 16 to 128 tokens): that is the draft's own cost, and most
of what a cache holds of a short prompt. On an H200 42 tokens were cached to 24 % with EAGLE-3 and to 66 % without."""
OWN_FAULTS: Final = frozenset(
    {BlockOutcome.REQUEST_ERRORS, BlockOutcome.STALLED, BlockOutcome.NO_TOKENS, BlockOutcome.ARM_CHANGED}
)
"""Faults of the arm itself. The others tell of other traffic, of the reading, or of a block that was too short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why no verdict may rest on these measurements, or at least no pass."""

    reason: Reason
    message: str


def of_any_verdict(measurements: Sequence[Measurement], *, arms: tuple[str, str]) -> Doubt | None:
    """Return why the arms cannot be compared: they did not do the same work, or their clock is wrong."""
    return next(_unlike(measurements, arms), None)


def of_a_pass(measurements: Sequence[Measurement], *, arms: tuple[str, str]) -> Doubt | None:
    """Return why nothing good may be said: an arm failed so often that what is left is what went well."""
    return next((doubt for arm in arms for doubt in _faulty(measurements, arm)), None)


def jumped_rounds(measurements: Sequence[Measurement]) -> frozenset[int]:
    """Return the rounds in which a block claims to have begun before one that it followed.

    Windows are timed by the same clock, so none of such a round can be trusted.
    """
    began: dict[tuple[int, int, str], str] = {}
    jumped: set[int] = set()
    for one in sorted(measurements, key=lambda one: (one.round, one.concurrency, one.prompt_band, one.position)):
        key = (one.round, one.concurrency, one.prompt_band)
        # RFC 3339 in UTC with whole seconds, as the probe writes it, sorts as text.
        if one.started_at < began.get(key, ""):
            jumped.add(one.round)
        began[key] = one.started_at
    return frozenset(jumped)


def _faulty(measurements: Sequence[Measurement], arm: str) -> Iterator[Doubt]:
    mine = [one for one in measurements if one.arm == arm]
    faults = Counter(one.outcome for one in mine if one.outcome in OWN_FAULTS)
    if faults and sum(faults.values()) > MOST_FAULTY * len(mine):
        outcome, _ = faults.most_common(1)[0]
        yield Doubt(
            reason=Reason(outcome.value),
            message=f"{sum(faults.values())} of {len(mine)} blocks of {arm} failed, mostly {outcome}; what is left is "
            "what went well",
        )
    errors, requests = sum(one.errors for one in mine), sum(max(one.requests, one.errors) for one in mine)
    if errors and errors > MOST_ERRORS * requests:
        yield Doubt(reason=Reason.REQUEST_ERRORS, message=f"{errors} of {requests} requests to {arm} failed")


def _unlike(measurements: Sequence[Measurement], arms: tuple[str, str]) -> Iterator[Doubt]:
    usable = [one for one in measurements if one.arm in arms and one.tokens_per_second]
    for band in sorted({(one.concurrency, one.prompt_band) for one in usable}):
        ours, theirs = (
            [one for one in usable if one.arm == arm and (one.concurrency, one.prompt_band) == band] for arm in arms
        )
        lengths = _prompt_tokens(ours), _prompt_tokens(theirs)
        if None not in lengths and _differ(*lengths):  # type: ignore[arg-type] # checked on this line
            yield Doubt(
                reason=Reason.UNLIKE_ARMS,
                message=f"prompts at concurrency {band[0]} had {lengths[0]:.0f} tokens on {arms[0]} and "
                f"{lengths[1]:.0f} on {arms[1]}: the arms did not do the same work",
            )
        hits = _hit_rate(ours), _hit_rate(theirs)
        if hits[0] is not None and hits[1] is not None and _cached_unlike(hits, lengths):
            yield Doubt(
                reason=Reason.UNLIKE_ARMS,
                message=f"at concurrency {band[0]} the prefix cache held {hits[0]:.0%} of the prompts of {arms[0]} and "
                f"{hits[1]:.0%} of those of {arms[1]}; set the same cache on both, or warm both alike",
            )


def _cached_unlike(hits: tuple[float | None, float | None], lengths: tuple[float | None, float | None]) -> bool:
    """Return whether caches held different shares of the prompts, by more than drafting itself costs."""
    shares = [share or 0.0 for share in hits]
    tokens = [share * (length or 0.0) for share, length in zip(shares, lengths, strict=True)]
    return abs(shares[0] - shares[1]) > MOST_HIT_DIFFERENCE and abs(tokens[0] - tokens[1]) > LEAST_CACHED_DIFFERENCE


def _differ(ours: float, theirs: float) -> bool:
    return abs(math.log(ours / theirs)) > MOST_PROMPT_DIFFERENCE


def _prompt_tokens(blocks: Sequence[Measurement]) -> float | None:
    """Return the mean length of a prompt; None where it is not known of every block."""
    tokens = [one.prompt_tokens for one in blocks if one.requests]
    requests = sum(one.requests for one in blocks)
    known = [count for count in tokens if count is not None]
    return sum(known) / requests if requests and len(known) == len(tokens) and sum(known) else None


def _hit_rate(blocks: Sequence[Measurement]) -> float | None:
    """Return the share of prompt tokens found in a cache; None where it is not known of every block."""
    rates = [one.cache_hit_rate for one in blocks]
    known = [rate for rate in rates if rate is not None]
    return sum(known) / len(known) if known and len(known) == len(rates) else None
