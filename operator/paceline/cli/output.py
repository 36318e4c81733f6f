"""Answers, as JSON or as text; both are made from the same value."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO


def add_format(parser: argparse.ArgumentParser) -> None:
    """Give a command the choice of its answer's form."""
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="form of the answer")


def answer(document: dict[str, Any], lines: Iterable[str], *, form: str) -> None:
    """Write an answer to standard output: ``document`` as JSON, or ``lines``."""
    if form == "json":
        print(json.dumps(document, indent=2))
        return
    for line in lines:
        print(line)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return aligned lines; columns but the first are set right, as numbers are read."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def number(value: float | None, form: str = ".3f") -> str:
    """Return a number for a table; a dash where there is none."""
    return "-" if value is None else format(value, form)


class Talk:
    """Tells a person what goes on, on standard error; rewrites one line on a terminal, else says only what is new."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Talk to ``stream``, by default standard error."""
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._last = ""

    def say(self, line: str) -> None:
        """Write a line that stays."""
        self._clear()
        print(line, file=self._stream, flush=True)

    def at(self, share: float, message: str) -> None:
        """Show how far something is, 0 to 1."""
        if self._live:
            self._clear()
            print(f"{share:4.0%} {message}", end="", file=self._stream, flush=True)
        elif message != self._last:
            print(f"{share:4.0%} {message}", file=self._stream, flush=True)
        self._last = message

    def _clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=self._stream)
