"""How fast is the probe itself? It drives a trivial server, a process of its own that streams as fast as it is read.

    PYTHONPATH=operator python -m bench.probe_speed

The server's chunks look like vLLM's, one token each, which is the most a probe can be given to do for a token. What is
reported is the probe's own processor time for a chunk and for a request, which holds on a busy machine too, and what
one core can therefore take. A probe that a server brings near these figures measures itself. As fast as they are read,
chunks come several at once; ``--pace-ms 5.8`` sends them one by one, as an H200 did at 64 requests in flight.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

from paceline.podside import clock as clocks
from paceline.probe import loops, prompts, transport, wholerun, window
from paceline.probe.exchange import Asker
from paceline.probe.workload import Workload

_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n"
    b"X-Request-Id: 7c9e6679\r\n\r\n"
)


class _Stream(asyncio.Protocol):
    """One connection: an answer after every request, a chunk a turn of the loop."""

    def __init__(self, pace_s: float) -> None:
        """Send a chunk every ``pace_s``, or as fast as it is read."""
        self._pace_s = pace_s
        self._received = b""
        self._transport: asyncio.Transport
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection, with a small buffer: what is not read must hold the server back."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("not a stream")
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=16 * 1024)

    def pause_writing(self) -> None:
        """Wait for the reader."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """Go on."""
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        """Answer a request once it is whole."""
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-le")), 0
        )
        if found and len(body) >= length:
            self._received = b""
            task = asyncio.get_running_loop().create_task(self._answer(json.loads(body)["max_tokens"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, tokens: int) -> None:
        self._transport.write(_HEAD)
        for number in range(tokens):
            await self._may_write.wait()
            self._transport.write(_event(number + 1, " word", last=number + 1 == tokens))
            await asyncio.sleep(self._pace_s)
        self._transport.write(_framed(b"data: [DONE]\n\n") + b"0\r\n\r\n")


_EVENTS: Final[dict[tuple[int, bool], bytes]] = {}


def _event(tokens: int, text: str, *, last: bool) -> bytes:
    """Return a chunk as vLLM 0.32 sends it with ``continuous_usage_stats``; each is made once."""
    key = (tokens, last)
    if key not in _EVENTS:
        choice = {
            "index": 0,
            "delta": {"content": text},
            "logprobs": None,
            "finish_reason": "length" if last else None,
            "token_ids": None,
        }
        document: dict[str, Any] = {
            "id": "chatcmpl-7c9e6679-7425-40de-944b-e07fc1f90ae7",
            "object": "chat.completion.chunk",
            "created": 1767225600,
            "model": "/models/target",
            "choices": [choice],
            "usage": {"prompt_tokens": 40, "total_tokens": 40 + tokens, "completion_tokens": tokens},
        }
        _EVENTS[key] = _framed(b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n")
    return _EVENTS[key]


def _framed(body: bytes) -> bytes:
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


def _serve(listener: socket.socket, pace_s: float) -> None:
    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: _Stream(pace_s), sock=listener)
        await server.serve_forever()

    asyncio.run(forever())


async def _drive(url: str, *, concurrency: int, requests: int, tokens: int) -> dict[str, float]:
    """Return what the probe sustained and what it cost."""
    clock = clocks.SystemClock()
    workload = Workload(
        model="m", prompts=((prompts.Message(role="user", content="Write. " * 20),),), max_tokens=tokens
    )
    async with transport.HttpTransport(request_timeout_s=600) as http:
        loop = loops.ClosedLoop(Asker(http, clock, url=url, stall_s=120), workload, clock=clock)
        await loop.run(range(concurrency), concurrency=concurrency)  # connections
        loop = loops.ClosedLoop(Asker(http, clock, url=url, stall_s=120), workload, clock=clock)
        started_s, spent_s = time.perf_counter(), time.process_time()
        await loop.run(range(requests), concurrency=concurrency)
        wall_s, spent_s = time.perf_counter() - started_s, time.process_time() - spent_s
    seen = wholerun.measure(loop.traces)
    if seen.errors or seen.tokens != requests * tokens:
        raise SystemExit(f"{seen.errors} errors, {seen.tokens} of {requests * tokens} tokens")
    window.measure(loop.traces, concurrency=concurrency, drained_s=loop.drained_s)
    chunks = requests * tokens
    return {
        "concurrency": concurrency,
        "tokens_an_answer": tokens,
        "tokens_per_second": round(chunks / wall_s),
        "requests_per_second": round(requests / wall_s),
        "probe_busy_percent": round(100 * spent_s / wall_s),
        "microseconds_a_chunk": round(spent_s * 1e6 / chunks, 1),
        "tokens_per_second_of_a_core": round(chunks / spent_s),
    }


def main() -> int:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument(
        "--tokens", type=int, nargs="+", default=[1, 128], help="of an answer; 1 shows what a request costs"
    )
    parser.add_argument("--pace-ms", type=float, default=0.0, help="time between chunks of a stream, as an engine has")
    parser.add_argument("--chunks", type=int, default=60_000, help="of every measurement")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = multiprocessing.get_context("fork").Process(
        target=_serve, args=(listener, options.pace_ms / 1000), daemon=True
    )
    server.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    rows = []
    for tokens in options.tokens:
        for concurrency in options.concurrency:
            requests = max(concurrency * 2, options.chunks // (tokens if tokens > 1 else 20))
            rows.append(asyncio.run(_drive(url, concurrency=concurrency, requests=requests, tokens=tokens)))
            sys.stdout.write(json.dumps(rows[-1]) + "\n")
            sys.stdout.flush()
    server.terminate()
    if options.out:
        options.out.write_text(json.dumps({"cores": os.cpu_count(), "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
