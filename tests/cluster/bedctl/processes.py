"""The bed's long-running processes: started detached, found again, ended.

A process is known by its number and its start time together, since numbers are used again. Each also carries a mark
in its environment that its children inherit, so that a sweep finds those whose record was never written because the
orchestrator itself was killed in between.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bedctl.errors import BedError
from bedctl.layout import Layout

MARK = "PACELINE_BED_FOLDER"

# Ending takes milliseconds; a process in an uninterruptible write can take longer.
END_TIMEOUT_S = 20.0
POLL_S = 0.02

# Outliving us is what they are for; a Popen that is collected while its process runs warns of exactly that.
_CHILDREN: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process, and the clock ticks after boot at which it started."""

    pid: int
    start: int

    def runs(self) -> bool:
        """Say whether it is still the same process, and no zombie."""
        return _start_of(self.pid) == self.start

    def kill(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.runs():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def start(layout: Layout, name: str, command: Sequence[str | Path]) -> Process:
    """Start a program that outlives us, with its output in ``logs/NAME.log``, and record it."""
    layout.logs.mkdir(parents=True, exist_ok=True)
    layout.pids.mkdir(parents=True, exist_ok=True)
    with (layout.logs / f"{name}.log").open("ab") as log:
        child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, MARK: str(layout.root)},
            start_new_session=True,
        )
    _CHILDREN.append(child)
    process = Process(pid=child.pid, start=_start_of(child.pid) or 0)
    (layout.pids / f"{name}.json").write_text(json.dumps({"pid": process.pid, "start": process.start}))
    return process


def recorded(layout: Layout, name: str) -> Process | None:
    """Return the process of that name if it is recorded and runs."""
    try:
        process = Process(**json.loads((layout.pids / f"{name}.json").read_text()))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return None
    return process if process.runs() else None


def children_of(process: Process) -> list[int]:
    """Return the direct children, oldest first."""
    try:
        text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    except FileNotFoundError:
        return []
    return [int(word) for word in text.split()]


def marked(layout: Layout) -> list[Process]:
    """Return every process that was started for this bed, containers' own processes left out."""
    wanted = f"{MARK}={layout.root}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return identify(found)


def identify(pids: Iterable[int]) -> list[Process]:
    """Bind process numbers to the processes that have them now."""
    return [Process(pid=pid, start=start) for pid in pids if (start := _start_of(pid)) is not None]


def end(processes: Iterable[Process], number: signal.Signals = signal.SIGKILL) -> None:
    """Signal all of them and wait until none runs.

    Raises:
        BedError: One of them did not end.
    """
    waiting = [process for process in processes if process.pid != os.getpid()]
    for process in waiting:
        process.kill(number)
    deadline = time.monotonic() + END_TIMEOUT_S
    while waiting := [process for process in waiting if process.runs()]:
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in waiting)
            raise BedError(f"The processes {pids} did not end within {END_TIMEOUT_S:.0f} s; look at /proc/PID/stack.")
        time.sleep(POLL_S)


def _start_of(pid: int) -> int | None:
    """Return the start time of a process that runs; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name stands in parentheses and may hold spaces; the state comes after it, as field 3.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])
