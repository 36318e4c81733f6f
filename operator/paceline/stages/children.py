"""Running the trainer's own commands as child processes: watched, stopped when the pod is, quoted when they fail.

A child keeps gigabytes and signal handlers of its own out of this process, and its exit code is never the proof that it
did its work; callers look at what it left on disk.
"""

import collections
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final

from paceline.stages import stopping

_TICK_S: Final = 1.0
_GRACE_S: Final = 20.0
"""Below Kubernetes' default of 30 s, so that this process still has time to report."""
_TAIL_LINES: Final = 12


class Tail:
    """The last lines that a child wrote, for its error message."""

    def __init__(self) -> None:
        """Nothing was written yet."""
        self._lines: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)

    def copy_from(self, stream: IO[str]) -> None:
        """Pass every line on to our own output and keep the last ones."""
        for line in stream:
            sys.stdout.write(line)
            sys.stdout.flush()
            if line.strip():
                self._lines.append(line.rstrip())

    @property
    def text(self) -> str:
        """The kept lines as one."""
        return " | ".join(self._lines)


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    stop: stopping.Stop,
    tick: Callable[[], None],
) -> tuple[int, str]:
    """Return a child's exit code and the end of its output; ``tick`` is called about once a second meanwhile.

    Raises:
        TerminatedError: when asked to stop; the child was then told to, and killed after a grace time.
    """
    child = subprocess.Popen(  # noqa: S603 - our own commands, no shell
        command, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    tail = Tail()
    reader = threading.Thread(target=tail.copy_from, args=(child.stdout,), daemon=True)
    reader.start()
    try:
        while not stop.requested:
            try:
                code = child.wait(timeout=_TICK_S)
            except subprocess.TimeoutExpired:
                tick()
            else:
                reader.join()
                return code, tail.text
        stop.raise_if_requested()
        raise AssertionError("unreachable: the loop ends when asked to stop")
    finally:
        _end(child)
        reader.join()
        if child.stdout:
            child.stdout.close()


def _end(child: subprocess.Popen[str]) -> None:
    """Leave no child behind, whatever made us leave."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
