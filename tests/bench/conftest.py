"""A trivial engine in place of vLLM: the same command line, series and streams."""

import argparse
import contextlib
import socket
from pathlib import Path

import pytest

from demo import workload

STANDIN = Path(__file__).resolve().parents[1] / "cluster" / "standin" / "program" / "vllm"


def free_port(count: int) -> int:
    """Return the first of so many ports in a row that nobody listens on."""
    while True:
        with contextlib.ExitStack() as held, contextlib.suppress(OSError, OverflowError):
            first = held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            for at in range(1, count):
                held.enter_context(socket.create_server(("127.0.0.1", first + at)))
            return first


@pytest.fixture
def options(tmp_path):
    """Return what the recorders' command lines give them, for small blocks of a fast server."""
    (tmp_path / "prompts.jsonl").write_text(workload.json_lines(workload.in_domain(24)))
    return argparse.Namespace(
        work=tmp_path,
        target=Path("target"),
        head=None,
        port=free_port(3),
        engine=[str(STANDIN)],
        engine_args=[],
        model="target",
        prompts=tmp_path / "prompts.jsonl",
        max_prompts=None,
        concurrency=[1, 4],
        requests_per_slot=3,
        max_tokens=16,
        about="",
        out=tmp_path / "out.json",
        limit=60.0,
    )
