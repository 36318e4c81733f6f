"""What a scrape says: one typed reading, or one typed reason why there is none."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class UnreadableReason(StrEnum):
    """Why a text is no reading."""

    EMPTY = "Empty"  # nothing was answered
    NOT_METRICS = "NotMetrics"  # a proxy's error page, JSON, or other text
    TRUNCATED = "Truncated"  # the last line does not end
    TOO_LARGE = "TooLarge"
    NO_ENGINE = "NoEngine"  # metrics of something else
    UNSUPPORTED = "Unsupported"  # an exporter that changes the engine's series
    BAD_VALUE = "BadValue"  # NaN, infinite or negative
    MISSING_SERIES = "MissingSeries"  # a series that this engine always has
    ENGINE_AMBIGUOUS = "EngineAmbiguous"  # series of several engines, and the model does not tell which is meant
    MODEL_NOT_FOUND = "ModelNotFound"
    MODEL_AMBIGUOUS = "ModelAmbiguous"  # several models, and none was named


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """No reading: neither zero nor success nor failure."""

    reason: UnreadableReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """What was drafted and accepted since the engine started; a count is None where the engine has no such counter."""

    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_per_position: tuple[int, ...] = ()
    reported_acceptance_length: float | None = None
    """A gauge of the last batch, from engines that count nothing; it has no differences."""
    reported_acceptance_rate: float | None = None
    """Likewise: accepted / drafted tokens of the last batch."""

    @property
    def acceptance_length(self) -> float | None:
        """1 + accepted / drafts; None when undefined, as before the first draft."""
        if self.drafts and self.accepted_tokens is not None:
            return 1.0 + self.accepted_tokens / self.drafts
        return self.reported_acceptance_length

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted tokens; None when undefined."""
        if self.draft_tokens and self.accepted_tokens is not None:
            return self.accepted_tokens / self.draft_tokens
        return self.reported_acceptance_rate

    @property
    def is_dead(self) -> bool:
        """Whether drafts were made and nothing at all was accepted."""
        return bool(self.drafts) and self.accepted_tokens == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """A histogram without its buckets."""

    seconds: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One scrape of one model, all its engines together. Counters count since the engine's start."""

    engine: str
    """``vllm`` or ``sglang``."""
    model: str | None
    generation_tokens: int | None
    """None only for engines too old to count them."""
    prompt_tokens: int | None = None
    requests_running: float | None = None
    """Gauge, summed over engines: requests in flight."""
    requests_waiting: float | None = None
    requests_finished: int | None = None
    """Counter over all reasons for which a request ended."""
    kv_cache_usage: float | None = None
    """Gauge, 0 to 1, averaged over engines."""
    prefix_cache_queries: int | None = None
    prefix_cache_hits: int | None = None
    ttft: Spent | None = None
    itl: Spent | None = None
    process_start_s: float | None = None
    speculation: Speculation | None = None
    """None: the engine has no such series, it does not speculate. Not the same as nothing accepted."""

    @property
    def drafts(self) -> int | None:
        """Drafts made; None without speculation."""
        return self.speculation.drafts if self.speculation else None

    @property
    def draft_tokens(self) -> int | None:
        """Tokens drafted; None without speculation."""
        return self.speculation.draft_tokens if self.speculation else None

    @property
    def accepted_tokens(self) -> int | None:
        """Tokens accepted; None without speculation."""
        return self.speculation.accepted_tokens if self.speculation else None


Outcome: TypeAlias = Reading | Unreadable


class UnreadableError(Exception):
    """Carries the answer out of the parsing."""

    def __init__(self, reason: UnreadableReason, message: str) -> None:
        super().__init__(message)
        self.unreadable = Unreadable(reason=reason, message=message)
