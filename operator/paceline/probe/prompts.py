"""Prompts from a file of JSON lines, as the messages that are sent."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pydantic


class PromptsError(Exception):
    """The file cannot be used; the text says what to change."""


class Message(pydantic.BaseModel):
    """One turn."""

    model_config = pydantic.ConfigDict(frozen=True)

    role: Annotated[str, pydantic.Field(min_length=1)]
    content: str


Prompt = tuple[Message, ...]


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
    return tuple(usable if max_prompts is None else _chosen(usable, max_prompts))


def _parse(line: str, *, number: int, path: Path) -> Prompt:
    try:
        return _Line.model_validate_json(line).sent()
    except pydantic.ValidationError as error:
        wrong = "; ".join(str(one["msg"]) for one in error.errors())
        raise PromptsError(
            f'line {number} of {str(path)!r} is no prompt ({wrong}); write {{"prompt": "..."}} or {{"messages": [...]}}'
        ) from error


def _chosen(prompts: Sequence[Prompt], limit: int) -> list[Prompt]:
    ranked = sorted(range(len(prompts)), key=lambda index: (_rank(prompts[index]), index))
    return [prompts[index] for index in sorted(ranked[:limit])]


def _rank(prompt: Prompt) -> bytes:
    text = "\x1e".join(f"{one.role}\x1f{one.content}" for one in prompt)
    return hashlib.sha256(text.encode()).digest()
