"""Servers on this machine by the operator's own command lines; they outlive the program that started them.

    python bench/serving.py up --target DIR --head DIR --work DIR --arms none none 3 5
    python bench/serving.py wait --work DIR --limit 500
    python bench/serving.py down --work DIR

An arm is ``none``, or the number of tokens it speculates ahead. ``--work`` holds arms.json: a list of {"name", "load",
"url", "pid"}. Arms that are alike get one name and a ``load`` each, since they are starts of one configuration.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.engines.base import ServeRequest, Speculation
from paceline.engines.vllm import Vllm

CONTROL = "none"
_FIRST_PORT = 8100
_STOP_S = 60.0


def up(options: argparse.Namespace) -> int:
    """Start every arm at once, each with caches of its own: engines that share them wait for each other."""
    options.work.mkdir(parents=True, exist_ok=True)
    arms: list[dict[str, Any]] = []
    for at, tokens in enumerate(options.arms):
        name = CONTROL if tokens == CONTROL else f"k={tokens}"
        load = sum(arm["name"] == name for arm in arms)
        port = options.port + at
        command = [*options.engine, *Vllm().command(_request(tokens, port, options))[1:]]
        pid = _start(command, options.work / f"{name}-{load}")
        arms.append({"name": name, "load": load, "url": f"http://127.0.0.1:{port}", "pid": pid, "k": tokens})
    (options.work / "arms.json").write_text(json.dumps(arms, indent=1))
    return 0


def wait(options: argparse.Namespace) -> int:
    """Wait until every arm is healthy or dead; exit code 1 at the limit."""
    arms, deadline = read(options.work), time.monotonic() + options.limit
    waiting = {f"{arm['name']}-{arm['load']}": arm for arm in arms}
    while waiting and time.monotonic() < deadline:
        for name, arm in list(waiting.items()):
            if healthy(arm["url"]):
                _say(f"{name} is healthy")
                del waiting[name]
            elif not _alive(arm["pid"]):
                tail = (options.work / name / "log").read_text(errors="replace")[-1500:]
                _say(f"{name} died: {tail}")
                del waiting[name]
        time.sleep(2)
    if waiting:
        _say(f"still starting: {', '.join(waiting)}")
    return 1 if waiting else 0


def down(options: argparse.Namespace) -> int:
    """Stop every arm, its workers too."""
    for arm in read(options.work):
        stop(arm["pid"])
    return 0


def read(work: Path) -> list[dict[str, Any]]:
    """Return the arms of a folder."""
    found: list[dict[str, Any]] = json.loads((work / "arms.json").read_text())
    return found


def healthy(url: str) -> bool:
    """Return whether a server answers /health."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5):  # noqa: S310 - a server we started
            return True
    except (urllib.error.URLError, OSError):
        return False


def stop(pid: int) -> None:
    """End a server's session: politely, then not."""
    deadline = time.monotonic() + _STOP_S
    try:
        os.killpg(pid, signal.SIGTERM)
        while _alive(pid) and time.monotonic() < deadline:
            time.sleep(0.5)
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _alive(pid: int) -> bool:
    try:
        done, _ = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # another program of ours started it
        return Path(f"/proc/{pid}").exists()
    return done == 0


def _start(command: Sequence[str], folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    own = {
        "VLLM_CACHE_ROOT": str(folder / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
    }
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, **own}
        )
    return server.pid


def _request(tokens: str, port: int, options: argparse.Namespace) -> ServeRequest:
    speculation = None
    if tokens != CONTROL:
        speculation = Speculation(method="eagle3", num_speculative_tokens=int(tokens), draft_path=str(options.head))
    return ServeRequest(
        model=str(options.target),
        revision=None,
        trust_remote_code=False,
        tensor_parallel_size=1,
        port=port,
        args=options.engine_args,
        speculation=speculation,
    )


def _say(text: str) -> None:
    sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run one verb."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for verb in (up, wait, down):
        one = verbs.add_parser(verb.__name__)
        one.set_defaults(run=verb)
        one.add_argument("--work", type=Path, required=True)
        if verb is wait:
            one.add_argument("--limit", type=float, default=420.0)
        if verb is up:
            one.add_argument("--target", type=Path, required=True)
            one.add_argument("--head", type=Path)
            one.add_argument("--arms", nargs="+", default=[CONTROL, CONTROL])
            one.add_argument("--port", type=int, default=_FIRST_PORT)
            one.add_argument("--engine", type=shlex.split, default=["vllm"], help="the engine's program")
            one.add_argument("--engine-args", type=shlex.split, default=["--max-model-len=2048"])
    options = parser.parse_args()
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())
