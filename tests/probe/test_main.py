"""The pod's program: configuration in, termination message out."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.api import report
from paceline.api.measurement import ProbeReport
from paceline.probe import __main__ as program
from probe import fakes

OPERATOR = Path(program.__file__).parents[2]


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def run(folder: Path, config: str) -> tuple[int, ProbeReport]:
    """Return the exit code and the report of a run."""
    (folder / "config.json").write_text(config)
    code = program.main(
        [
            f"--config={folder / 'config.json'}",
            f"--termination-log={folder / 'log'}",
            f"--progress-port={free_port()}",
        ]
    )
    return code, report.decode((folder / "log").read_text(), ProbeReport)


@pytest.mark.parametrize(
    ("config", "words"),
    [("{}", "arms"), ("no json", "JSON"), (fakes.config("a").model_dump_json(), "/unused")],
    ids=["empty", "garbage", "no prompts"],
)
def test_what_the_user_must_change_is_permanent(tmp_path: Path, config: str, words: str) -> None:
    """Another try would end the same."""
    code, said = run(tmp_path, config)
    assert (code, said.permanent) == (42, True)
    assert words in said.error


def test_server_that_is_away_may_be_tried_again(tmp_path: Path) -> None:
    """A pod may be replaced between two tries."""
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "Hi"}\n')
    arm = {"arm": "a", "url": f"http://127.0.0.1:{free_port()}", "podUid": "u", "node": "n"}
    config = {**fakes.config("a").wire(), "arms": [arm], "promptsPath": str(tmp_path / "prompts.jsonl")}
    code, said = run(tmp_path, json.dumps(config))
    assert (code, said.permanent) == (1, False)
    assert "completed no request" in said.error


def test_probe_that_is_told_to_end_lets_go_of_its_servers_at_once(tmp_path: Path) -> None:
    """As a container's first process it has to heed SIGTERM itself, or its requests would go on until it is killed."""
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "Hi"}\n')
    with socket.create_server(("127.0.0.1", 0)) as server:
        arm = {"arm": "a", "url": f"http://127.0.0.1:{server.getsockname()[1]}", "podUid": "u", "node": "n"}
        config = {**fakes.config("a").wire(), "arms": [arm], "promptsPath": str(tmp_path / "prompts.jsonl")}
        (tmp_path / "config.json").write_text(json.dumps(config))
        words = [f"--config={tmp_path / 'config.json'}", f"--termination-log={tmp_path / 'log'}"]
        command = [sys.executable, "-m", "paceline.probe", *words, f"--progress-port={free_port()}"]
        environment = {**os.environ, "PYTHONPATH": str(OPERATOR)}
        with subprocess.Popen(command, env=environment) as probe:  # noqa: S603 - the program under test
            asked, _ = server.accept()
            with asked:
                asked.recv(65536)
                probe.send_signal(signal.SIGTERM)
                assert asked.recv(65536) == b""
            assert probe.wait(timeout=60) == 143
