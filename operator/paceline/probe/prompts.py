"""Prompts from a file of JSON lines, as the messages that are sent."""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

import pydantic


class PromptsError(Exception):
    """The file cannot be used; the text says what to change."""


class Message(pydantic.BaseModel):
    """One turn."""

    model_config = pydantic.ConfigDict(frozen=True)

    role: Annotated[str, pydantic.Field(min_length=1)]
    content: str


Prompt = tuple[Message, ...]
ALL: Final = "all"
"""The one band of prompts where lengths are not told apart."""


class _Line(pydantic.BaseModel):
    """``{"prompt": "..."}`` or ``{"messages": [...]}``."""

    prompt: Annotated[str, pydantic.Field(min_length=1)] | None = None
    messages: Annotated[tuple[Message, ...], pydantic.Field(min_length=1)] | None = None

    @pydantic.model_validator(mode="after")
    def _one_of_them(self) -> "_Line":
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("set exactly one of prompt and messages")
        return self

    def sent(self) -> Prompt:
        """Return the messages to send: up to the last user's turn, since an answer is what is asked for."""
        if self.messages is None:
            return (Message(role="user", content=self.prompt or ""),)
        last = max((index for index, one in enumerate(self.messages) if one.role == "user"), default=-1)
        return self.messages[: last + 1]


def read(path: Path, *, max_prompts: int | None = None) -> tuple[Prompt, ...]:
    """Return the prompts of a file.

    Args:
        path: JSON lines; empty lines are skipped.
        max_prompts: take at most so many, the same ones from the same file: chosen by a hash, in the file's order.

    Raises:
        PromptsError: when there are none, or a line is no prompt.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PromptsError(f"prompts {str(path)!r} cannot be read: {error}") from error
    prompts = [_parse(line, number=number, path=path) for number, line in enumerate(lines, 1) if line.strip()]
    usable = [prompt for prompt in prompts if prompt]
    if not usable:
        raise PromptsError(f'prompts {str(path)!r} hold none; write one a line: {{"prompt": "..."}}')
    return chosen(usable, max_prompts)


def by_length(prompts: Sequence[Prompt], bounds: Sequence[int]) -> Mapping[str, Sequence[Prompt]]:
    """Return the prompts by bands of length, each in its order.

    Args:
        prompts: all of them.
        bounds: the longest length of every band but the last, in characters of all messages, since a probe has no
            tokenizer; about four make a token of English. Without bounds there is one band.

    Raises:
        PromptsError: when a band holds none.
    """
    if not bounds:
        return {ALL: prompts}
    edges = [-1, *sorted(bounds)]
    bands = {f"{low + 1}-{high}": (low, high) for low, high in pairwise(edges)} | {
        f"{edges[-1] + 1}-": (edges[-1], None)
    }
    found = {
        name: [one for one in prompts if low < _length(one) and (high is None or _length(one) <= high)]
        for name, (low, high) in bands.items()
    }
    if empty := [name for name, inside in found.items() if not inside]:
        raise PromptsError(
            f"no prompt has {' or '.join(empty)} characters; the lengths are {min(map(_length, prompts))} to "
            f"{max(map(_length, prompts))}: add some, or move the bounds"
        )
    return found


def _length(prompt: Prompt) -> int:
    return sum(len(one.content) for one in prompt)


def _parse(line: str, *, number: int, path: Path) -> Prompt:
    try:
        return _Line.model_validate_json(line).sent()
    except pydantic.ValidationError as error:
        wrong = "; ".join(str(one["msg"]) for one in error.errors())
        raise PromptsError(
            f'line {number} of {str(path)!r} is no prompt ({wrong}); write {{"prompt": "..."}} or {{"messages": [...]}}'
        ) from error


def chosen(prompts: Sequence[Prompt], limit: int | None) -> tuple[Prompt, ...]:
    """Return at most ``limit`` of the prompts, the same ones every time, in their order."""
    if limit is None:
        return tuple(prompts)
    ranked = sorted(range(len(prompts)), key=lambda index: (_rank(prompts[index]), index))
    return tuple(prompts[index] for index in sorted(ranked[:limit]))


def _rank(prompt: Prompt) -> bytes:
    text = "\x1e".join(f"{one.role}\x1f{one.content}" for one in prompt)
    return hashlib.sha256(text.encode()).digest()
