"""Record blocks of real servers, for the judge to be tried on: what the noise between equal arms really is.

    PYTHONPATH=operator python -m bench.record_noise beside --work DIR --arms 3 0 1 --model NAME --prompts FILE \
        --out FILE
    PYTHONPATH=operator python -m bench.record_noise starts --work DIR --arms none ngram3 --starts 4 --target DIR \
        --prompts FILE --out FILE

``beside`` drives servers that are up: ``--arms`` are numbers into ``DIR/arms.json``, which ``bench.serving`` wrote: one
to three, candidate first, driven A B B A or A B C C B A by the probe itself. The same number twice drives one server
against itself. ``starts`` starts the configurations by turns, each alone on the machine, as arms live that do not fit
beside each other: A B B A A B ..., ``--starts`` of each. FILE grows with every round, so whatever ends this leaves
whole rounds behind.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import serving
from paceline.api.measurement import Measurement, Mode, ProbeArm, ProbeConfig
from paceline.podside import clock as clocks
from paceline.probe import prompts, transport
from paceline.probe import round as rounds

_START_LIMIT_S = 420.0


class _Told:
    def at(self, share: float, message: str) -> None:
        """Hear how far the round is; blocks are enough here."""

    def paused(self, arm: str, *, is_on: bool) -> None:
        """Hear of pauses; there are none without users."""

    def measured(self, measurement: Measurement, message: str) -> None:
        """Print a block."""
        pace, accepted = measurement.tokens_per_second, measurement.acceptance_length
        said = f"{pace:8.1f} tok/s" if pace is not None else f"{measurement.outcome}: {message}"
        more = f" accepted {accepted:.2f}" if accepted else ""
        serving.say(f"round {measurement.round} c={measurement.concurrency:<3} {measurement.arm:10} {said}{more}")


def beside(options: argparse.Namespace) -> int:
    """Drive servers that live side by side."""
    known = serving.read(options.work)
    arms = [arm_of(known[number], seen=options.arms[:at].count(number)) for at, number in enumerate(options.arms)]
    until, found = time.monotonic() + options.limit, []
    for number in range(options.first_round, options.first_round + options.rounds):
        if time.monotonic() > until:
            serving.say("the limit is reached")
            break
        found += asyncio.run(_round(arms, number, options))
        write(options.out, found, about=options.about)
    return 0


def starts(options: argparse.Namespace) -> int:
    """Start configurations one after the other, and drive each while it is alone."""
    until, found, driven = time.monotonic() + options.limit, [], 0
    for arm, load in turns(options.arms, options.starts):
        if time.monotonic() > until:
            serving.say("the limit is reached")
            break
        began = time.monotonic()
        server = serving.launch(arm, options, load=load, port=options.port)
        serving.write(options.work, [server])
        try:
            if serving.wait_for([server], options.work, limit_s=_START_LIMIT_S) or not serving.healthy(server.url):
                raise SystemExit(f"{server.label} did not start: {serving.last_words(server.folder(options.work))}")
            serving.say(f"{server.label} took {time.monotonic() - began:.0f} s to start")
            for number in range(options.rounds):
                blocks = asyncio.run(_round([arm_of(server)], number, options))
                found += [alone(one, arm=server.name, number=driven) for one in blocks]
                driven += 1
                write(options.out, found, about=options.about)
        finally:
            serving.down(options)
    return 0


def turns(arms: Sequence[str], count: int) -> Iterator[tuple[str, int]]:
    """Yield which arm is started next and its how many-th start that is: A B, B A, A B ..., so that drift is shared."""
    for load in range(count):
        yield from ((arm, load) for arm in (arms if load % 2 == 0 else reversed(arms)))


def alone(block: Measurement, *, arm: str, number: int) -> Measurement:
    """Return a block as one of an arm that lived alone: ``load`` tells the start, and no two arms share a round."""
    return block.model_copy(update={"arm": arm, "mode": Mode.ALTERNATING, "round": number})


async def _round(arms: Sequence[ProbeArm], number: int, options: argparse.Namespace) -> list[Measurement]:
    """Return the blocks of one round; every number asks the same prompts again."""
    config = ProbeConfig(
        arms=list(arms),
        model=options.model or str(options.target),
        prompts_path=str(options.prompts),
        concurrencies=options.concurrency,
        requests_per_slot=options.requests_per_slot,
        max_tokens=options.max_tokens,
        round=number,
        stall_timeout_s=60,
    )
    async with transport.HttpTransport(request_timeout_s=120) as http:
        driven = rounds.arms_of(config, http, clocks.SystemClock())
        report = await rounds.run(config, prompts.read(options.prompts), driven, listener=_Told())
    return report.measurements


def arm_of(server: serving.Server, *, seen: int = 0) -> ProbeArm:
    """Return a server as an arm with a name of its own: the start is part of it, and so is being driven again."""
    return ProbeArm(
        arm=server.label + "-again" * seen,
        url=server.url,
        pod_uid=f"{server.label}-{server.pid}",
        node="here",
        load=server.load,
    )


def write(path: Path, found: Sequence[Measurement], *, about: str) -> None:
    """Write a recording: its first arm is the candidate, its second the rival."""
    document: dict[str, Any] = {"about": about}
    names = list(dict.fromkeys(one.arm for one in found))
    if len(names) > 1:
        document |= {"candidate": names[0], "rival": names[1]}
    document["measurements"] = [one.model_dump(mode="json", exclude_defaults=True, by_alias=True) for one in found]
    text = json.dumps(document, indent=None, separators=(",", ":")).replace('{"arm"', '\n{"arm"')
    path.write_text(text + "\n", encoding="utf-8")


def main() -> int:
    """Record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for verb in (beside, starts):
        one = verbs.add_parser(verb.__name__)
        one.set_defaults(run=verb)
        one.add_argument("--work", type=Path, required=True)
        one.add_argument("--out", type=Path, required=True)
        one.add_argument("--prompts", type=Path, required=True)
        one.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32, 64])
        one.add_argument("--requests-per-slot", type=int, default=6)
        one.add_argument("--max-tokens", type=int, default=96)
        one.add_argument("--limit", type=float, default=float("inf"), help="seconds after which nothing is begun")
        one.add_argument("--about", default="", help="what this is, kept in the file")
        one.add_argument("--model", required=verb is beside, help="as the servers call it; a target's folder")
        if verb is beside:
            one.add_argument("--arms", type=int, nargs="+", required=True)
            one.add_argument("--rounds", type=int, default=6)
            one.add_argument("--first-round", type=int, default=0)
        else:
            serving.add_options(one)
            one.add_argument("--arms", nargs="+", default=[serving.CONTROL])
            one.add_argument("--starts", type=int, default=4)
            one.add_argument("--rounds", type=int, default=2, help="of each start, two blocks at every concurrency")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())
