"""The script that records what one machine can show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.judge import answers, starts

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def script(options):
    """Return a function that runs steps of the script with a trivial engine, few blocks and short answers."""

    def run(*steps):
        environment = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY / "operator"),
            "PYTHON": sys.executable,
            "ENGINE": options.engine[0],
            "TARGET": "target",
            "WORK": str(options.work / "work"),
            "OUT": str(options.work),
            "PORT": str(options.port),
            "TINY": "1",
        }
        return subprocess.run(  # noqa: S603 - our own script
            [REPOSITORY / "bench" / "record.sh", *steps],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_script_leaves_a_file_for_every_step(script, options):
    """And no server."""
    done = script("cpu", "answers", "starts")
    assert done.returncode == 0, done.stdout + done.stderr
    found = answers.Recording.read(options.work / "cpu-answers.json")
    assert found.arms == ["none#0", "none#0-again", "ngram=3#0", "none#0@0.5"]
    blocks = starts.read(options.work / "cpu-noise-starts.json")["none"]
    assert {one.load for one in blocks} == {0, 1}
    assert not (options.work / "work" / "arms.json").exists()


def test_step_that_is_none_is_told(script):
    """Before anything is started."""
    done = script("cpu", "everything")
    assert done.returncode == 2
    assert "there is no step everything" in done.stdout
