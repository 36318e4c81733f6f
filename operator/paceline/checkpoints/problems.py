"""How findings are written down: a code for scripts, a sentence with its remedy for people."""

import json
from collections.abc import Iterable
from typing import Any, Final

from paceline.api.checkpoint import Problem, Severity

_MESSAGE_LIMIT: Final = 1024
_VALUE_LIMIT: Final = 80


def error(code: str, message: str) -> Problem:
    """Return a finding that forbids."""
    return Problem(code=code, severity=Severity.ERROR, message=message[:_MESSAGE_LIMIT])


def warning(code: str, message: str) -> Problem:
    """Return a finding that forbids nothing."""
    return Problem(code=code, severity=Severity.WARNING, message=message[:_MESSAGE_LIMIT])


def is_valid(problems: Iterable[Problem]) -> bool:
    """Whether nothing forbids."""
    return all(one.severity is not Severity.ERROR for one in problems)


def sentence(text: str) -> str:
    """Return a message as one that stands alone; vLLM keeps its own spelling."""
    return text if text.startswith("vLLM") else f"{text[:1].upper()}{text[1:]}"


def quote(value: Any) -> str:
    """Return a foreign value for a sentence: short, on one line, printable whatever a file holds."""
    try:
        shown = json.dumps(value, default=str)
    except (ValueError, RecursionError):
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= _VALUE_LIMIT else shown[: _VALUE_LIMIT - 3] + "..."


def listed(values: Iterable[Any]) -> str:
    """Return values as people write them: ``1, 2 and 4``."""
    words = [str(value) for value in values]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
