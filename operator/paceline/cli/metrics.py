"""``paceline metrics FILE``: read an engine's metrics as the operator does."""

import argparse
import sys
from pathlib import Path
from typing import Any, assert_never

from paceline.cli import exits, output
from paceline.engines import metrics


def register(commands: Any) -> None:
    """Add the command to the tree."""
    parser = commands.add_parser(
        "metrics",
        help="read a /metrics text of vLLM or SGLang",
        description="Read a recorded /metrics text. Exit code 1 when it is no reading, with the reason as status.",
    )
    parser.add_argument("file", help="the recorded text; - for standard input")
    parser.add_argument("--model", help="exact served name, where a server has several")
    output.add_format(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Return the exit code."""
    outcome = metrics.read(_text(options.file), options.model)
    document = describe(outcome)
    lines = [f"{key}: {_plain(value)}" for key, value in document.items() if value is not None]
    output.answer(document, lines, form=options.output)
    return exits.OK if isinstance(outcome, metrics.Reading) else exits.FAILED


def describe(outcome: metrics.Outcome) -> dict[str, Any]:
    """Return the answer: every key is there, null where nothing is known."""
    match outcome:
        case metrics.Unreadable():
            known = {"engine": None, "model": None, "generation_tokens": None, "speculation": None}
            return {"status": outcome.reason.value, "message": outcome.message, **known, "kv_cache_usage": None}
        case metrics.Reading():
            return {
                "status": "ok",
                "message": None,
                "engine": outcome.engine,
                "model": outcome.model,
                "generation_tokens": outcome.generation_tokens,
                "speculation": _speculation(outcome.speculation),
                "kv_cache_usage": outcome.kv_cache_usage,
                "prompt_tokens": outcome.prompt_tokens,
                "requests_running": outcome.requests_running,
                "requests_waiting": outcome.requests_waiting,
                "requests_finished": outcome.requests_finished,
                "prefix_cache_queries": outcome.prefix_cache_queries,
                "prefix_cache_hits": outcome.prefix_cache_hits,
                "ttft_mean_s": _mean(outcome.ttft),
                "itl_mean_s": _mean(outcome.itl),
            }
        case _:
            assert_never(outcome)


def _speculation(found: metrics.Speculation | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "drafts": found.drafts,
        "draft_tokens": found.draft_tokens,
        "accepted_tokens": found.accepted_tokens,
        "acceptance_rate": found.acceptance_rate,
        "acceptance_length": found.acceptance_length,
        "accepted_per_position": list(found.accepted_per_position),
        "dead": found.is_dead,
    }


def _mean(spent: metrics.Spent | None) -> float | None:
    return spent.seconds / spent.count if spent and spent.count else None


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(one)}" for key, one in value.items() if one is not None)
    return f"{value:.4g}" if isinstance(value, float) and not value.is_integer() else str(value)


def _text(name: str) -> str:
    if name == "-":
        return sys.stdin.buffer.read().decode(errors="replace")
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise exits.UsageError(
            f"{name!r} cannot be read: {error.strerror}; name a file, or - for standard input"
        ) from (error)
