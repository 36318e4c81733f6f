"""An engine's ``/metrics`` as one typed reading, or one typed reason why there is none.

Engines rename their series, split them by engine, rank and model, and answer with proxies' error pages when they are
down. Whatever goes wrong here must never become a zero: a zero would be taken for a measurement. Series are matched by
their exact names, since a counter's ``_created`` companion is a Unix time. Text in, value out: nothing here does I/O.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from prometheus_client import parser

from paceline.engines import series

MAX_TEXT_BYTES: Final = 4 * 1024 * 1024
"""A real scrape is 50 KiB; a pod in a tenant's namespace may answer anything."""


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
        return None

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


class _UnreadableError(Exception):
    """Carries the answer out of the parsing."""

    def __init__(self, reason: UnreadableReason, message: str) -> None:
        super().__init__(message)
        self.unreadable = Unreadable(reason=reason, message=message)


def read(text: str, model: str | None = None) -> Outcome:
    """Return what ``text`` says about ``model``.

    Args:
        text: the body of ``GET /metrics``, in Prometheus' text format.
        model: the exact served name; None when the server has a single model.
    """
    try:
        samples = _parse(text)
        names = _engine_of(samples)
        chosen, own = _samples_of_model(samples, names, model)
        return _reading(own, names, chosen)
    except _UnreadableError as error:
        return error.unreadable


def _parse(text: str) -> list[series.Sample]:
    """Return all samples of a text that is complete and is metrics."""
    if not text.strip():
        raise _UnreadableError(UnreadableReason.EMPTY, "the answer is empty; is the engine still starting?")
    if len(text) > MAX_TEXT_BYTES:
        raise _UnreadableError(
            UnreadableReason.TOO_LARGE, f"the answer has {len(text)} characters, above {MAX_TEXT_BYTES}"
        )
    try:
        samples = [
            series.Sample(name=sample.name, labels=dict(sample.labels), value=sample.value)
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples
        ]
    except (ValueError, KeyError, IndexError) as error:
        raise _cut_or_foreign(text) from error
    if not samples:
        raise _UnreadableError(UnreadableReason.NOT_METRICS, f"no series in the answer: {text.strip()[:80]!r}")
    if not text.endswith("\n"):
        raise _cut_or_foreign(text)
    return samples


def _cut_or_foreign(text: str) -> _UnreadableError:
    """Return the fault of a text that does not parse: the metrics were cut, or these are none."""
    if any(line.startswith(("# HELP ", "# TYPE ", *series.PREFIXES)) for line in text.splitlines()[:50]):
        return _UnreadableError(
            UnreadableReason.TRUNCATED,
            f"the answer breaks off or is damaged at {text.rstrip()[-60:]!r}; scrape again",
        )
    return _UnreadableError(
        UnreadableReason.NOT_METRICS,
        f"the answer is no Prometheus text: {text.strip()[:80]!r}; check the address, or the proxy in between",
    )


def _engine_of(samples: Iterable[series.Sample]) -> series.Names:
    """Return the names of the engine whose series these are."""
    seen = {sample.name for sample in samples}
    for names in series.ENGINES:
        if any(name.startswith(names.prefix) for name in seen):
            return names
    if any(name.startswith(series.RAY_PREFIXES) for name in seen):
        raise _UnreadableError(
            UnreadableReason.UNSUPPORTED,
            "these series come through Ray's exporter, which renames and relabels them; "
            "scrape the engine's own /metrics instead",
        )
    raise _UnreadableError(
        UnreadableReason.NO_ENGINE,
        f"no series of vLLM or SGLang among {len(seen)}; is this the engine's port, and are its metrics enabled?",
    )


def _samples_of_model(
    samples: Iterable[series.Sample], names: series.Names, model: str | None
) -> tuple[str | None, list[series.Sample]]:
    """Return the model's name and its samples, plus those that carry no model, such as the process's own."""
    mine = [one for one in samples if names.counts(one)]
    models = sorted({name for one in mine if (name := names.model_of(one)) is not None})
    if model is not None and model not in models:
        raise _UnreadableError(
            UnreadableReason.MODEL_NOT_FOUND,
            f"no series of model {model!r}; the server has {', '.join(map(repr, models)) or 'none'}",
        )
    if model is None and len(models) > 1:
        raise _UnreadableError(
            UnreadableReason.MODEL_AMBIGUOUS,
            f"the server has several models ({', '.join(map(repr, models))}); name one",
        )
    chosen = model if model is not None else next(iter(models), None)
    return chosen, [one for one in mine if names.model_of(one) in (None, chosen)]


def _reading(samples: list[series.Sample], names: series.Names, model: str | None) -> Reading:
    """Return the reading; every value that is used is checked on the way."""
    table = _Table(samples)
    generation_tokens = table.count(names.generation_tokens)
    if generation_tokens is None and names.always_counts_tokens:
        raise _UnreadableError(
            UnreadableReason.MISSING_SERIES,
            f"{names.generation_tokens[0]} is missing, which this engine always has; the answer is not whole",
        )
    return Reading(
        engine=names.engine,
        model=model,
        generation_tokens=generation_tokens,
        prompt_tokens=table.count(names.prompt_tokens),
        requests_running=table.total(names.requests_running),
        requests_waiting=table.total(names.requests_waiting),
        requests_finished=table.count(names.requests_finished),
        kv_cache_usage=table.mean(names.kv_cache_usage),
        prefix_cache_queries=table.count(names.prefix_cache_queries),
        prefix_cache_hits=table.count(names.prefix_cache_hits),
        ttft=table.spent(names.ttft),
        itl=table.spent(names.itl),
        process_start_s=table.mean(("process_start_time_seconds",)),
        speculation=_speculation(table, names),
    )


def _speculation(table: "_Table", names: series.Names) -> Speculation | None:
    found = Speculation(
        drafts=table.count(names.drafts),
        draft_tokens=table.count(names.draft_tokens),
        accepted_tokens=table.count(names.accepted_tokens),
        accepted_per_position=table.by_position(names.accepted_per_position),
        reported_acceptance_length=table.mean(names.acceptance_length),
    )
    return found if found != Speculation() else None


class _Table:
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
            if not position.isdecimal():
                raise _UnreadableError(UnreadableReason.BAD_VALUE, f"{sample.name} has position {position!r}")
            totals[int(position)] = totals.get(int(position), 0.0) + _checked(sample)
        return tuple(round(totals[position]) for position in sorted(totals))

    def _values(self, names: tuple[str, ...]) -> list[float]:
        """Return one value an engine; ranks of one engine repeat its value and are taken once."""
        for name in names:
            if samples := self._by_name.get(name):
                distinct: dict[frozenset[tuple[str, str]], float] = {}
                for sample in samples:
                    key = frozenset(item for item in sample.labels.items() if item[0] not in series.REPEATING_LABELS)
                    distinct[key] = max(distinct.get(key, 0.0), _checked(sample))
                return list(distinct.values())
        return []


def _checked(sample: series.Sample) -> float:
    """Return the value of a sample that can be one: finite and not negative."""
    if not math.isfinite(sample.value) or sample.value < 0:
        raise _UnreadableError(
            UnreadableReason.BAD_VALUE, f"{sample.name} is {sample.value}, which no count or share can be"
        )
    return sample.value
