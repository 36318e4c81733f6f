"""What a running pod says about itself: percent, time left, and a sentence, for ``GET /progress``."""

import http.server
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Protocol

from paceline.api import stages

_MIN_SHARE: Final = 0.01
"""Below one per cent a forecast of the whole is noise."""
_MESSAGE_LIMIT: Final = 1024


class Monotonic(Protocol):
    """The part of a clock that a forecast needs."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start."""
        ...


class Progress:
    """The one mutable value of a pod's program; written by its work, read by the HTTP thread."""

    def __init__(self, stage: str, clock: Monotonic) -> None:
        """Start at nothing done."""
        self._clock = clock
        self._lock = threading.Lock()
        self._live = stages.LiveProgress(stage=stage)
        self._phase_start_s = clock.monotonic()
        self._phase_share = 0.0

    def phase(self, share: float, message: str) -> None:
        """Begin a phase whose start is ``share`` (0 to 1) of the whole; time left is forecast from here on."""
        with self._lock:
            self._phase_start_s, self._phase_share = self._clock.monotonic(), share
            self._say(share, message, eta_s=None)

    def update(self, share: float, message: str, *, eta_s: float | None = None) -> None:
        """Say how much is done, 0 to 1; without ``eta_s`` the phase's own pace tells the time left."""
        with self._lock:
            self._say(share, message, eta_s=self._forecast_s(share) if eta_s is None else eta_s)

    def pause(self, *, paused: bool) -> None:
        """Say whether the work rests; what is done stays as it was said."""
        with self._lock:
            self._live = self._live.model_copy(update={"paused": paused})

    def read(self) -> stages.LiveProgress:
        """Return what is known now."""
        with self._lock:
            return self._live

    def _say(self, share: float, message: str, *, eta_s: float | None) -> None:
        self._live = stages.LiveProgress(
            stage=self._live.stage,
            percent=max(0, min(100, int(share * 100))),
            eta_s=None if eta_s is None else max(0, round(eta_s)),
            message=message[:_MESSAGE_LIMIT],
            paused=self._live.paused,
        )

    def _forecast_s(self, share: float) -> float | None:
        """Return seconds left at the pace of this phase; what came before (a resume) says nothing about it."""
        done = share - self._phase_share
        if done < _MIN_SHARE:
            return None
        return (self._clock.monotonic() - self._phase_start_s) * (1.0 - share) / done


def serve(progress: Progress, port: int = stages.PROGRESS_PORT) -> Callable[[], None]:
    """Answer ``/progress`` and ``/healthz`` on ``port`` from a thread; the returned call stops it.

    A thread of its own, so that it answers also while the work holds the event loop.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/progress":
                self._answer(progress.read().model_dump_json(by_alias=True).encode(), "application/json")
            elif self.path == "/healthz":
                self._answer(b"ok\n", "text/plain")
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def _answer(self, body: bytes, content_type: str) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: a poll every few seconds is no event."""

    server = http.server.ThreadingHTTPServer(("", port), Handler)
    threading.Thread(target=server.serve_forever, name="progress", daemon=True).start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return stop
