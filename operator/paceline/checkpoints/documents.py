"""Reads JSON that others wrote: nothing in a file may do worse than become a problem with a name.

Real configurations hold ``Infinity`` (state-space models), null sections, numbers as text and keys of any type, and
broken ones hold anything.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from paceline.api.checkpoint import Problem
from paceline.checkpoints import problems

_TEXT_LIMIT: Final = 256
_ITEM_LIMIT: Final = 64

Json = dict[str, Any]


class UnreadableError(Exception):
    """A file is missing, or is not what its name says; the text says which, and what to do."""


def parse(raw: bytes, *, name: str) -> Json:
    """Return the JSON object in ``raw``.

    Raises:
        UnreadableError: when it is cut off, no JSON, no object, or nested beyond reason.
    """
    try:
        document = json.loads(raw)
    except RecursionError as error:
        raise UnreadableError(f"{name} is nested too deeply to be a model file; copy the checkpoint again") from error
    except ValueError as error:
        raise UnreadableError(f"{name} is no JSON ({error}); copy the checkpoint again") from error
    if not isinstance(document, dict):
        raise UnreadableError(f"{name} is no JSON object but {problems.quote(document)}; name a model's own file")
    return document


@dataclass(slots=True, kw_only=True)
class Section:
    """One object of a configuration; what is of the wrong type is noted in ``found`` and counts as left out."""

    values: Mapping[str, Any]
    path: str = ""
    """Dotted path from the top; empty for the document itself."""
    found: list[Problem] = field(default_factory=list)

    def __contains__(self, key: str) -> bool:
        """Whether a key is there, even if null."""
        return key in self.values

    def name(self, key: str) -> str:
        """Return a key's dotted path."""
        return f"{self.path}.{key}" if self.path else key

    def size(self, *keys: str, limit: int = 1_048_576) -> int | None:
        """Return the first of ``keys`` that is set, a whole number from 1 to ``limit``; None when none is."""
        for key in keys:
            value = self.values.get(key)
            if value is None:
                continue
            if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= limit:
                return value
            self.complain(key, f"a whole number from 1 to {limit}", is_error=True)
            return None
        return None

    def count(self, key: str) -> int | None:
        """Return a number of layers or modules, zero allowed; None when it is left out or of another type."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_LAYERS:
            return value
        self.complain(key, f"a whole number from 0 to {_MOST_LAYERS}")
        return None

    def word(self, key: str) -> str:
        """Return a short text; empty when it is left out or of another type."""
        value = self.values.get(key)
        if value is None:
            return ""
        if isinstance(value, str):
            return printable(value)
        self.complain(key, "a text")
        return ""

    def words(self, key: str) -> list[str]:
        """Return a list of short texts."""
        value = self.values.get(key)
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return [printable(one) for one in value[:16]]
        self.complain(key, "a list of texts")
        return []

    def flag(self, key: str) -> bool | None:
        """Return true or false; None when it is left out or of another type."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return value
        self.complain(key, "true or false")
        return None

    def numbers(self, key: str) -> list[int] | None:
        """Return a list of layer numbers; None when it is left out or of another type."""
        value = self.values.get(key)
        if value is None:
            return None
        whole = isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value)
        if whole and len(value) <= _ITEM_LIMIT and all(abs(one) <= _MOST_LAYERS for one in value):
            return list(value)
        self.complain(key, f"a list of at most {_ITEM_LIMIT} layer numbers", is_error=True)
        return None

    def section(self, key: str) -> "Section | None":
        """Return an inner object, which shares this one's ``found``; None when it is left out, null or no object."""
        value = self.values.get(key)
        if isinstance(value, dict):
            return Section(values=value, path=self.name(key), found=self.found)
        if value is not None:
            self.complain(key, "an object")
        return None

    def sections(self) -> Iterator["Section"]:
        """Yield all inner objects, in the file's order."""
        for key, value in self.values.items():
            if isinstance(value, dict):
                yield Section(values=value, path=self.name(key), found=self.found)

    def complain(self, key: str, wanted: str, *, is_error: bool = False) -> None:
        """Note a value of the wrong type, once."""
        note = problems.error if is_error else problems.warning
        name, value = printable(self.name(key)), problems.quote(self.values.get(key))
        problem = note("InvalidField", f"config.json: {name} is {value} where {wanted} is expected; correct the file")
        if problem not in self.found:
            self.found.append(problem)


_MOST_LAYERS: Final = 10_000


def printable(value: str) -> str:
    """Return foreign text cut to a field's bound, without control characters and lone surrogates."""
    kept = value[:_TEXT_LIMIT]
    if kept.isprintable() and kept.isascii():
        return kept
    return "".join(one if one.isprintable() and not "\ud800" <= one <= "\udfff" else "?" for one in kept)


def quoted(value: Any) -> str:
    """Return a sort key for values of any JSON type."""
    return json.dumps(value, sort_keys=True)
