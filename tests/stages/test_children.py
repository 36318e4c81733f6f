"""Children are watched, stopped and quoted."""

import asyncio
import os
import sys
import threading

import pytest

from paceline.stages import children, stopping
from paceline.stages.failures import TerminatedError
from stages import builders


def _run(code, *, stop=None, tick=lambda: None):
    return children.run([sys.executable, "-c", code], environment=os.environ, stop=stop or stopping.Stop(), tick=tick)


def test_exit_code_and_last_lines_are_returned(capfd):
    """What a child said last is what a failure quotes; all of it is in the log."""
    code, tail = _run("import sys\nfor i in range(40): print('line', i)\nsys.exit(3)")
    assert code == 3
    assert tail.endswith("line 38 | line 39")
    assert "line 0\n" in capfd.readouterr().out


def test_child_is_stopped_with_the_pod():
    """The child gets SIGTERM and the time to end by itself."""
    stop = stopping.Stop()
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(0)))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    threading.Timer(0.1, stop.request).start()
    with pytest.raises(TerminatedError):
        _run(program, stop=stop)


def test_error_in_the_tick_leaves_no_child(tmp_path):
    """Whatever ends the watch ends the child."""
    pid_file = tmp_path / "pid"

    def tick():
        raise RuntimeError("tick")

    with pytest.raises(RuntimeError, match="tick"):
        _run(f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)", tick=tick)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_asynchronous_work_is_cancelled_when_asked_to_stop():
    """A stage that waits for its server ends at once."""
    stop = stopping.Stop()
    threading.Timer(0.1, stop.request).start()
    with pytest.raises(TerminatedError):
        stop.run(asyncio.sleep(60))


def test_asynchronous_work_returns_its_value():
    """Without a signal nothing is different."""

    async def work():
        return builders.DIGEST

    assert stopping.Stop().run(work()) == builders.DIGEST
