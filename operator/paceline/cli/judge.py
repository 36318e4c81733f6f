"""``paceline judge FILE``: try a decision on recorded measurements."""

import argparse
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic

from paceline import judge
from paceline.api import names
from paceline.api.measurement import Measurement
from paceline.cli import exits, output

_TWO_ARMS = 2
_LONGEST_WEIGHT = 16
_LIMITS = ("max_ttft_ms", "max_itl_ms", "max_ttft_increase_percent", "max_itl_increase_percent")


class Recorded(pydantic.BaseModel):
    """A file of measurements: a rollout's record, a probe's report, or what ``paceline probe`` saved."""

    model_config = pydantic.ConfigDict(extra="ignore")

    measurements: list[Measurement]
    candidate: str = ""
    rival: str = ""
    control: str = ""


def register(commands: Any) -> None:
    """Add the command to the tree."""
    parser = commands.add_parser(
        "judge",
        help="judge recorded measurements",
        description="Compare two arms as a rollout does. Exit code 0 whatever the verdict; 2 without such data.",
    )
    parser.add_argument(
        "file", type=Path, help="JSON: a rollout's record.json, a probe's report, or a list of measurements"
    )
    parser.add_argument("--candidate", help="arm that is judged; by default what the file says, else its first block's")
    parser.add_argument("--rival", help="arm it is compared with; by default what the file says, else the other one")
    add_policy(parser)
    output.add_format(parser)
    parser.set_defaults(run=run)


def add_policy(parser: argparse.ArgumentParser) -> None:
    """Give a command the bar and the confidence."""
    parser.add_argument(
        "--bar", choices=("better", "no-worse"), default="better", help="what is asked of the candidate"
    )
    parser.add_argument("--min-gain-percent", type=float, default=3.0, help="for --bar better (default %(default)s)")
    parser.add_argument("--max-regression-percent", type=float, default=3.0, help="for --bar no-worse (%(default)s)")
    parser.add_argument("--confidence-percent", type=float, default=95.0, help="of all looks together (%(default)s)")
    parser.add_argument(
        "--weight",
        action="append",
        default=[],
        metavar="CONCURRENCY=W",
        help="traffic mix; without any all weigh the same",
    )
    parser.add_argument(
        "--band-floor-percent", type=float, default=80.0, help="what each band must keep; 0 asks nothing (%(default)s)"
    )
    for kind in ("ttft", "itl"):
        parser.add_argument(f"--max-{kind}-ms", type=float, help="limit at every concurrency")
        parser.add_argument(f"--max-{kind}-increase-percent", type=float, help="limit against the rival")
    parser.add_argument(
        "--node-spread-percent", type=float, default=0.0, help="between nodes, for arms on different ones (%(default)s)"
    )
    parser.add_argument(
        "--answer-tolerance-percent",
        type=float,
        help="how much less often the candidate may give the rival's greedy answers than the rival itself; not asked "
        "unless set",
    )
    parser.add_argument("--min-rounds", type=int, default=2, help="no verdict from fewer (%(default)s)")
    parser.add_argument("--max-rounds", type=int, default=10, help="rounds after these are ignored (%(default)s)")


def policy_of(options: argparse.Namespace) -> judge.Policy:
    """Return the policy that was typed."""
    if not 1 <= options.min_rounds <= options.max_rounds:
        raise exits.UsageError("--min-rounds must be at least 1 and not above --max-rounds")
    asked = [options.min_gain_percent, options.max_regression_percent, options.band_floor_percent]
    asked.append(options.node_spread_percent)
    asked += [limit for name in (*_LIMITS, "answer_tolerance_percent") if (limit := getattr(options, name)) is not None]
    if not all(math.isfinite(one) and one >= 0 for one in asked) or options.max_regression_percent >= 100:  # noqa: PLR2004
        raise exits.UsageError("a limit is a number of at least 0, and --max-regression-percent is below 100")
    if not 0 < options.confidence_percent < 100:  # noqa: PLR2004 - per cent
        raise exits.UsageError("--confidence-percent must be above 0 and below 100")
    return judge.Policy(
        kind=judge.Bar.BETTER if options.bar == "better" else judge.Bar.NO_WORSE,
        min_gain_percent=options.min_gain_percent,
        max_regression_percent=options.max_regression_percent,
        confidence_percent=options.confidence_percent,
        min_rounds=options.min_rounds,
        max_rounds=options.max_rounds,
        weights=_weights(options.weight),
        band_floor_percent=options.band_floor_percent or None,
        max_ttft_ms=options.max_ttft_ms,
        max_itl_ms=options.max_itl_ms,
        max_ttft_increase_percent=options.max_ttft_increase_percent,
        max_itl_increase_percent=options.max_itl_increase_percent,
        node_spread_percent=options.node_spread_percent,
        answer_tolerance_percent=options.answer_tolerance_percent,
    )


def _weights(said: Sequence[str]) -> tuple[tuple[int, int], ...]:
    weights: dict[int, int] = {}
    for one in said:
        concurrency, _, weight = one.partition("=")
        if not (concurrency.isdecimal() and weight.isdecimal() and len(one) <= _LONGEST_WEIGHT):
            raise exits.UsageError(f"--weight {one!r} is no CONCURRENCY=W of whole numbers, such as 8=3")
        weights[int(concurrency)] = int(weight)
    if weights and not any(weights.values()):
        raise exits.UsageError("--weight leaves nothing to judge; give at least one concurrency a weight above 0")
    return tuple(weights.items())


def run(options: argparse.Namespace) -> int:
    """Return the exit code."""
    recorded = read(options.file)
    candidate, rival = _arms(recorded, options)
    found = judged(recorded.measurements, candidate=candidate, rival=rival, policy=policy_of(options))
    output.answer(describe(found), lines(found), form=options.output)
    return exits.OK


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a rollout would say, and what it would say of each band if there were no other."""

    candidate: str
    rival: str
    whole: judge.Comparison
    bands: Mapping[tuple[int, str], judge.Comparison]


def judged(measurements: Sequence[Measurement], *, candidate: str, rival: str, policy: judge.Policy) -> Judged:
    """Return the verdict on all bands together, and on each alone."""
    bands = sorted({(one.concurrency, one.prompt_band) for one in measurements if one.arm in {candidate, rival}})
    return Judged(
        candidate=candidate,
        rival=rival,
        whole=judge.compare(measurements, candidate=candidate, rival=rival, policy=policy),
        bands={
            band: judge.compare(
                [one for one in measurements if (one.concurrency, one.prompt_band) == band],
                candidate=candidate,
                rival=rival,
                policy=policy,
            )
            for band in bands
        },
    )


def describe(found: Judged) -> dict[str, Any]:
    """Return a comparison as JSON."""
    keys = ("verdict", "reason", "ratio", "lower", "upper")
    bands = [
        {"concurrency": concurrency, "prompt_band": prompt_band, **{key: getattr(one, key) for key in keys}}
        for (concurrency, prompt_band), one in found.bands.items()
    ]
    return {"candidate": found.candidate, "rival": found.rival, **dataclasses.asdict(found.whole), "bands": bands}


def lines(found: Judged) -> list[str]:
    """Return a comparison as text."""
    singles = [(_band_name(band), one) for band, one in found.bands.items()]
    rows = [
        [name, output.number(one.ratio), output.number(one.lower), output.number(one.upper), str(one.verdict)]
        for name, one in (*singles, ("all", found.whole))
    ]
    whole = found.whole
    return [
        f"{whole.verdict}: {whole.reason} ({whole.message})",
        *output.table(["concurrency", "ratio", "lower", "upper", "verdict"], rows),
        f"{whole.samples} samples from {whole.rounds} rounds",
    ]


def _band_name(band: tuple[int, str]) -> str:
    concurrency, prompt_band = band
    return str(concurrency) if prompt_band == "all" else f"{concurrency}/{prompt_band}"


def read(path: Path) -> Recorded:
    """Return the measurements in a file.

    Raises:
        UsageError: when it holds none.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("["):
            adapter: pydantic.TypeAdapter[list[Measurement]] = pydantic.TypeAdapter(list[Measurement])
            return Recorded(measurements=adapter.validate_json(text))
        return Recorded.model_validate_json(text)
    except OSError as error:
        raise exits.UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except (pydantic.ValidationError, UnicodeDecodeError) as error:
        raise exits.UsageError(f"{str(path)!r} holds no measurements: {_first(error)}") from error


def _first(error: pydantic.ValidationError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    one = error.errors()[0]
    return f"{'.'.join(str(part) for part in one['loc']) or 'the document'}: {one['msg']}"


def _arms(recorded: Recorded, options: argparse.Namespace) -> tuple[str, str]:
    """Return candidate and rival: as typed, as the file says, or as there are only two."""
    seen = list(dict.fromkeys(one.arm for one in recorded.measurements))
    candidate = options.candidate or _as_arm(recorded.candidate, seen) or (seen[0] if seen else "")
    said = options.rival or _as_arm(recorded.rival or recorded.control, seen)
    others = [arm for arm in seen if arm != candidate]
    rival = said or (others[0] if len(seen) == _TWO_ARMS else "")
    if not candidate or not rival:
        raise exits.UsageError(
            f"which arms to compare is not clear; name them with --candidate and --rival ({_named(seen)})"
        )
    return candidate, rival


def _as_arm(said: str, seen: Sequence[str]) -> str:
    """Return an arm as measurements name it: records say the full digest of a revision, blocks its short hash."""
    return names.short(said) if said and said not in seen else said


def _named(seen: Sequence[str]) -> str:
    return f"the file has {', '.join(seen)}" if seen else "the file has no blocks"
