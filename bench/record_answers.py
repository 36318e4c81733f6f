"""Record what servers answer to the same greedy requests, for the rule on changed answers to be tried on.

    PYTHONPATH=operator python -m bench.record_answers --work DIR --arms 0 0 1 2 --sampled 0.5 --model NAME \
        --prompts FILE --out FILE

``--arms`` are numbers into ``DIR/arms.json``, which ``bench.serving`` wrote; the first is the control, and the same
number again asks it again. ``--sampled`` asks the control once more at a temperature: a sampler that is wrong. FILE
holds ``texts``, the distinct answers to every prompt, and ``answers``, who gave which of them at which concurrency; it
is written after every arm.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import serving
from paceline.podside import clock as clocks
from paceline.probe import prompts, transport
from paceline.probe.exchange import Asker
from paceline.probe.loops import ClosedLoop
from paceline.probe.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled(Workload):
    """Requests at a temperature; 0 is greedy, as the probe asks."""

    temperature: float = 0.0

    def document(self, prompt: int, *, max_tokens: int | None = None) -> dict[str, Any]:
        """Return the request for a prompt."""
        # Without arguments super() does not know a class with slots.
        found = Workload.document(self, prompt, max_tokens=max_tokens)
        return {**found, "temperature": self.temperature, "seed": prompt} if self.temperature else found


@dataclass(frozen=True, slots=True)
class Book:
    """Answers, each distinct one kept once."""

    texts: list[list[str]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, arm: str, concurrency: int, texts: Sequence[str]) -> None:
        """Note an arm's answers, in the order of the prompts."""
        self.texts.extend([] for _ in range(len(self.texts), len(texts)))
        for known, text in zip(self.texts, texts, strict=True):
            if text not in known:
                known.append(text)
        which = [known.index(text) for known, text in zip(self.texts, texts, strict=True)]
        self.rows.append({"arm": arm, "concurrency": concurrency, "which": which})

    def text(self, about: str) -> str:
        """Return the file: JSON, a prompt and an arm's row a line."""
        document = {"about": about, "texts": self.texts, "answers": self.rows}
        dumped = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        return dumped.replace('{"arm"', '\n{"arm"').replace('"],["', '"],\n["') + "\n"


def asked(options: argparse.Namespace) -> list[tuple[str, serving.Server, float]]:
    """Return who is asked, in order: a name of its own, the server, and the temperature."""
    known = serving.read(options.work)
    found = [
        (known[number].label + "-again" * options.arms[:at].count(number), known[number], 0.0)
        for at, number in enumerate(options.arms)
    ]
    control = known[options.arms[0]]
    return found + [(f"{control.label}@{heat:g}", control, heat) for heat in options.sampled]


async def answered(server: serving.Server, heat: float, concurrency: int, options: argparse.Namespace) -> list[str]:
    """Return the answers in the order of the prompts; none when a request failed."""
    clock = clocks.SystemClock()
    texts = prompts.read(options.prompts, max_prompts=options.max_prompts)
    workload = Sampled(model=options.model, prompts=texts, max_tokens=options.max_tokens, temperature=heat)
    async with transport.HttpTransport(request_timeout_s=120) as http:
        loop = ClosedLoop(Asker(http, clock, url=server.url, stall_s=60), workload, clock=clock)
        await loop.run(range(len(texts)), concurrency=concurrency)
    failed = next((trace.fault.message for trace in loop.traces if trace.fault), "")
    if failed:
        serving.say(f"{server.label} failed a request: {failed}")
        return []
    return [trace.text for trace in loop.traces]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--arms", type=int, nargs="+", required=True)
    parser.add_argument("--sampled", type=float, nargs="*", default=[], help="temperatures")
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--max-prompts", type=int)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--about", default="", help="what this is, kept in the file")
    options = parser.parse_args(arguments)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    book = Book()
    for name, server, heat in asked(options):
        for concurrency in options.concurrency:
            texts = asyncio.run(answered(server, heat, concurrency, options))
            if not texts:
                break  # an engine that died is left out, not the recording
            book.add(name, concurrency, texts)
        else:
            serving.say(f"{name}: done")
        options.out.write_text(book.text(options.about), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
