"""Reading prompts and splitting them: a pure function of their content, never of their order or the run."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paceline.api import names
from paceline.stages.failures import PermanentError

ROLES: Final = frozenset({"system", "user", "assistant"})
_BUCKETS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A conversation up to and including what the target must answer, or already answered."""

    messages: tuple[tuple[str, str], ...]
    """(role, content)."""

    @property
    def key(self) -> str:
        """Digest of the conversation: its identity across runs, files and orders."""
        return names.digest([list(message) for message in self.messages])

    @property
    def for_chat(self) -> list[dict[str, str]]:
        """The OpenAI form."""
        return [{"role": role, "content": content} for role, content in self.messages]

    @property
    def answered(self) -> bool:
        """Whether the last turn is the assistant's."""
        return self.messages[-1][0] == "assistant"

    def unanswered(self) -> "Prompt":
        """Return the conversation without a last assistant turn, for the target answers itself."""
        return Prompt(messages=self.messages[:-1]) if self.answered else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Prompts apart for ever: what a head was trained on never measures it."""

    train: tuple[Prompt, ...]
    holdout: tuple[Prompt, ...]


def read(path: Path) -> list[Prompt]:
    """Return the prompts of a JSON-lines file, or of all ``*.jsonl`` files of a folder, without duplicates.

    Raises:
        PermanentError: naming file, line and what is accepted.
    """
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    prompts: dict[str, Prompt] = {}
    for file in files:
        for prompt in _read_file(file):
            prompts.setdefault(prompt.key, prompt)
    if not prompts:
        raise PermanentError(f'{path} holds no prompts; write one JSON object a line, such as {{"prompt": "..."}}')
    return list(prompts.values())


def split(prompts: Iterable[Prompt], *, holdout_percent: int, max_samples: int | None) -> Split:
    """Return training and held-out prompts, chosen by hash: a prompt keeps its side whatever is added around it.

    Raises:
        PermanentError: when one side would be empty.
    """
    ordered = sorted(prompts, key=lambda prompt: prompt.key)[:max_samples]
    holdout = tuple(prompt for prompt in ordered if _bucket(prompt) < holdout_percent * _BUCKETS // 100)
    train = tuple(prompt for prompt in ordered if _bucket(prompt) >= holdout_percent * _BUCKETS // 100)
    if not holdout or not train:
        raise PermanentError(
            f"{len(ordered)} prompts with data.holdoutPercent {holdout_percent} leave {len(train)} to train on and "
            f"{len(holdout)} to evaluate on; give more prompts"
        )
    return Split(train=train, holdout=holdout)


def content_digest(prompts: Iterable[Prompt]) -> str:
    """Return the digest of a set of prompts, the same in any order."""
    return names.digest(sorted(prompt.key for prompt in prompts))


def _bucket(prompt: Prompt) -> int:
    """Return 0 to 9999, from a hash of its own so that the split is independent of the order of keys."""
    return int.from_bytes(hashlib.sha256(b"split:" + prompt.key.encode()).digest()[:8]) % _BUCKETS


def _read_file(path: Path) -> Iterator[Prompt]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PermanentError(f"prompts {path} cannot be read ({error}); set data.prompts to a UTF-8 file") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _parse_line(line, where=f"{path.name} line {number}")


def _parse_line(line: str, *, where: str) -> Prompt:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise PermanentError(f"{where} is not JSON ({error})") from error
    messages = _messages(record)
    if messages is None:
        raise PermanentError(
            f'{where} is no prompt; write {{"prompt": "..."}} or '
            f'{{"messages": [{{"role": "user", "content": "..."}}]}} with roles {", ".join(sorted(ROLES))}'
        )
    return Prompt(messages=messages)


def _messages(record: Any) -> tuple[tuple[str, str], ...] | None:
    """Return (role, content) pairs of either form, or None when the record is of neither."""
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("prompt"), str) and record["prompt"]:
        return (("user", record["prompt"]),)
    turns = record.get("messages")
    if not isinstance(turns, list) or not turns or not all(_is_turn(turn) for turn in turns):
        return None
    pairs = tuple((turn["role"], turn["content"]) for turn in turns)
    return pairs if any(role == "user" for role, _ in pairs) else None


def _is_turn(turn: Any) -> bool:
    return isinstance(turn, dict) and turn.get("role") in ROLES and isinstance(turn.get("content"), str)
