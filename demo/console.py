"""What the demo says while it works: what runs now, how far it is, how long it will take.

On a terminal the running line is rewritten; elsewhere (a log, CI) a line is printed when something changed, at most
every few seconds.
"""

import sys
import time
from typing import Final, TextIO

_QUIET_S: Final = 10.0
_SECONDS_ARE_SAID_BELOW: Final = 90  # "75 s" says more than "1 min"


class Console:
    """One running line under a list of finished ones."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._live = out.isatty()
        self._started = time.monotonic()
        self._last_text = ""
        self._last_at = 0.0

    def elapsed_s(self) -> float:
        """Return seconds since the demo began."""
        return time.monotonic() - self._started

    def heading(self, text: str) -> None:
        """Say that a new part begins."""
        self._clear()
        print(f"\n{self._clock()} == {text}", file=self._out, flush=True)
        self._last_text = ""

    def line(self, text: str) -> None:
        """Say something that stays."""
        self._clear()
        print(f"{self._clock()}    {text}", file=self._out, flush=True)

    def progress(self, text: str, *, percent: int | None = None, left_s: float | None = None) -> None:
        """Say what runs now."""
        parts = [text if percent is None else f"{percent:3d}%  {text}"]
        if left_s is not None:
            parts.append(f"(about {spoken(left_s)} left)")
        whole = "  ".join(parts)
        if self._live:
            self._clear()
            self._out.write(f"{self._clock()}    {whole}"[:150])
            self._out.flush()
            self._last_text = whole
        elif whole != self._last_text and time.monotonic() - self._last_at >= _QUIET_S:
            print(f"{self._clock()}    {whole}", file=self._out, flush=True)
            self._last_text, self._last_at = whole, time.monotonic()

    def _clock(self) -> str:
        minutes, seconds = divmod(int(self.elapsed_s()), 60)
        return f"[{minutes:02d}:{seconds:02d}]"

    def _clear(self) -> None:
        if self._live and self._last_text:
            self._out.write("\r\x1b[2K")
            self._out.flush()
            self._last_text = ""


def spoken(seconds: float) -> str:
    """Return a span as people say it: ``40 s``, ``6 min``, ``1 h 5 min``."""
    if seconds < _SECONDS_ARE_SAID_BELOW:
        return f"{max(0, round(seconds))} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
