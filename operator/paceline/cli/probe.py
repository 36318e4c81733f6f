"""``paceline probe --url A --url B``: measure servers from here, and judge them."""

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic

from paceline import judge
from paceline.api.measurement import BUNDLED_PROMPTS, Measurement, ProbeArm, ProbeConfig
from paceline.cli import exits, output
from paceline.cli import judge as judge_command
from paceline.podside import clock as clocks
from paceline.probe import corpus, prompts, transport
from paceline.probe import round as rounds

_ARMS = ("candidate", "control", "stable")


class _Models(pydantic.BaseModel):
    """``GET /v1/models``."""

    class Model(pydantic.BaseModel):
        """One served model."""

        id: str

    data: list[Model]


def register(commands: Any) -> None:
    """Add the command to the tree."""
    parser = commands.add_parser(
        "probe",
        help="measure one to three servers against each other",
        description=(
            "Drive OpenAI-compatible servers in blocks A B B A and judge the first against the second. Stops at the "
            "first verdict, or after --max-rounds. Exit code 1 when a server does not answer."
        ),
    )
    parser.add_argument(
        "--url", action="append", required=True, help="base URL of a server; candidate first, then control, then stable"
    )
    parser.add_argument("--prompts", help='JSON lines, {"prompt": "..."} each; by default a bundled mix of lengths')
    parser.add_argument("--model", help="served name; by default the first one that the first server lists")
    parser.add_argument(
        "--concurrency", default="1,8", help="bands, separated by commas, or none (default %(default)s)"
    )
    parser.add_argument(
        "--prompt-bounds", default="", help="lengths in characters that divide prompts into bands, separated by commas"
    )
    parser.add_argument(
        "--rate", default="", help="open loops to drive as well: requests started a minute, separated by commas"
    )
    parser.add_argument("--rate-requests", type=int, default=60, help="requests of an open loop's block (%(default)s)")
    parser.add_argument("--max-tokens", type=int, default=256, help="length of an answer (%(default)s)")
    parser.add_argument("--requests-per-slot", type=int, default=6, help="requests of a slot in a block (%(default)s)")
    parser.add_argument("--max-prompts", type=int, help="take at most so many")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for one request (%(default)s)")
    parser.add_argument("--save", type=Path, help="keep the measurements in this file, for paceline judge")
    judge_command.add_policy(parser)
    output.add_format(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Return the exit code."""
    policy = judge_command.policy_of(options)
    if options.concurrency in {"", "none"} and options.rate in {"", "none"}:
        raise exits.UsageError("nothing is asked for; name --concurrency, --rate, or both")
    if len(options.url) > len(_ARMS):
        raise exits.UsageError(f"{len(options.url)} servers were named; at most {len(_ARMS)} are measured together")
    try:
        texts = corpus.load(options.prompts or BUNDLED_PROMPTS, max_prompts=options.max_prompts)
    except prompts.PromptsError as error:
        raise exits.UsageError(str(error)) from error
    measurements: list[Measurement] = []
    try:
        asyncio.run(_measure(options, texts, policy, into=measurements))
    except KeyboardInterrupt:
        output.Talk().say("stopped; this is what the finished rounds say")
    except prompts.PromptsError as error:
        raise exits.UsageError(str(error)) from error
    except (rounds.NotAnsweringError, transport.TransportError) as error:
        raise exits.FailedError(str(error)) from error
    document: dict[str, Any] = {"measurements": [one.wire() for one in measurements], "comparison": None}
    lines = _measured_lines(measurements)
    if len(options.url) > 1 and options.concurrency not in {"", "none"}:
        found = judge_command.judged(measurements, candidate=_ARMS[0], rival=_ARMS[1], policy=policy)
        document |= {"candidate": _ARMS[0], "rival": _ARMS[1]}
        document["comparison"] = judge_command.describe(found)
        lines += ["", *judge_command.lines(found)]
    if options.save:
        options.save.write_text(json.dumps(document, indent=2), encoding="utf-8")
    output.answer(document, lines, form=options.output)
    return exits.OK


class _Told:
    """Tells a person how a round goes on."""

    def __init__(self, talk: output.Talk) -> None:
        self._talk = talk

    def at(self, share: float, message: str) -> None:
        """Hear how far the round is."""
        self._talk.at(share, message)

    def paused(self, arm: str, *, is_on: bool) -> None:
        """Hear that an arm is left to its users; the command line drives none that has any."""

    def measured(self, measurement: Measurement, message: str) -> None:
        """Hear a block."""
        pace = measurement.tokens_per_second
        said = f"{pace:.1f} tok/s" if pace is not None else f"{measurement.outcome}: {message}"
        self._talk.say(f"round {measurement.round}  {_load(measurement)}  {measurement.arm}: {said}")


async def _measure(
    options: argparse.Namespace, texts: Sequence[prompts.Prompt], policy: judge.Policy, *, into: list[Measurement]
) -> None:
    """Measure as many rounds as it takes ``into`` a list, which holds the finished ones whenever this is stopped."""
    told = _Told(output.Talk())
    async with transport.HttpTransport(request_timeout_s=options.timeout) as http:
        model = options.model or await _first_model(http, options.url[0])
        for number in range(policy.max_rounds):
            config = _config(options, model=model, number=number)
            report = await rounds.run(config, texts, rounds.arms_of(config, http, clocks.SystemClock()), listener=told)
            into += report.measurements
            if _is_decided(into, policy, arms=len(options.url)):
                break


def _is_decided(measurements: Sequence[Measurement], policy: judge.Policy, *, arms: int) -> bool:
    """Return whether more rounds could change nothing; what brings no verdict is measured for the fewest rounds."""
    if arms == 1 or all(one.rate_per_minute for one in measurements):
        return len({one.round for one in measurements}) >= policy.min_rounds
    found = judge.compare(measurements, candidate=_ARMS[0], rival=_ARMS[1], policy=policy)
    return found.verdict is not judge.Verdict.INCONCLUSIVE


def _config(options: argparse.Namespace, *, model: str, number: int) -> ProbeConfig:
    try:
        return ProbeConfig(
            arms=[
                ProbeArm(arm=arm, url=url, pod_uid=url, node="local")
                for arm, url in zip(_ARMS, options.url, strict=False)
            ],
            model=model,
            prompts_path=options.prompts or BUNDLED_PROMPTS,
            prompt_bounds=_numbers(options.prompt_bounds),
            concurrencies=_numbers(options.concurrency),
            rates_per_minute=_numbers(options.rate),
            open_loop_requests=options.rate_requests,
            requests_per_slot=options.requests_per_slot,
            max_tokens=options.max_tokens,
            round=number,
            request_timeout_s=options.timeout,
        )
    except ValueError as error:
        raise exits.UsageError(f"the measurement as asked for is not possible: {error}") from error


def _numbers(typed: str) -> list[int]:
    """Return what was typed with commas between; ``none`` and nothing are no numbers.

    Raises:
        ValueError: when one of them is no number above 0.
    """
    if typed in {"", "none"}:
        return []
    found = [int(one) for one in typed.split(",")]
    if min(found) < 1:
        raise ValueError(f"{typed!r} holds a number below 1")
    return found


async def _first_model(http: transport.Transport, url: str) -> str:
    text = await http.fetch(url.rstrip("/") + "/v1/models")
    try:
        return _Models.model_validate_json(text).data[0].id
    except (pydantic.ValidationError, IndexError) as error:
        raise exits.FailedError(f"{url} lists no model; name it with --model") from error


def _measured_lines(measurements: Sequence[Measurement]) -> list[str]:
    rows = [
        [
            one.arm,
            str(one.round),
            _load(one),
            output.number(one.tokens_per_second, ".1f"),
            output.number(one.ttft_ms, ".0f"),
            output.number(one.ttft_p99_ms, ".0f"),
            output.number(one.itl_ms, ".1f"),
            output.number(one.itl_p99_ms, ".1f"),
            output.number(one.cache_hit_rate, ".0%"),
            output.number(one.acceptance_length, ".2f"),
            one.outcome.value,
        ]
        for one in measurements
    ]
    header = ["arm", "round", "load", "tok/s", "TTFT ms", "p99", "ITL ms", "p99", "cached", "accepted", "outcome"]
    return output.table(header, rows)


def _load(one: Measurement) -> str:
    """Return what a block was driven with: a concurrency or a rate, and the band of lengths if there are several."""
    load = f"{one.rate_per_minute}/min" if one.rate_per_minute else f"c={one.concurrency}"
    return load if one.prompt_band == prompts.ALL else f"{load} {one.prompt_band}"
