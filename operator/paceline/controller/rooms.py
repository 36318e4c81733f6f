"""Which rooms run: named by settings, imported when the operator starts."""

import dataclasses
import importlib
import inspect
import typing
from collections.abc import Mapping
from typing import Any

from paceline.controller import settings
from paceline.planning.view import Room


class UnknownRoomError(ValueError):
    """A name in PACELINE_ROOMS leads to no room."""


def load(configured: settings.Settings) -> Mapping[str, Room]:
    """Return the rooms by the name of their kind.

    Raises:
        UnknownRoomError: a name leads nowhere, or two rooms want one kind.
    """
    found: dict[str, Room] = {}
    for name in configured.rooms:
        room = _load(name, configured)
        if room.kind.kind in found:
            raise UnknownRoomError(f"PACELINE_ROOMS has two rooms for {room.kind.kind}; name one of them")
        found[room.kind.kind] = room
    return found


def _load(name: str, configured: settings.Settings) -> Room:
    module_name, _, class_name = name.partition(":")
    try:
        made = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownRoomError(
            f"PACELINE_ROOMS names {name!r}, which cannot be loaded ({error}); write module:Class"
        ) from error
    room: Room = made(**_arguments(made, configured))
    return room


def _arguments(made: Any, configured: settings.Settings) -> dict[str, Any]:
    """Return what a room's constructor asks for: settings of ours by name, or a dataclass of its own made of them."""
    known = dict(configured)
    hints = typing.get_type_hints(made.__init__)
    given: dict[str, Any] = {}
    for name in inspect.signature(made).parameters:
        wanted = hints.get(name)
        if name in known:
            given[name] = known[name]
        elif dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
            fields = {field.name for field in dataclasses.fields(wanted)}
            given[name] = wanted(**{field: known[field] for field in fields & known.keys()})
    return given
