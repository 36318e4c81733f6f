"""``paceline schedule FILE``: how many tokens to draft at which concurrency, from recorded measurements."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from paceline.cli import exits, output
from paceline.cli import judge as judge_command
from paceline.judge import schedule

_MOST_TOKENS = 32


def register(commands: Any) -> None:
    """Add the command to the tree."""
    parser = commands.add_parser(
        "schedule",
        help="propose how many tokens to draft at which concurrency",
        description="Compare arms of several numbers of speculative tokens with no speculation, concurrency by "
        "concurrency. Exit code 0 whatever the advice; 2 without such data.",
    )
    parser.add_argument("file", type=Path, help="JSON, as of paceline judge")
    parser.add_argument("--control", required=True, help="the arm without speculation")
    parser.add_argument(
        "--tokens",
        action="append",
        required=True,
        metavar="ARM=K",
        help="how many tokens an arm drafts; repeat for each. K=0 is an engine with speculation that drafts nothing",
    )
    judge_command.add_policy(parser)
    output.add_format(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Return the exit code."""
    recorded = judge_command.read(options.file)
    seen = {one.arm for one in recorded.measurements}
    tokens = dict(_arm(said) for said in options.tokens)
    missing = sorted({options.control, *tokens} - seen)
    if missing:
        raise exits.UsageError(f"the file has no arm {', '.join(missing)}; it has {', '.join(sorted(seen)) or 'none'}")
    found = schedule.propose(
        recorded.measurements, control=options.control, tokens=tokens, policy=judge_command.policy_of(options)
    )
    output.answer(describe(found), lines(found), form=options.output)
    return exits.OK


def describe(found: schedule.Schedule) -> dict[str, Any]:
    """Return a proposal as JSON, with vLLM's own keys; a schedule that is not needed is null."""
    return {
        "advice": found.advice.value,
        "message": found.message,
        "num_speculative_tokens": found.num_speculative_tokens,
        "num_speculative_tokens_per_batch_size": found.ranges or None,
        "ratio": found.ratio,
        "lower": found.lower,
        "bands": [dataclasses.asdict(step) for step in found.steps],
    }


def lines(found: schedule.Schedule) -> list[str]:
    """Return a proposal as text."""
    rows = [
        [str(step.concurrency), str(step.tokens), *(output.number(one) for one in (step.ratio, step.lower, step.upper))]
        for step in found.steps
    ]
    said = [
        f"{found.advice}: {found.message}",
        *output.table(["concurrency", "tokens", "ratio", "lower", "upper"], rows),
    ]
    return [*said, f"num_speculative_tokens_per_batch_size: {found.ranges}"] if found.ranges else said


def _arm(said: str) -> tuple[str, int]:
    arm, separator, count = said.rpartition("=")
    if not separator or not arm or not count.isdecimal() or int(count) > _MOST_TOKENS:
        raise exits.UsageError(f"--tokens {said!r} is no ARM=K with K from 0 to {_MOST_TOKENS}, such as k3=3")
    return arm, int(count)
