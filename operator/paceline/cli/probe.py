"""``paceline probe --url A --url B``: measure servers from here, and judge them."""

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic

from paceline import judge
from paceline.api.measurement import Measurement, ProbeArm, ProbeConfig
from paceline.cli import exits, output
from paceline.cli import judge as judge_command
from paceline.podside import clock as clocks
from paceline.probe import prompts, transport
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
    parser.add_argument("--prompts", type=Path, required=True, help='JSON lines, {"prompt": "..."} each')
    parser.add_argument("--model", help="served name; by default the first one that the first server lists")
    parser.add_argument("--concurrency", default="1,8", help="bands, separated by commas (default %(default)s)")
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
    if len(options.url) > len(_ARMS):
        raise exits.UsageError(f"{len(options.url)} servers were named; at most {len(_ARMS)} are measured together")
    try:
        texts = prompts.read(options.prompts, max_prompts=options.max_prompts)
    except prompts.PromptsError as error:
        raise exits.UsageError(str(error)) from error
    measurements: list[Measurement] = []
    try:
        asyncio.run(_measure(options, texts, policy, into=measurements))
    except KeyboardInterrupt:
        output.Talk().say("stopped; this is what the finished rounds say")
    except (rounds.NotAnsweringError, transport.TransportError) as error:
        raise exits.FailedError(str(error)) from error
    document: dict[str, Any] = {"measurements": [one.wire() for one in measurements], "comparison": None}
    lines = _measured_lines(measurements)
    if len(options.url) > 1:
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

    def measured(self, measurement: Measurement, message: str) -> None:
        """Hear a block."""
        pace = measurement.tokens_per_second
        said = f"{pace:.1f} tok/s" if pace is not None else f"{measurement.outcome}: {message}"
        self._talk.say(f"round {measurement.round}  c={measurement.concurrency}  {measurement.arm}: {said}")


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
    """Return whether more rounds could change nothing; a single server is profiled for the fewest rounds."""
    if arms == 1:
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
            prompts_path=str(options.prompts),
            concurrencies=[int(one) for one in options.concurrency.split(",")],
            requests_per_slot=options.requests_per_slot,
            max_tokens=options.max_tokens,
            round=number,
            request_timeout_s=options.timeout,
        )
    except ValueError as error:
        raise exits.UsageError(f"the measurement as asked for is not possible: {error}") from error


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
            str(one.concurrency),
            output.number(one.tokens_per_second, ".1f"),
            output.number(one.ttft_ms, ".0f"),
            output.number(one.itl_ms, ".1f"),
            output.number(one.acceptance_length, ".2f"),
            one.outcome.value,
        ]
        for one in measurements
    ]
    return output.table(["arm", "round", "c", "tok/s", "TTFT ms", "ITL ms", "accepted", "outcome"], rows)
