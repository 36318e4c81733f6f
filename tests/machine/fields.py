"""Draws valid values for the fields of a model, from the model itself: a field that is added to the API is drawn too.

What cannot be told from its type (names, URIs, free text) keeps its default; callers say those by hand.
"""

import enum
import types
import typing
from collections.abc import Mapping
from typing import Any

import pydantic
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from paceline.api import base

_MOST = 40
"""Larger counts differ from this one in nothing but time."""
DURATIONS = ("0s", "30s", "5m", "20m", "1h")


def variants(model: type[pydantic.BaseModel], *, leave: frozenset[str] = frozenset()) -> st.SearchStrategy[dict]:
    """Return a strategy of documents that change some fields of ``model``, by their names in the API."""
    known = {name: field for name, field in model.model_fields.items() if name not in leave}
    drawn = {field.alias or name: _field(field) for name, field in known.items()}
    return st.fixed_dictionaries({}, optional={name: one for name, one in drawn.items() if one is not None})


def overlay(document: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``document`` with the fields of ``change`` set, section by section."""
    made = dict(document)
    for name, value in change.items():
        old = made.get(name)
        made[name] = overlay(old, value) if isinstance(value, Mapping) and isinstance(old, Mapping) else value
    return made


def _field(field: FieldInfo) -> st.SearchStrategy[Any] | None:
    return _of(field.annotation, list(field.metadata))


def _of(kind: Any, metadata: list[Any]) -> st.SearchStrategy[Any] | None:  # noqa: PLR0911 - one for each kind of type
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        own = [part for one in kind.__metadata__ for part in getattr(one, "metadata", (one,))]
        return _of(typing.get_args(kind)[0], [*metadata, *own])
    if origin in {typing.Union, types.UnionType}:
        inner = [one for one in typing.get_args(kind) if one is not type(None)]
        found = _of(inner[0], metadata) if len(inner) == 1 else None
        return None if found is None else st.none() | found
    if origin is list:
        return _list(typing.get_args(kind)[0], metadata)
    if not isinstance(kind, type):
        return None
    if issubclass(kind, enum.Enum):
        return st.sampled_from([one.value for one in kind])
    if issubclass(kind, bool):
        return st.booleans()
    if issubclass(kind, int):
        lowest, highest = _bound(metadata, "ge", 0), _bound(metadata, "le", _MOST)
        return st.integers(lowest, max(lowest, min(highest, _MOST)))
    if issubclass(kind, str):
        return st.sampled_from(DURATIONS) if _is_duration(metadata) else None
    if issubclass(kind, pydantic.BaseModel) and not _needs_words(kind):
        return variants(kind)
    return None


def _list(kind: Any, metadata: list[Any]) -> st.SearchStrategy[Any] | None:
    item = _of(kind, [])
    if item is None:
        return None
    fewest, most = _bound(metadata, "min_length", 0), min(_bound(metadata, "max_length", 3), 3)
    return st.lists(item, min_size=fewest, max_size=max(fewest, most), unique_by=repr)


def _needs_words(model: type[pydantic.BaseModel]) -> bool:
    """Whether a model has a required field that cannot be drawn."""
    return any(one.is_required() for one in model.model_fields.values())


def _bound(metadata: list[Any], name: str, default: int) -> int:
    found = [getattr(one, name) for one in metadata if getattr(one, name, None) is not None]
    return int(found[0]) if found else default


def _is_duration(metadata: list[Any]) -> bool:
    return any(getattr(one, "pattern", None) == base.DURATION_PATTERN for one in metadata)
