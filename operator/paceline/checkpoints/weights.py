"""Names, shapes and bytes of a checkpoint's tensors, from its index or its files' headers; never their values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from paceline.api.checkpoint import Problem
from paceline.checkpoints import problems
from paceline.checkpoints.documents import UnreadableError, printable

_LARGEST: Final = 2**53
_NAME_LIMIT: Final = 255
_HEADER_LIMIT: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What is known of a checkpoint's tensors."""

    names: frozenset[str]
    shapes: Mapping[str, tuple[int, ...]]
    """Of those tensors whose file's header was read."""
    files: frozenset[str] = frozenset()
    """Files that the index names."""
    bytes: int | None = None
    problems: tuple[Problem, ...] = ()


def from_index(document: Mapping[str, Any], *, name: str) -> Weights:
    """Return what a ``*.index.json`` says; what is wrong with it is among the problems."""
    mapping = document.get("weight_map")
    if not isinstance(mapping, dict) or not mapping:
        wrong = "has no weight_map" if mapping is None else f"has weight_map {problems.quote(mapping)}"
        message = f"{printable(name)} {wrong} where names of tensors are expected; copy the index again"
        return Weights(names=frozenset(), shapes={}, problems=(problems.error("InvalidIndex", message),))
    found = []
    strange = [key for key, file in mapping.items() if not _is_file_name(file)]
    if strange:
        message = (
            f"{printable(name)} names {problems.quote(mapping[strange[0]])} as file of {problems.quote(strange[0])}; "
            "an index names files beside it, copy the index again"
        )
        found.append(problems.error("InvalidIndex", message))
    metadata = document.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return Weights(
        names=frozenset(mapping),
        shapes={},
        files=frozenset(file for file in mapping.values() if _is_file_name(file)),
        bytes=_plausible_bytes(total, tensors=len(mapping)),
        problems=tuple(found),
    )


def _is_file_name(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= _NAME_LIMIT
        and "/" not in value
        and "\\" not in value
        and value != ".."
    )


def _plausible_bytes(value: object, *, tensors: int) -> int | None:
    """Return a total that could be one: at least a byte a tensor, and a number that Kubernetes can hold.

    Some tools write whole numbers as floating point.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if tensors <= value <= _LARGEST else None


def header_length(start: bytes, *, name: str, size: int) -> int:
    """Return how many bytes the header has whose length the first eight bytes of a safetensors file tell.

    Raises:
        UnreadableError: when the file is too short for it.
    """
    length = int.from_bytes(start[:8], "little")
    if len(start) < 8 or length > min(size - 8, _HEADER_LIMIT):  # noqa: PLR2004 - as above
        raise UnreadableError(f"{name} is no safetensors file or is cut off; copy it again")
    return length


def from_header(header: bytes, *, name: str, size: int) -> Weights:
    """Return what a safetensors header says.

    Args:
        header: the JSON after the first eight bytes.
        name: the file's.
        size: the whole file's, in bytes.

    Raises:
        UnreadableError: when it is no such header, or promises another size than the file has.
    """
    try:
        entries = {key: entry for key, entry in json.loads(header).items() if key != "__metadata__"}
        shapes = {key: tuple(int(side) for side in entry["shape"]) for key, entry in entries.items()}
        end = max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError) as error:
        raise UnreadableError(f"{name} is no safetensors file or is cut off; copy it again") from error
    if 8 + len(header) + end != size:
        raise UnreadableError(
            f"{name} has {size} bytes where its header promises {8 + len(header) + end}; copy it again"
        )
    return Weights(names=frozenset(shapes), shapes=shapes, files=frozenset({name}), bytes=size)


def merged(index: Weights | None, files: Mapping[str, Weights]) -> Weights | None:
    """Return an index and the files' headers as one; None when there is neither.

    Engines load only the files that an index names, so a file beside them adds nothing.
    """
    if index is None and not files:
        return None
    counted = [one for name, one in files.items() if index is None or name in index.files]
    names = index.names if index else frozenset().union(*(one.names for one in counted))
    shapes = {name: shape for one in counted for name, shape in one.shapes.items()}
    measured = sum(one.bytes or 0 for one in counted)
    whole = index is None or index.files <= set(files)
    return Weights(
        names=names,
        shapes=shapes,
        files=index.files if index else frozenset(files),
        bytes=measured if counted and whole else index.bytes if index else None,
        problems=index.problems if index else (),
    )


def with_missing(found: Weights, missing: list[str], *, is_metadata_only: bool) -> Weights:
    """Return weights with a note that files which the index names are not there.

    A folder with an index and no weights at all is a copy of the small files, made to be looked at.
    """
    note = problems.warning if is_metadata_only else problems.error
    more = f" and {len(missing) - 1} more weight files" if len(missing) > 1 else ""
    message = (
        f"the index names {printable(missing[0])}{more}, which are not there; copy the whole checkpoint to serve it"
    )
    return replace(found, problems=(*found.problems, note("WeightsMissing", message)))
