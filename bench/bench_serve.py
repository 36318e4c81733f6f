"""Do the probe's figures agree with ``vllm bench serve`` on the same server?

    PYTHONPATH=operator python -m bench.bench_serve --url URL --model NAME --tokenizer DIR --prompts FILE --out FILE
    PYTHONPATH=operator python -m bench.bench_serve --pool FILE FILE --out FILE

Both clients run in this interpreter, one after the other, in alternating order, with the same prompts, concurrency and
answer length, greedy; each counts the whole run, ramp and tail included, by the definitions of ``vllm bench serve``
(``paceline/probe/wholerun.py``). What is compared is the ratio of their figures by repeat, with a t interval over the
repeats' logarithms. Exit code 1 when the throughput's interval leaves 0.95 to 1.05.

Of a server that speculates its own counters tell how many tokens of a run were accepted drafts. ``steps_per_second``
leaves those out: it counts the tokens that no draft brought, each of which took a step of its own, so that runs with
other texts, which may repeat themselves more, can be told from runs with longer steps.
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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.engines import metrics
from paceline.judge import student
from paceline.podside import clock as clocks
from paceline.probe import loops, prompts, transport, wholerun
from paceline.probe.exchange import Asker
from paceline.probe.workload import Workload

Run = dict[str, dict[str, float]]
"""What each client saw in one repeat."""
_BOTH_SEE = ("tokens_per_second", "ttft_median_ms", "tpot_mean_ms", "tokens")
_FIGURES = (*_BOTH_SEE, "steps_per_second")
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
    return {name: float(getattr(seen, name)) for name in _BOTH_SEE}


async def _written(options: argparse.Namespace) -> tuple[int, int]:
    """Return how many tokens the server has written since its start, and how many of them were accepted drafts."""
    async with transport.HttpTransport(request_timeout_s=60) as http:
        found = metrics.read(await http.fetch(f"{options.url}/metrics"))
    if not isinstance(found, metrics.Reading):
        raise SystemExit(f"{options.url}/metrics: {found.message}")
    speculation = found.speculation
    return found.generation_tokens, (speculation.accepted_tokens or 0) if speculation else 0


def steps_per_second(pace: float, before: tuple[int, int], after: tuple[int, int]) -> float:
    """Return a run's tokens per second without those that drafts brought.

    Args:
        pace: all its tokens per second.
        before: tokens written and accepted when the run began.
        after: the same when it had ended.

    Raises:
        SystemExit: when the server counted nothing meanwhile, or was started anew.
    """
    written, accepted = (late - early for early, late in zip(before, after, strict=True))
    if written <= 0:
        raise SystemExit(f"the server counted {written} tokens in a run; start it with metrics, and do not restart it")
    return pace * (1 - accepted / written)


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


def repeats(options: argparse.Namespace, concurrency: int) -> Iterator[Run]:
    """Yield what both clients saw in every repeat; the first one fills the prefix cache, for both alike."""
    requests = concurrency * options.requests_per_slot
    for repeat in range(-1, options.repeats):
        order = ("probe", "vllm") if repeat % 2 else ("vllm", "probe")
        seen: dict[str, dict[str, float]] = {}
        for client in order:
            before = asyncio.run(_written(options))
            if client == "probe":
                seen[client] = asyncio.run(_probe(options, concurrency, requests))
            else:
                seen[client] = _vllm(options, concurrency, requests)
            pace, after = seen[client]["tokens_per_second"], asyncio.run(_written(options))
            seen[client]["steps_per_second"] = steps_per_second(pace, before, after)
        if repeat >= 0:
            paces = {client: round(seen[client]["tokens_per_second"], 1) for client in sorted(seen)}
            _say(f"c={concurrency} repeat {repeat}: {paces}")
            yield seen


def band(concurrency: int, requests: int, runs: Sequence[Run]) -> dict[str, Any]:
    """Return a concurrency's part of the file; a figure's ratio is of the repeats that have it."""
    pairs = {
        name: [(one["probe"][name], one["vllm"][name]) for one in runs if name in one["probe"]] for name in _FIGURES
    }
    ratios = {name: ratio_of(found) for name, found in pairs.items() if len(found) > 1}
    return {"concurrency": concurrency, "requests": requests, "ratios": ratios, "runs": list(runs)}


def pooled(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the bands of several files, all repeats of a concurrency together."""
    runs: dict[tuple[int, int], list[Run]] = {}
    for one in (one for document in documents for one in document["bands"]):
        runs.setdefault((one["concurrency"], one["requests"]), []).extend(one["runs"])
    return [band(*key, found) for key, found in runs.items()]


def _say(text: str) -> None:
    sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the two clients, or pool what was compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", type=Path, nargs="+", default=[], help="files of earlier runs; drives no server")
    parser.add_argument("--url")
    parser.add_argument("--model")
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--prompts", type=Path, help='JSON lines, {"prompt": "..."} each')
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--requests-per-slot", type=int, default=6)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--about", default="", help="what this is, kept in the file")
    options = parser.parse_args(arguments)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if not options.pool and not all((options.url, options.model, options.tokenizer, options.prompts)):
        parser.error("give --url, --model, --tokenizer and --prompts, or --pool")
    found = pooled([json.loads(path.read_text()) for path in options.pool])
    for concurrency in () if options.pool else options.concurrency:
        runs: list[Run] = []
        for run in repeats(options, concurrency):
            runs.append(run)
            _write([*found, band(concurrency, concurrency * options.requests_per_slot, runs)], options)
        found.append(band(concurrency, concurrency * options.requests_per_slot, runs))
    _write(found, options)
    for one in found:
        _say(f"c={one['concurrency']}, {len(one['runs'])} repeats: {json.dumps(one['ratios'])}")
    paces = [one["ratios"].get("tokens_per_second") for one in found]
    return 0 if paces and all(pace and agrees(pace) for pace in paces) else 1


def _write(found: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> None:
    """Write after every repeat, so that whatever ends this leaves whole ones behind."""
    options.out.write_text(json.dumps({"about": options.about, "bands": found}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
