"""The target answers its own training prompts: a head must learn what this target says, not what an author wrote.

Resumable to the single answer: each is on disk before the next one counts, under the digest of its prompt. Answers are
greedy, since that is what a draft is checked against.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from paceline.stages import jsonl, prompts, server
from paceline.stages.failures import PermanentError

ItemT = TypeVar("ItemT")

_MAX_REFUSED_SHARE: Final = 0.5
"""Some prompts of any collection are too long for the model; when most are, the limits are wrong, not the prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One training sequence."""

    key: str
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]

    def training_record(self, sequence_length: int) -> dict[str, Any]:
        """Return the trainer's form, cut to ``sequence_length`` tokens; only the answer is learnt."""
        ids = (self.prompt_ids + self.answer_ids)[:sequence_length]
        context = min(len(self.prompt_ids), len(ids))
        return {"input_ids": list(ids), "loss_mask": [0] * context + [1] * (len(ids) - context)}


def load_rows(folder: Path, wanted: Iterable[prompts.Prompt]) -> dict[str, Row | None]:
    """Return what is known of the wanted prompts by key: a row, or None for a prompt that the server refused."""
    keys = {prompt.key for prompt in wanted}
    known: dict[str, Row | None] = {}
    for record in jsonl.read_all(folder):
        key = record.get("key")
        if key in keys and key not in known:
            known[key] = _row(record)
    return known


async def regenerate(  # noqa: PLR0913 - keywords, each a different thing
    engine: server.EngineServer,
    wanted: Sequence[prompts.Prompt],
    *,
    log: jsonl.JsonLog,
    known: Mapping[str, Row | None],
    max_tokens: int,
    concurrency: int,
    tell: Callable[[int, int, int], None],
) -> dict[str, Row | None]:
    """Return rows for all wanted prompts, asking the server for those that are not known yet.

    Args:
        engine: a server that answers.
        wanted: prompts without answers.
        log: where each answer goes before it counts.
        known: answers of earlier attempts.
        max_tokens: longest answer, in tokens.
        concurrency: requests in flight at once.
        tell: called with (answered, wanted, tokens of this attempt) after each answer.

    Raises:
        PermanentError: when the server refuses most prompts.
    """
    rows = dict(known)
    missing = [prompt for prompt in wanted if prompt.key not in rows]
    tokens = 0

    async def answer(prompt: prompts.Prompt) -> None:
        nonlocal tokens
        row = await _ask(engine, prompt, max_tokens=max_tokens)
        log.append(_record(prompt.key, row))
        rows[prompt.key] = row
        tokens += len(row.answer_ids) if row else 0
        tell(len(rows), len(wanted), tokens)

    await each(missing, answer, concurrency=concurrency)
    _check_refused(rows)
    return rows


async def each(items: Iterable[ItemT], work: Callable[[ItemT], Awaitable[None]], *, concurrency: int) -> None:
    """Run ``work`` on every item, at most ``concurrency`` at once; the first failure ends all."""
    source = iter(items)

    async def worker() -> None:
        for item in source:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except ExceptionGroup as failures:
        # One reason is enough for a person, and the callers know single errors only.
        raise failures.exceptions[0] from failures


async def _ask(engine: server.EngineServer, prompt: prompts.Prompt, *, max_tokens: int) -> Row | None:
    try:
        answer = await engine.chat(prompt.for_chat, max_tokens=max_tokens)
    except server.RefusedError:
        return None
    return Row(key=prompt.key, prompt_ids=answer.prompt_ids, answer_ids=answer.answer_ids)


def _check_refused(rows: Mapping[str, Row | None]) -> None:
    refused = sum(row is None for row in rows.values())
    if refused > len(rows) * _MAX_REFUSED_SHARE:
        raise PermanentError(
            f"the target refused {refused} of {len(rows)} prompts, as when prompt and answer exceed its context; "
            "lower data.regeneration.maxTokens or give shorter prompts"
        )


def _record(key: str, row: Row | None) -> dict[str, Any]:
    if row is None:
        return {"key": key, "refused": True}
    return {"key": key, "prompt": list(row.prompt_ids), "answer": list(row.answer_ids)}


def _row(record: Mapping[str, Any]) -> Row | None:
    if record.get("refused"):
        return None
    return Row(key=record["key"], prompt_ids=tuple(record["prompt"]), answer_ids=tuple(record["answer"]))
