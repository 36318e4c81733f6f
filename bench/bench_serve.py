"""Do the probe's figures agree with ``vllm bench serve`` on the same server?

    PYTHONPATH=operator python -m bench.bench_serve --url URL --model NAME --tokenizer DIR --prompts FILE --out FILE

Both clients run in this interpreter, one after the other, in alternating order, with the same prompts, concurrency and
answer length, greedy; each counts the whole run, ramp and tail included, by the definitions of ``vllm bench serve``
(``paceline/probe/wholerun.py``). What is compared is the ratio of their figures by repeat, with a t interval over the
repeats' logarithms. Exit code 1 when the throughput's interval leaves 0.95 to 1.05.
"""

import argparse
import asyncio
import contextlib
import io
import json
import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.judge import student
from paceline.podside import clock as clocks
from paceline.probe import loops, prompts, transport, wholerun
from paceline.probe.exchange import Asker
from paceline.probe.workload import Workload

_FIGURES = ("tokens_per_second", "ttft_median_ms", "tpot_mean_ms", "tokens")
_WITHIN = 0.05


def _vllm(options: argparse.Namespace, concurrency: int, requests: int) -> dict[str, float]:
    """Return what ``vllm bench serve`` reports."""
    from vllm.benchmarks import serve as vllm_serve  # noqa: PLC0415 - only the heavy environment has it

    parser = argparse.ArgumentParser()
    vllm_serve.add_cli_args(parser)
    arguments = [
        *("--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--base-url", options.url),
        *("--model", options.model, "--tokenizer", str(options.tokenizer)),
        *("--dataset-name", "custom", "--dataset-path", str(options.prompts)),
        *("--skip-chat-template", "--disable-shuffle", "--custom-output-len", str(options.max_tokens)),
        *("--num-prompts", str(requests), "--max-concurrency", str(concurrency)),
        *("--temperature", "0", "--disable-tqdm"),
    ]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        found = asyncio.run(vllm_serve.main_async(parser.parse_args(arguments)))
    if found["completed"] != requests:
        raise SystemExit(f"vllm bench serve completed {found['completed']} of {requests}: {said.getvalue()[-2000:]}")
    return {
        "tokens_per_second": found["output_throughput"],
        "ttft_median_ms": found["median_ttft_ms"],
        "tpot_mean_ms": found["mean_tpot_ms"],
        "tokens": found["total_output_tokens"],
    }


async def _probe(options: argparse.Namespace, concurrency: int, requests: int) -> dict[str, float]:
    """Return what the probe's closed loop sees of the same work."""
    clock = clocks.SystemClock()
    texts = prompts.read(options.prompts)
    workload = Workload(model=options.model, prompts=texts, max_tokens=options.max_tokens)
    async with transport.HttpTransport(request_timeout_s=600) as http:
        loop = loops.ClosedLoop(Asker(http, clock, url=options.url, stall_s=120), workload, clock=clock)
        await loop.run(range(requests), concurrency=concurrency)
    seen = wholerun.measure(loop.traces)
    if seen.requests != requests:
        raise SystemExit(f"the probe completed {seen.requests} of {requests}")
    return {name: float(getattr(seen, name)) for name in _FIGURES}


def agrees(ratio: Mapping[str, float]) -> bool:
    """Return whether a whole interval lies within what is asked for."""
    return ratio["lower"] >= 1 - _WITHIN and ratio["upper"] <= 1 + _WITHIN


def ratio_of(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Return the ratio probe / vllm with its 95 % interval, from one pair a repeat."""
    logs = [math.log(ours / theirs) for ours, theirs in pairs]
    middle = statistics.fmean(logs)
    reach = student.quantile(0.025, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return {name: round(math.exp(value), 4) for name, value in _bounds(middle, reach)}


def _bounds(middle: float, reach: float) -> list[tuple[str, float]]:
    return [("ratio", middle), ("lower", middle - reach), ("upper", middle + reach)]


def _compare(options: argparse.Namespace, concurrency: int) -> dict[str, Any]:
    requests = concurrency * options.requests_per_slot
    runs: list[dict[str, dict[str, float]]] = []
    for repeat in range(-1, options.repeats):
        order = ("probe", "vllm") if repeat % 2 else ("vllm", "probe")
        seen: dict[str, dict[str, float]] = {}
        for client in order:
            if client == "probe":
                seen[client] = asyncio.run(_probe(options, concurrency, requests))
            else:
                seen[client] = _vllm(options, concurrency, requests)
        if repeat < 0:
            continue  # the first fills the prefix cache, for both alike
        runs.append(seen)
        pace = {client: round(seen[client]["tokens_per_second"], 1) for client in sorted(seen)}
        _say(f"c={concurrency} repeat {repeat}: {pace}")
    ratios = {name: ratio_of([(one["probe"][name], one["vllm"][name]) for one in runs]) for name in _FIGURES}
    return {"concurrency": concurrency, "requests": requests, "ratios": ratios, "runs": runs}


def _say(text: str) -> None:
    sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
    sys.stdout.flush()


def main() -> int:
    """Compare the two clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True, help='JSON lines, {"prompt": "..."} each')
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--requests-per-slot", type=int, default=6)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--about", default="", help="what this is, kept in the file")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for concurrency in options.concurrency:
        found.append(_compare(options, concurrency))
        options.out.write_text(json.dumps({"about": options.about, "bands": found}, indent=1) + "\n")
        _say(f"c={concurrency}: {json.dumps(found[-1]['ratios'])}")
    paces = [one["ratios"]["tokens_per_second"] for one in found]
    return 0 if all(agrees(one) for one in paces) else 1


if __name__ == "__main__":
    sys.exit(main())
