"""``paceline probe``, against real sockets."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web

import paceline
from paceline.api.measurement import Measurement
from paceline.cli.__main__ import main
from probe.engine import Engine


@contextmanager
def served(engine: Engine) -> Iterator[str]:
    """Serve ``engine`` from a thread and yield its URL; the command brings an event loop of its own."""

    async def chat(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        async for event in engine.events(await request.json(), 0):
            await response.write(event)
        return response

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(text=engine.metrics())

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": engine.model}]})

    async def start() -> web.AppRunner:
        app = web.Application()
        app.add_routes(
            [web.post("/v1/chat/completions", chat), web.get("/metrics", scrape), web.get("/v1/models", models)]
        )
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """Return a file of prompts."""
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "one"}\n{"prompt": "two"}\n')
    return path


def test_clearly_faster_server_passes_and_is_saved_for_the_judge(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, prompts: Path
) -> None:
    """Five tokens a step against one; the saved file gives the same verdict again."""
    fast, slow = (Engine(answer_tokens=40, chunk_s=0.01, tokens_per_chunk=count) for count in (5, 1))
    with served(fast) as candidate, served(slow) as control:
        code = main(
            [
                "probe",
                *("--url", candidate, "--url", control),
                *("--prompts", str(prompts), "--concurrency", "2", "--max-tokens", "40"),
                *("--save", str(tmp_path / "saved.json"), "-o", "json"),
            ]
        )
    said = json.loads(capsys.readouterr().out)
    assert (code, said["comparison"]["verdict"], said["comparison"]["reason"]) == (0, "Pass", "Faster")
    assert main(["judge", str(tmp_path / "saved.json"), "-o", "json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again == said["comparison"]


def test_one_server_is_profiled(capsys: pytest.CaptureFixture[str], prompts: Path) -> None:
    """Without a verdict: there is nothing to compare it with."""
    with served(Engine(tokens_per_chunk=2)) as url:
        code = main(["probe", "--url", url, "--prompts", str(prompts), "--concurrency", "1", "--min-rounds", "1"])
    said = capsys.readouterr()
    assert code == 0
    assert [line.split()[0] for line in said.out.splitlines()] == ["arm", "candidate", "candidate"]
    assert "tok/s" in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--concurrency", "one"), "not possible"),
        (("--concurrency", "none"), "nothing is asked for"),
        (("--rate", "0"), "not possible"),
        (("--prompt-bounds", "9"), "no prompt has 10-"),
        (("--url", "http://a", "--url", "http://b", "--url", "http://c"), "at most 3"),
        (("--prompts", "/absent"), "/absent"),
    ],
)
def test_impossible_measurement_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], prompts: Path, arguments: tuple[str, ...], words: str
) -> None:
    """Before any server is asked."""
    code = main(["probe", "--model", "m", "--url", "http://127.0.0.1:9", "--prompts", str(prompts), *arguments])
    assert (code, words in capsys.readouterr().err) == (2, True)


def test_stopped_measurement_keeps_its_finished_rounds(tmp_path: Path, prompts: Path) -> None:
    """Ctrl-C after the first of many rounds: minutes of measuring are not thrown away."""
    saved = tmp_path / "saved.json"
    # A program that is started in the background inherits that Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with served(Engine(chunk_s=0.002)) as url:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [
                *(sys.executable, "-m", "paceline.cli", "probe", "--url", url, "--url", url, "--prompts", str(prompts)),
                *("--concurrency", "1", "--save", str(saved), "--min-rounds", "60", "--max-rounds", "60"),
            ],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(paceline.__file__).parents[1])},
        )
        assert process.stderr is not None
        for line in process.stderr:
            if "round 1" in line:
                process.send_signal(signal.SIGINT)
                break
        _, said = process.communicate(timeout=60)
    assert (process.returncode, "stopped" in said) == (0, True)
    assert {one["round"] for one in json.loads(saved.read_text())["measurements"]} >= {0}


def test_server_that_is_away_fails_with_its_address(capsys: pytest.CaptureFixture[str], prompts: Path) -> None:
    """Exit code 1: asked rightly, not to be had."""
    code = main(["probe", "--url", "http://127.0.0.1:9", "--prompts", str(prompts)])
    assert (code, "127.0.0.1" in capsys.readouterr().err) == (1, True)


def test_open_loop_is_a_profile_without_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """What users would wait for at a rate; with the bundled prompts, since none were named."""
    with served(Engine(tokens_per_chunk=2, chunk_s=0.001)) as url:
        asked = ["--concurrency", "none", "--rate", "6000", "--rate-requests", "12", "--min-rounds", "1"]
        code = main(["probe", "--url", url, "--url", url, *asked, "-o", "json"])
    said = json.loads(capsys.readouterr().out)
    assert (code, said["comparison"]) == (0, None)
    blocks = [Measurement.model_validate(one) for one in said["measurements"]]
    assert [(one.rate_per_minute, one.requests, one.outcome.value) for one in blocks] == [(6000, 12, "Ok")] * 4
    assert all(one.ttft_p99_ms and one.ttft_ms and one.ttft_ms <= one.ttft_p99_ms for one in blocks)
