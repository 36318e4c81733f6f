"""An engine's ``/metrics`` as one typed reading, or one typed reason why there is none.

Engines rename their series, split them by engine, rank and model, and answer with proxies' error pages when they are
down. Whatever goes wrong here must never become a zero: a zero would be taken for a measurement. Series are matched by
their exact names, since a counter's ``_created`` companion is a Unix time. Text in, value out: nothing here does I/O.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import parser

from paceline.engines import memory, series
from paceline.engines.reading import (
    Outcome,
    Reading,
    Speculation,
    Spent,
    Unreadable,
    UnreadableError,
    UnreadableReason,
)
from paceline.engines.table import Table

__all__ = ["MAX_TEXT_BYTES", "Outcome", "Reading", "Speculation", "Spent", "Unreadable", "UnreadableReason", "read"]

MAX_TEXT_BYTES: Final = 4 * 1024 * 1024
"""A real scrape is 50 KiB; a pod in a tenant's namespace may answer anything."""
# A guard looks at the scrapes of some minutes every 15 seconds, so it sees each one twenty times: a thousand engines'.
_REMEMBERED: Final = 32_768


def read(text: str, model: str | None = None) -> Outcome:
    """Return what ``text`` says about ``model``.

    Args:
        text: the body of ``GET /metrics``, in Prometheus' text format.
        model: the exact served name; None when the server has a single model.
    """
    return _known.of(text, model)


def _read(text: str, model: str | None) -> Outcome:
    try:
        samples = _parse(text)
        names = _engine_of(samples, model)
        chosen, own = _samples_of_model(samples, names, model)
        return _reading(own, names, chosen)
    except UnreadableError as error:
        return error.unreadable


_known: Final = memory.Memory(_read, most=_REMEMBERED)


def _parse(text: str) -> list[series.Sample]:
    """Return all samples of a text that is complete and is metrics."""
    if not text.strip():
        raise UnreadableError(UnreadableReason.EMPTY, "the answer is empty; is the engine still starting?")
    if len(text) > MAX_TEXT_BYTES:
        raise UnreadableError(
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
        raise UnreadableError(UnreadableReason.NOT_METRICS, f"no series in the answer: {text.strip()[:80]!r}")
    if not text.endswith("\n"):
        raise _cut_or_foreign(text)
    return samples


def _cut_or_foreign(text: str) -> UnreadableError:
    """Return the fault of a text that does not parse: the metrics were cut, or these are none."""
    if any(line.startswith(("# HELP ", "# TYPE ", *series.PREFIXES)) for line in text.splitlines()[:50]):
        return UnreadableError(
            UnreadableReason.TRUNCATED,
            f"the answer breaks off or is damaged at {text.rstrip()[-60:]!r}; scrape again",
        )
    return UnreadableError(
        UnreadableReason.NOT_METRICS,
        f"the answer is no Prometheus text: {text.strip()[:80]!r}; check the address, or the proxy in between",
    )


def _engine_of(samples: Sequence[series.Sample], model: str | None) -> series.Names:
    """Return the names of the engine whose series these are; of several, the only one that has ``model``."""
    seen = {sample.name for sample in samples}
    found = [names for names in series.ENGINES if any(name.startswith(names.prefix) for name in seen)]
    if len(found) > 1 and model is not None:
        found = [names for names in found if model in _models(samples, names)] or found
    if len(found) > 1:
        raise UnreadableError(
            UnreadableReason.ENGINE_AMBIGUOUS,
            f"series of {' and '.join(names.engine for names in found)} in one answer; name a model that only one of "
            "them has, or scrape one alone",
        )
    if found:
        return found[0]
    if any(name.startswith(series.RENAMED_PREFIXES) for name in seen):
        raise UnreadableError(
            UnreadableReason.UNSUPPORTED,
            "these series come through an exporter, such as Ray's, which renames and relabels them; "
            "scrape the engine's own /metrics instead",
        )
    raise UnreadableError(
        UnreadableReason.NO_ENGINE,
        f"no series of vLLM or SGLang among {len(seen)}; is this the engine's port, and are its metrics enabled?",
    )


def _models(samples: Iterable[series.Sample], names: series.Names) -> set[str]:
    return {name for one in samples if names.counts(one) and (name := names.model_of(one)) is not None}


def _samples_of_model(
    samples: Sequence[series.Sample], names: series.Names, model: str | None
) -> tuple[str | None, list[series.Sample]]:
    """Return the model's name and its samples, plus those that carry no model, such as the process's own."""
    mine = [one for one in samples if names.counts(one)]
    models = sorted(_models(samples, names))
    if model is not None and model not in models:
        raise UnreadableError(
            UnreadableReason.MODEL_NOT_FOUND,
            f"no series of model {model!r}; the server has {', '.join(map(repr, models)) or 'none'}",
        )
    if model is None and len(models) > 1:
        raise UnreadableError(
            UnreadableReason.MODEL_AMBIGUOUS,
            f"the server has several models ({', '.join(map(repr, models))}); name one",
        )
    chosen = model if model is not None else next(iter(models), None)
    return chosen, [one for one in mine if names.model_of(one) in (None, chosen)]


def _reading(samples: list[series.Sample], names: series.Names, model: str | None) -> Reading:
    """Return the reading; every value that is used is checked on the way."""
    table = Table(samples)
    generation_tokens = table.count(names.generation_tokens)
    if generation_tokens is None and names.always_counts_tokens:
        raise UnreadableError(
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
        process_start_s=table.mean((series.PROCESS_START,)),
        speculation=_speculation(table, names),
    )


def _speculation(table: Table, names: series.Names) -> Speculation | None:
    found = Speculation(
        drafts=table.count(names.drafts),
        draft_tokens=table.count(names.draft_tokens),
        accepted_tokens=table.count(names.accepted_tokens),
        accepted_per_position=table.by_position(names.accepted_per_position),
        reported_acceptance_length=table.mean(names.acceptance_length),
        reported_acceptance_rate=table.mean(names.acceptance_rate),
    )
    return found if found != Speculation() else None
