"""A stand-in for vLLM: streams words at a set speed and counts them under vLLM's series names. It holds no model.

It takes ``vllm serve``'s command line, so that the operator's own templates start it. What a test wants of it comes by
environment, by what the arm drafts, since all arms of one resource share their environment:

- ``STANDIN_SPEEDS``: ``{"none": 200, "ngram": 300, "ngram:5": 150}``, tokens a second of one stream, also by tokens
  drafted;
- ``STANDIN_FAULTS``: ``{"ngram:5": "crash"}``, alike; ``crash`` ends at the start, ``buried`` too, with its cause far
  above its last words, ``deaf`` answers /health and no request, ``errors`` answers 500, ``dead`` drafts and accepts
  nothing;
- ``STANDIN_STARTUP_S``: seconds until it listens; ``STANDIN_PREFILL_S``: seconds to a first token;
- ``STANDIN_SLOTS``: streams that decode at once, further ones wait, as beyond ``--max-num-seqs``;
- ``STANDIN_ACCEPTED``: accepted tokens a draft.

A POST to ``/standin`` of ``{"speed": .., "fault": .., "accepted": ..}`` changes a running one; a GET tells how many
completions were asked for and how many were in flight at most, by the request's ``user``. Like vLLM it aborts what is
in flight on SIGTERM, unless ``--shutdown-timeout`` gives it time to finish. Standard library only: the bed's images
hold nothing else.
"""

import argparse
import asyncio
import collections
import contextlib
import hashlib
import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field

TTFT_BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
SERVED = ("/v1/chat/completions", "/v1/completions")
DEFAULT_TOKENS = 16


@dataclass
class Histogram:
    """Seconds, as Prometheus counts them."""

    count: int = 0
    total: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * len(TTFT_BUCKETS_S))

    def add(self, seconds):
        """Count one."""
        self.count += 1
        self.total += seconds
        self.buckets = [seen + (seconds <= bound) for seen, bound in zip(self.buckets, TTFT_BUCKETS_S, strict=True)]

    def lines(self, name, labels):
        """Return the series."""
        pairs = zip(self.buckets, TTFT_BUCKETS_S, strict=True)
        found = [f'{name}_bucket{{{labels},le="{bound}"}} {seen}' for seen, bound in pairs]
        found += [f'{name}_bucket{{{labels},le="+Inf"}} {self.count}']
        return [*found, f"{name}_sum{{{labels}}} {self.total}", f"{name}_count{{{labels}}} {self.count}"]


@dataclass
class Asked:
    """What one user asked for; the probe names none."""

    asked: int = 0
    in_flight: int = 0
    most: int = 0

    @contextlib.contextmanager
    def one(self):
        """Count a completion from its arrival to its end."""
        self.asked += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            yield
        finally:
            self.in_flight -= 1


class Engine:
    """What the server knows and counts."""

    def __init__(self, options, environment):
        """Take the command line and the environment."""
        speculative = json.loads(options.speculative_config or "{}")
        self.model = options.model
        self.method = speculative.get("method", "none")
        self.tokens = int(speculative.get("num_speculative_tokens", 0))
        self.speed = float(self._told(environment, "STANDIN_SPEEDS", 200.0))
        self.fault = self._told(environment, "STANDIN_FAULTS", "")
        self.accepted = float(environment.get("STANDIN_ACCEPTED", "1.0"))
        self.prefill_s = float(environment.get("STANDIN_PREFILL_S", "0.02"))
        self.slots = asyncio.Semaphore(int(environment.get("STANDIN_SLOTS", "256")))
        self.started = time.time()
        self.draining = False
        self.running = self.waiting = self.finished = self.aborted = 0
        self.prompt_tokens = self.generated = self.drafts = self.taken = 0
        self.ttft, self.itl = Histogram(), Histogram()
        self.askers = collections.defaultdict(Asked)

    def _told(self, environment, name, default):
        table = json.loads(environment.get(name, "{}"))
        return table.get(f"{self.method}:{self.tokens}", table.get(self.method, default))

    async def generate(self, prompt, count):
        """Yield (words, tokens so far); the same words for the same prompt, whatever is drafted."""
        arrived = time.monotonic()
        self.waiting += 1
        began = ended = False
        try:
            async with self.slots:
                self.waiting -= 1
                self.running += 1
                began = True
                self.prompt_tokens += len(prompt.split())
                await asyncio.sleep(self.prefill_s)
                self.ttft.add(time.monotonic() - arrived)
                async for piece in self._decode(prompt, count):
                    yield piece
                ended = True
        finally:
            if began:
                self.running -= 1
            else:
                self.waiting -= 1
            self.finished += ended
            self.aborted += not ended

    async def _decode(self, prompt, count):
        sent, owed, clock = 0, 0.0, time.monotonic()
        while sent < count:
            owed += self.accepted if self.tokens and self.fault != "dead" else 0.0
            step = min(1 + min(int(owed), self.tokens), count - sent)
            owed -= min(int(owed), self.tokens)
            if self.tokens:
                self.drafts += 1
                self.taken += step - 1
            # By the clock, not by naps: a busy machine oversleeps, and speeds would drift apart from what was set.
            clock += step / self.speed
            await asyncio.sleep(max(0.0, clock - time.monotonic()))
            self.itl.add(1.0 / self.speed)
            self.generated += step
            words = "".join(f"{word(prompt, at)} " for at in range(sent, sent + step))
            sent += step
            yield words, sent

    def metrics(self):
        """Return the scrape."""
        labels = f'engine="0",model_name="{self.model}"'
        counters = {
            "vllm:prompt_tokens_total": self.prompt_tokens,
            "vllm:generation_tokens_total": self.generated,
        }
        gauges = {
            "vllm:num_requests_running": self.running,
            "vllm:num_requests_waiting": self.waiting,
            "vllm:kv_cache_usage_perc": min(1.0, self.running / 256),
        }
        if self.tokens:
            counters |= {
                "vllm:spec_decode_num_drafts_total": self.drafts,
                "vllm:spec_decode_num_draft_tokens_total": self.drafts * self.tokens,
                "vllm:spec_decode_num_accepted_tokens_total": self.taken,
            }
        lines = [f"{name}{{{labels}}} {float(value)}" for name, value in (counters | gauges).items()]
        for reason, value in (("length", self.finished), ("abort", self.aborted)):
            lines.append(f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {float(value)}')
        lines += self.ttft.lines("vllm:time_to_first_token_seconds", labels)
        lines += self.itl.lines("vllm:inter_token_latency_seconds", labels)
        lines.append(f"process_start_time_seconds {self.started}")
        return "\n".join(lines) + "\n"


def word(prompt, at):
    """Return the greedy word at a place of the answer to a prompt."""
    return "w" + hashlib.sha256(f"{prompt}/{at}".encode()).hexdigest()[:3]


class Connection:
    """One HTTP/1.1 connection, kept alive."""

    def __init__(self, engine, reader, writer):
        """Serve ``engine``."""
        self.engine, self.reader, self.writer = engine, reader, writer

    async def serve(self):
        """Answer requests until the peer goes, or we do."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            while (head := await self.reader.readuntil(b"\r\n\r\n")) and await self._answer(head):
                pass
        self.writer.close()

    async def _answer(self, head):
        lines = head.decode("latin-1").split("\r\n")
        verb, path, _ = lines[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        path = path.partition("?")[0]
        if verb == "POST" and path in SERVED:
            asked = json.loads(body)
            with self.engine.askers[asked.get("user", "")].one():
                await self._complete(asked, chat=path == SERVED[0])
        else:
            await self._plain(*self._page(verb, path, body))
        return headers.get("connection", "").lower() != "close" and not self.engine.draining

    def _page(self, verb, path, body):
        engine = self.engine
        if verb == "POST" and path == "/standin":
            for name, value in json.loads(body).items():
                setattr(engine, name, value)
            return 200, "application/json", "{}"
        if path == "/standin":
            told = {user: vars(asked) for user, asked in engine.askers.items()}
            return 200, "application/json", json.dumps(told)
        if path == "/health":
            return 200, "text/plain", ""
        if path == "/metrics":
            return 200, "text/plain; version=0.0.4", engine.metrics()
        if path == "/v1/models":
            return 200, "application/json", json.dumps({"object": "list", "data": [{"id": engine.model}]})
        return 404, "application/json", json.dumps({"error": {"message": f"{path} is not served", "code": 404}})

    async def _plain(self, status, kind, text):
        data = text.encode()
        closing = "Connection: close\r\n" if self.engine.draining else ""
        self.writer.write(
            f"HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{closing}\r\n".encode()
        )
        self.writer.write(data)
        await self.writer.drain()

    async def _complete(self, asked, *, chat):
        engine = self.engine
        if engine.fault == "deaf":
            await asyncio.sleep(3600)
        if engine.fault == "errors" or engine.draining:
            status, said = (503, "shutting down") if engine.draining else (500, "EngineDeadError")
            await self._plain(status, "application/json", json.dumps({"error": {"message": said, "code": status}}))
            return
        prompt = asked["messages"][-1]["content"] if chat else str(asked["prompt"])
        count = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or DEFAULT_TOKENS)
        pieces = engine.generate(prompt, count)
        async with contextlib.aclosing(pieces):
            if asked.get("stream"):
                await self._stream(pieces, asked, prompt, chat=chat)
                return
            words = [piece async for piece, _ in pieces]
        choice = {"index": 0, "finish_reason": "length"}
        choice |= {"message": {"role": "assistant", "content": "".join(words)}} if chat else {"text": "".join(words)}
        document = {"model": engine.model, "choices": [choice], "usage": usage(prompt, count)}
        await self._plain(200, "application/json", json.dumps(document))

    async def _stream(self, pieces, asked, prompt, *, chat):
        options = asked.get("stream_options") or {}
        self.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = 0
        async for words, sent in pieces:
            delta = {"delta": {"content": words}} if chat else {"text": words}
            await self._event(
                {
                    "choices": [{"index": 0, **delta}],
                    **({"usage": usage(prompt, sent)} if options.get("continuous_usage_stats") else {}),
                }
            )
        ending = {"delta": {}} if chat else {"text": ""}
        await self._event({"choices": [{"index": 0, **ending, "finish_reason": "length"}]})
        if options.get("include_usage"):
            await self._event({"choices": [], "usage": usage(prompt, sent)})
        self._chunk(b"data: [DONE]\n\n")
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def _event(self, document):
        self._chunk(b"data: " + json.dumps({"model": self.engine.model, **document}).encode() + b"\n\n")
        await self.writer.drain()

    def _chunk(self, data):
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def usage(prompt, count):
    """Return the usage of an answer."""
    asked = len(prompt.split())
    return {"prompt_tokens": asked, "completion_tokens": count, "total_tokens": asked + count}


async def run(options, engine):
    """Serve until SIGTERM, and then for as long as --shutdown-timeout lets requests end."""
    await asyncio.sleep(float(os.environ.get("STANDIN_STARTUP_S", "0")))
    if engine.fault == "crash":
        print("ValueError: the stand-in was told to crash", file=sys.stderr)
        return 1
    if engine.fault == "buried":
        # As vLLM 0.32 ends: a worker's error, and below it tracebacks of the processes that only saw it fail.
        print("(Worker pid=9) ERROR [multiproc_executor.py:953] KeyError: 'layers.0.mlp.down_proj.weight'")
        for line in range(120):
            print(f'  File "/opt/venv/lib/python3.11/site-packages/vllm/v1/engine/utils.py", line {line}, in launch')
        print("RuntimeError: Engine core initialization failed. See root cause above.", flush=True)
        return 1
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = await asyncio.start_server(
        lambda reader, writer: Connection(engine, reader, writer).serve(), options.host, options.port
    )
    port = server.sockets[0].getsockname()[1]
    print(f"stand-in serves {engine.model} with {engine.method} on port {port}", flush=True)
    await stop.wait()
    engine.draining = True
    deadline = time.monotonic() + options.shutdown_timeout
    while engine.running + engine.waiting and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    print(f"ends with {engine.running + engine.waiting} requests in flight")
    server.close()
    # The last bytes of the last answers are on their way.
    await asyncio.sleep(0.1 if options.shutdown_timeout else 0)
    return 0


def parse(arguments):
    """Return the options; those of vLLM that mean nothing here are let pass."""
    parser = argparse.ArgumentParser(prog="vllm")
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 - a pod's own
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--speculative-config")
    parser.add_argument("--shutdown-timeout", type=int, default=0)
    return parser.parse_known_args(arguments)[0]


async def main():
    """Run the server; return the exit code."""
    options = parse(sys.argv[1:])
    return await run(options, Engine(options, os.environ))


if __name__ == "__main__":
    code = asyncio.run(main())
    sys.stdout.flush()
    # Connections that are still open are dropped, as a process's end drops them.
    os._exit(code)
