"""The program that asks an engine for its first tokens, run as a kubelet runs it."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from paceline.engines.vllm import Vllm

MODEL = "/mnt/paceline/models/kimi"


class Engine(BaseHTTPRequestHandler):
    """Answers as vLLM does; ``answers`` holds what a completion brings."""

    status, completion, seen = 200, {}, []

    def do_GET(self) -> None:
        """List the one model."""
        self._answer(200, {"data": [{"id": MODEL}]})

    def do_POST(self) -> None:
        """Complete."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).seen.append({**asked, "authorization": self.headers.get("Authorization")})
        self._answer(self.status, self.completion)

    def _answer(self, status: int, document: dict) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def engine() -> Iterator[type[Engine]]:
    """Return a server that decodes."""
    handler = type("Handler", (Engine,), {"completion": {"usage": {"completion_tokens": 4}}, "seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    handler.port = server.server_port
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def ask(port: int, **environment: str) -> tuple[int, str]:
    """Return the exit status of the program, and what it said."""
    _python, *rest = Vllm().completion_command(port)
    # A proxy of the cluster must not see what is asked of the loopback.
    environment = {"http_proxy": "http://127.0.0.1:9", **environment}
    done = subprocess.run([sys.executable, *rest], capture_output=True, text=True, env=environment, check=False)  # noqa: S603 - our own program
    return done.returncode, done.stderr


def test_engine_that_decodes_is_ready(engine: type[Engine]) -> None:
    """It is asked by the name it serves under, for more than the one token that the prompt's own pass gives."""
    assert ask(engine.port) == (0, "")
    assert [(one["model"], one["max_tokens"]) for one in engine.seen] == [(MODEL, 4)]


@pytest.mark.parametrize(
    ("status", "completion", "said"),
    [
        (500, {"error": "EngineDeadError"}, "HTTP 500"),
        (200, {"choices": [], "usage": {"completion_tokens": 0}}, "no token"),
        (200, {}, "no token"),
        (200, [], "no completion yet"),
    ],
    ids=["engine is dead", "no tokens", "no usage", "no document"],
)
def test_engine_that_answers_without_tokens_is_not_ready(
    engine: type[Engine], status: int, completion: dict, said: str
) -> None:
    """vllm#36960: the GPU had failed, and /health still said 200."""
    engine.status, engine.completion = status, completion
    code, words = ask(engine.port)
    assert code == 1
    assert said in words


def test_engine_that_still_loads_is_not_ready() -> None:
    """Nothing listens yet; the program ends with a line and no traceback."""
    code, words = ask(9)
    assert code == 1
    assert words.startswith("no completion yet: ")


def test_key_of_the_environment_is_used(engine: type[Engine]) -> None:
    """A server started with VLLM_API_KEY is asked with it."""
    assert ask(engine.port, VLLM_API_KEY="secret")[0] == 0
    assert engine.seen[0]["authorization"] == "Bearer secret"


def test_server_with_an_unknown_key_counts_once_it_refuses(engine: type[Engine]) -> None:
    """A key in engine.args is not known here; the probe, which has the same key or none, tells the rest."""
    engine.status = 401
    assert ask(engine.port)[0] == 0
