"""Live progress: what the operator polls."""

import json
import socket
import urllib.error
import urllib.request

import pytest

from paceline.api import stages
from paceline.podside import progress


class HandClock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        """Return the time set by hand."""
        return self.now_s


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_pause_is_told_until_it_is_over() -> None:
    """Work that is reported meanwhile does not end it, and it takes nothing from what was said."""
    live = progress.Progress("Probe", HandClock())
    live.update(0.25, "block 2")
    live.pause(paused=True)
    assert (live.read().paused, live.read().percent, live.read().message) == (True, 25, "block 2")
    live.update(0.5, "block 3")
    assert live.read().paused
    live.pause(paused=False)
    assert not live.read().paused


def test_time_left_follows_the_pace_of_the_phase() -> None:
    """A resumed phase that starts at half is forecast from what it did itself."""
    clock = HandClock()
    live = progress.Progress("Probe", clock)
    live.phase(0.5, "blocks")
    clock.now_s += 10
    live.update(0.75, "blocks")
    assert live.read() == stages.LiveProgress(stage="Probe", percent=75, eta_s=10, message="blocks")


def test_share_beyond_bounds_is_clipped() -> None:
    """Percent stays within the model's bounds, whatever the work says."""
    live = progress.Progress("Probe", HandClock())
    live.update(1.7, "x" * 5000, eta_s=-3)
    read = live.read()
    assert (read.percent, read.eta_s, len(read.message)) == (100, 0, 1024)


def test_server_answers_progress_and_health_until_stopped() -> None:
    """What is written by the work is what the operator reads."""
    live = progress.Progress("Probe", HandClock())
    port = free_port()
    stop = progress.serve(live, port)
    try:
        live.update(0.4, "block 2 of 5", eta_s=7)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/progress", timeout=5) as answer:
            told = {"stage": "Probe", "percent": 40, "etaS": 7, "message": "block 2 of 5", "paused": False}
            assert json.load(answer) == told
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            assert answer.read() == b"ok\n"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/elsewhere", timeout=5)
    finally:
        stop()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1)
