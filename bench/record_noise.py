"""Record blocks of real servers, for the judge to be tried on: what the noise between equal arms really is.

    PYTHONPATH=operator python bench/record_noise.py --work DIR --arms 3 0 1 --out FILE --model NAME --prompts FILE

``--arms`` are numbers into ``DIR/arms.json``, which ``bench/serving.py`` wrote: one to three, candidate first, driven
A B B A or A B C C B A by the probe itself. The same number twice drives one server against itself. FILE grows with
every round, so whatever ends this leaves whole rounds behind.
"""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import serving

from paceline.api.measurement import Measurement, ProbeArm, ProbeConfig
from paceline.podside import clock as clocks
from paceline.probe import prompts, transport
from paceline.probe import round as rounds


class _Told:
    def at(self, share: float, message: str) -> None:
        """Hear how far the round is; blocks are enough here."""

    def measured(self, measurement: Measurement, message: str) -> None:
        """Print a block."""
        pace, accepted = measurement.tokens_per_second, measurement.acceptance_length
        said = f"{pace:8.1f} tok/s" if pace is not None else f"{measurement.outcome}: {message}"
        more = f" accepted {accepted:.2f}" if accepted else ""
        _say(f"round {measurement.round} c={measurement.concurrency:<3} {measurement.arm:10} {said}{more}")


async def _record(options: argparse.Namespace) -> list[Measurement]:
    texts = prompts.read(options.prompts)
    known = serving.read(options.work)
    arms = [_arm(known[number], seen=options.arms[:at].count(number)) for at, number in enumerate(options.arms)]
    until = time.monotonic() + options.limit
    found: list[Measurement] = []
    async with transport.HttpTransport(request_timeout_s=120) as http:
        for number in range(options.first_round, options.first_round + options.rounds):
            if time.monotonic() > until:
                _say("the limit is reached")
                break
            config = ProbeConfig(
                arms=arms,
                model=options.model,
                prompts_path=str(options.prompts),
                concurrencies=options.concurrency,
                requests_per_slot=options.requests_per_slot,
                max_tokens=options.max_tokens,
                round=number,
                stall_timeout_s=60,
            )
            driven = rounds.arms_of(config, http, clocks.SystemClock())
            report = await rounds.run(config, texts, driven, listener=_Told())
            found += report.measurements
            _write(options, found)
    return found


def _arm(arm: dict[str, Any], *, seen: int) -> ProbeArm:
    """Return an arm under a name of its own: the start is part of it, and so is being driven twice."""
    name = f"{arm['name']}#{arm['load']}" + ("-again" * seen)
    return ProbeArm(arm=name, url=arm["url"], pod_uid=str(arm["pid"]), node="here", load=arm["load"])


def _write(options: argparse.Namespace, found: list[Measurement]) -> None:
    document: dict[str, Any] = {"about": options.about}
    names = list(dict.fromkeys(one.arm for one in found))
    if len(names) > 1:
        document |= {"candidate": names[0], "rival": names[1]}
    document["measurements"] = [one.model_dump(mode="json", exclude_defaults=True, by_alias=True) for one in found]
    text = json.dumps(document, indent=None, separators=(",", ":")).replace('{"arm"', '\n{"arm"')
    options.out.write_text(text + "\n", encoding="utf-8")


def _say(text: str) -> None:
    sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
    sys.stdout.flush()


def main() -> int:
    """Record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--arms", type=int, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--requests-per-slot", type=int, default=6)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--first-round", type=int, default=0)
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no round is begun")
    parser.add_argument("--about", default="", help="what this is, kept in the file")
    asyncio.run(_record(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
