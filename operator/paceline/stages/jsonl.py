"""An append-only log of JSON lines that survives being cut off anywhere.

One attempt writes one file; readers merge the files of all attempts. A line counts once it ends in a newline and
parses, so the half line of a killed writer is nothing, and no repair is ever needed.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class JsonLog:
    """Appends records to one file; a record is on disk when ``append`` returns."""

    def __init__(self, path: Path) -> None:
        """Open ``path`` for appending; a half line left at its end is ended, so that it spoils no other."""
        path.parent.mkdir(parents=True, exist_ok=True)
        torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
        self._handle = path.open("ab")
        if torn:
            self._handle.write(b"\n")

    def append(self, record: dict[str, Any]) -> None:
        """Write one record and wait until it is on disk."""
        self._handle.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        self._handle.flush()
        os.fsync(self._handle.fileno())

    def __enter__(self) -> Self:
        """Return the log itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._handle.close()


def read_all(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole records of every ``*.jsonl`` in ``folder``, files in the order of their names."""
    for path in sorted(folder.glob("*.jsonl")):
        yield from read_whole(path.read_bytes())


def read_whole(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records of whole lines; damaged ones are skipped, since their work will be done again."""
    for line in content.split(b"\n")[:-1]:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record
