"""Servers on this machine by the operator's own command lines; they outlive the program that started them.

    PYTHONPATH=operator python -m bench.serving up --target DIR --head DIR --work DIR --arms none none 3 ngram3
    PYTHONPATH=operator python -m bench.serving wait --work DIR --limit 500
    PYTHONPATH=operator python -m bench.serving down --work DIR

An arm is ``none``; ``3``: a head that speculates three tokens ahead; ``ngram3``: three tokens looked up in the text so
far; or ``lossy3``: the same, but vLLM accepts drafts unseen, so that its answers are wrong on purpose. ``--work`` holds
arms.json, a list of :class:`Server`. Arms that are alike get one name and a ``load`` each, since they are starts of one
configuration.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Sequence
from pathlib import Path

import pydantic

from paceline.engines.base import ServeRequest, Speculation
from paceline.engines.vllm import Vllm

CONTROL = "none"
_ARMS = "arms.json"
_FIRST_PORT = 8100
_STOP_S = 60.0
_ARM = re.compile(r"(?P<method>ngram|lossy|)(?P<tokens>[1-9][0-9]?)")
_NAMES = {"": "k", "ngram": "ngram", "lossy": "lossy"}
_LOOKUP = (2, 4)
"""Shortest and longest run of tokens that an n-gram draft looks up."""
_LOSSY_LENGTH = 2.0
"""Acceptance length that vLLM makes up for a lossy arm."""
_started: dict[int, subprocess.Popen[bytes]] = {}
"""Those of this process: nobody else can ask whether they have ended."""


class Server(pydantic.BaseModel):
    """A server that was started."""

    model_config = pydantic.ConfigDict(frozen=True)

    name: str
    load: int
    """Which start of its configuration it is."""
    url: str
    pid: int

    @property
    def label(self) -> str:
        """What tells it from all others."""
        return f"{self.name}#{self.load}"

    def folder(self, work: Path) -> Path:
        """Return where its log and caches lie."""
        return work / f"{self.name}-{self.load}"


def up(options: argparse.Namespace) -> int:
    """Start every arm at once, each with caches of its own: engines that share them wait for each other."""
    servers: list[Server] = []
    for at, arm in enumerate(options.arms):
        load = sum(one.name == name_of(arm) for one in servers)
        servers.append(launch(arm, options, load=load, port=options.port + at))
    write(options.work, servers)
    return 0


def wait(options: argparse.Namespace) -> int:
    """Wait until every arm is healthy or dead; exit code 1 if one is neither at the limit."""
    waiting = wait_for(read(options.work), options.work, limit_s=options.limit)
    if waiting:
        say(f"still starting: {', '.join(one.label for one in waiting)}")
    return 1 if waiting else 0


def down(options: argparse.Namespace) -> int:
    """Stop every arm, its workers too."""
    servers = read(options.work)
    for one in servers:
        _signal(one.pid, signal.SIGTERM)  # all at once, since each may take its time
    for one in servers:
        stop(one.pid)
    (options.work / _ARMS).unlink()  # their process ids will be others'
    return 0


def read(work: Path) -> list[Server]:
    """Return the servers of a folder."""
    return [Server.model_validate(row) for row in json.loads((work / _ARMS).read_text())]


def write(work: Path, servers: Collection[Server]) -> None:
    """Note the servers of a folder."""
    (work / _ARMS).write_text(json.dumps([one.model_dump() for one in servers], indent=1))


def name_of(arm: str) -> str:
    """Return what an arm's configuration is called."""
    method, tokens = _parsed(arm)
    return f"{_NAMES[method]}={tokens}" if tokens else CONTROL


def speculation(arm: str, head: Path | None) -> Speculation | None:
    """Return how an arm drafts; None for the one without speculation.

    Raises:
        SystemExit: for a word that is no arm, and for a head's arm without a head.
    """
    method, tokens = _parsed(arm)
    if not tokens:
        return None
    if method:
        return Speculation(method="ngram", num_speculative_tokens=tokens, ngram_min=_LOOKUP[0], ngram_max=_LOOKUP[1])
    if head is None:
        raise SystemExit(f"arm {arm!r} drafts with a head; name its folder with --head, or take ngram{tokens}")
    return Speculation(method="eagle3", num_speculative_tokens=tokens, draft_path=str(head))


def _parsed(arm: str) -> tuple[str, int]:
    """Return the method, empty for a head's, and the tokens, 0 for none."""
    if arm == CONTROL:
        return "", 0
    found = _ARM.fullmatch(arm)
    if found is None:
        raise SystemExit(f"{arm!r} is no arm; write none, or a number of tokens as in 3, ngram3 or lossy3")
    return found["method"], int(found["tokens"])


def launch(arm: str, options: argparse.Namespace, *, load: int, port: int) -> Server:
    """Start one arm.

    Args:
        arm: as on the command line.
        options: what :func:`add_options` reads, and ``work``.
        load: which start of its configuration this is.
        port: on the loopback.
    """
    request = ServeRequest(
        model=str(options.target),
        revision=None,
        trust_remote_code=False,
        tensor_parallel_size=1,
        port=port,
        args=[*options.engine_args, *_made_lossy(arm)],
        speculation=speculation(arm, options.head),
    )
    server = Server(name=name_of(arm), load=load, url=f"http://127.0.0.1:{port}", pid=0)
    return server.model_copy(update={"pid": start(request, options.engine, server.folder(options.work))})


def _made_lossy(arm: str) -> list[str]:
    """Return a draft's settings with vLLM's made-up acceptance; of an option given twice the last one holds."""
    method, tokens = _parsed(arm)
    if method != "lossy":
        return []
    settings = {
        "method": "ngram",
        "num_speculative_tokens": tokens,
        "prompt_lookup_min": _LOOKUP[0],
        "prompt_lookup_max": _LOOKUP[1],
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": _LOSSY_LENGTH,
    }
    return ["--speculative-config", json.dumps(settings)]


def start(request: ServeRequest, engine: Sequence[str], folder: Path, *, caches: Path | None = None) -> int:
    """Return the process id of a server by the operator's command line.

    Args:
        request: the server.
        engine: the engine's program, in place of ``vllm``.
        folder: for its log.
        caches: for what the engine compiles; by default in ``folder``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = caches or folder
    own = {
        "VLLM_CACHE_ROOT": str(kept / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(kept / "inductor"),
        "TRITON_CACHE_DIR": str(kept / "triton"),
    }
    command = [*engine, *Vllm().command(request)[1:]]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, **own}
        )
    _started[server.pid] = server
    return server.pid


def wait_for(servers: Collection[Server], work: Path, *, limit_s: float) -> list[Server]:
    """Return the servers that are still starting at the limit; those that died are told with their last words."""
    waiting, deadline = list(servers), time.monotonic() + limit_s
    while waiting and time.monotonic() < deadline:
        for one in list(waiting):
            if healthy(one.url):
                say(f"{one.label} is healthy")
            elif not alive(one.pid):
                say(f"{one.label} died: {last_words(one.folder(work))}")
            else:
                continue
            waiting.remove(one)
        time.sleep(1)
    return waiting


def last_words(folder: Path) -> str:
    """Return the end of a server's log."""
    return (folder / "log").read_text(errors="replace")[-3000:]


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
    _signal(pid, signal.SIGTERM)
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.5)
    _signal(pid, signal.SIGKILL)  # its workers too


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def alive(pid: int) -> bool:
    """Return whether a server's process has not ended."""
    ours = _started.get(pid)
    return ours.poll() is None if ours else Path(f"/proc/{pid}").exists()


def say(text: str) -> None:
    """Tell the person, with the time."""
    sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
    sys.stdout.flush()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says which servers are started."""
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--head", type=Path)
    parser.add_argument("--port", type=int, default=_FIRST_PORT)
    parser.add_argument("--engine", type=shlex.split, default=["vllm"], help="the engine's program")
    parser.add_argument("--engine-args", type=shlex.split, default=["--max-model-len=2048"])


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
            add_options(one)
            one.add_argument("--arms", nargs="+", default=[CONTROL, CONTROL])
    options = parser.parse_args()
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())
