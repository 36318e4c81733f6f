"""Why an engine's container does not come up: what it said at its end, or what Kubernetes says of it.

A permanent fault is not cured by another try, so that a candidate is rolled back at once. A memory fault may be
another pod's that still ends on the same GPU. A transient one is tried again, within the limits of restarts and time;
what no row of the table knows is transient.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from paceline.engines.faults import EVENTS, OUT_OF_MEMORY, ROWS, WAITING, Fault, Nature, Row

# Of hundreds of lines most are progress, and some of those speak of connections, caches and permissions.
_ERROR_LINE: Final = re.compile(r"error|exception|fatal|core dumped", re.IGNORECASE)
_COMPILED: Final = tuple((row, re.compile(row.pattern)) for row in ROWS)


def of_exit(*, reason: str, exit_code: int, message: str) -> Fault | None:
    """Return what a container's end shows; None when the table does not know it.

    Args:
        reason: of the terminated state, such as ``OOMKilled``.
        exit_code: the container's.
        message: its termination message, the end of its log.
    """
    if reason == "OOMKilled":
        return OUT_OF_MEMORY
    if exit_code == 0:
        return None
    return _of_lines(message.splitlines())


def of_log(log: str) -> Fault | None:
    """Return what the longer end of a log shows, by the lines that speak of errors; None when no row knows any."""
    return _of_lines([line for line in log.splitlines() if _ERROR_LINE.search(line)])


def of_waiting(*, reason: str, message: str) -> Fault | None:
    """Return what a container that is not let run shows; None when it is only on its way."""
    known = WAITING.get(reason)
    return None if known is None else replace(known, said=" ".join(message.split())[:300])


def of_warning(*, reason: str, message: str) -> Fault | None:
    """Return what a warning event about a pod that does not start shows; None when it is about nothing known."""
    for known, part, fault in EVENTS:
        if reason == known and part in message:
            return replace(fault, said=" ".join(message.split())[:300])
    return None


def _of_lines(lines: Sequence[str]) -> Fault | None:
    told = [" ".join(line.split()) for line in lines]
    memory = [row for row in _COMPILED if row[0].nature is Nature.MEMORY]
    # What follows from a lack of memory, such as a failed collective, is printed below it; else the last line counts.
    return _search(told, memory) or _search(told[::-1], _COMPILED)


def _search(lines: Iterable[str], rows: Iterable[tuple[Row, re.Pattern[str]]]) -> Fault | None:
    for line in lines:
        row = next((row for row, pattern in rows if pattern.search(line)), None)
        if row is not None:
            return Fault(name=row.name, nature=row.nature, remedy=row.remedy, said=line[-300:])
    return None
