"""How many tokens to draft at which concurrency, from arms that were measured against true no speculation.

At each concurrency the number of tokens with the best lower bound is taken, and none where no lower bound is above 1.
An engine that drafts nothing at a concurrency still carries its draft along, and may run without full CUDA graphs;
that costs, and it is measured too: by an arm that drafts 0 tokens. So a schedule is worth something only as a whole,
its idle bands included, and the answer may be that no speculation at all is better.

A schedule is a proposal: the engine that runs it is another engine, and has to win as a candidate of its own.

All bounds hold together: the error is split evenly over arms and bands (Bonferroni).
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from paceline.api.measurement import Measurement
from paceline.judge.comparison import compare
from paceline.judge.policy import Policy
from paceline.judge.verdicts import Band


class Advice(StrEnum):
    """What to set."""

    TOKENS = "Tokens"  # one number of tokens at every concurrency
    SCHEDULE = "Schedule"
    NONE = "None"  # no speculation


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What was found best up to one concurrency, from the one below it on."""

    concurrency: int
    tokens: int
    ratio: float | None = None
    """Throughput over that without any speculation; None where an idle draft was not measured."""
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The answer."""

    advice: Advice
    message: str
    steps: tuple[Step, ...] = ()
    """What was found at each concurrency, whatever the advice."""
    ratio: float | None = None
    """Of the whole, over all concurrencies by their weights."""
    lower: float | None = None

    @property
    def num_speculative_tokens(self) -> int:
        """The most tokens of any step, for which the engine makes room; 0 without speculation."""
        return 0 if self.advice is Advice.NONE else max((step.tokens for step in self.steps), default=0)

    @property
    def ranges(self) -> list[list[int]]:
        """Return vLLM's ``num_speculative_tokens_per_batch_size``; empty for none.

        Entries are ``[first, last, tokens]``, both ends included, as vLLM 0.24 and newer read them. What lies between
        two measured concurrencies goes with the larger one, where drafting pays less. vLLM uses the last range for all
        larger batches.
        """
        if self.advice is not Advice.SCHEDULE:
            return []
        ranges: list[list[int]] = []
        for step in self.steps:
            if ranges and ranges[-1][2] == step.tokens:
                ranges[-1][1] = step.concurrency
            else:
                ranges.append([ranges[-1][1] + 1 if ranges else 1, step.concurrency, step.tokens])
        return ranges


def propose(
    measurements: Sequence[Measurement], *, control: str, tokens: Mapping[str, int], policy: Policy
) -> Schedule:
    """Return what to draft at which concurrency.

    Args:
        measurements: of all arms; those of bands of prompt length are taken together.
        control: the arm without speculation.
        tokens: how many tokens each arm drafts; 0 is an engine with speculation that drafts nothing.
        policy: confidence, rounds and weights.
    """
    plain = [one.model_copy(update={"prompt_band": "all"}) for one in measurements]
    bands = sorted({one.concurrency for one in plain if one.arm == control})
    found = _measured(plain, control=control, tokens=tokens, policy=policy, questions=len(tokens) * len(bands))
    if not bands or not found:
        return Schedule(advice=Advice.NONE, message=f"no arm was measured well enough against {control}")
    steps = tuple(_best(band, found, tokens) for band in bands)
    return _as_a_whole(steps, _constant(bands, found, tokens), policy)


def split(bands: Sequence[Band], *, tokens: int) -> tuple[Step, ...]:
    """Return where one number of tokens pays and where it costs, each beyond doubt; empty unless it does both.

    Neighbouring concurrencies with the same answer are one step; one that is in doubt goes with the next larger one.
    Bands of length at one concurrency are no schedule's matter, since an engine goes by the batch alone.
    """
    if len({band.concurrency for band in bands}) < len(bands):
        return ()
    steps: list[Step] = []
    for band in sorted(bands, key=lambda one: one.concurrency):
        if band.lower > 1.0 or band.upper < 1.0:
            step = _step(tokens if band.lower > 1.0 else 0, band)
            if steps and steps[-1].tokens == step.tokens:
                steps.pop()
            steps.append(step)
    return tuple(steps) if len({step.tokens for step in steps}) > 1 else ()


def _measured(
    measurements: Sequence[Measurement], *, control: str, tokens: Mapping[str, int], policy: Policy, questions: int
) -> dict[tuple[str, int], Band]:
    """Return the ratio of every arm to the control at every concurrency where there are bounds."""
    error_percent = (100.0 - policy.confidence_percent) / max(1, questions)
    asked = dataclasses.replace(policy, confidence_percent=100.0 - error_percent)
    return {
        (arm, band.concurrency): band
        for arm in tokens
        for band in compare(measurements, candidate=arm, rival=control, policy=asked).bands
    }


def _best(concurrency: int, found: Mapping[tuple[str, int], Band], tokens: Mapping[str, int]) -> Step:
    """Return the step with the best lower bound above 1, else the idle one."""
    drafting = [(arm, found[arm, concurrency]) for arm in tokens if tokens[arm] and (arm, concurrency) in found]
    arm, band = max(drafting, key=lambda one: one[1].lower, default=("", None))
    if band is not None and band.lower > 1.0:
        return _step(tokens[arm], band)
    idle = next((found[arm, concurrency] for arm in tokens if not tokens[arm] and (arm, concurrency) in found), None)
    return Step(concurrency=concurrency, tokens=0) if idle is None else _step(0, idle)


def _step(tokens: int, band: Band) -> Step:
    return Step(concurrency=band.concurrency, tokens=tokens, ratio=band.ratio, lower=band.lower, upper=band.upper)


def _constant(
    bands: Sequence[int], found: Mapping[tuple[str, int], Band], tokens: Mapping[str, int]
) -> list[tuple[Step, ...]]:
    """Return every drafting arm that was measured at all concurrencies, as steps."""
    return [
        tuple(_step(tokens[arm], found[arm, band]) for band in bands)
        for arm in tokens
        if tokens[arm] and all((arm, band) in found for band in bands)
    ]


def _as_a_whole(steps: tuple[Step, ...], constant: Sequence[tuple[Step, ...]], policy: Policy) -> Schedule:
    """Return the steps as advice if they win as a whole, else the best single number of tokens that does, else none."""
    if not any(step.tokens for step in steps):
        message = "drafting is shown to win at no concurrency"
        return Schedule(advice=Advice.NONE, message=message, steps=steps)
    unknown = [step.concurrency for step in steps if step.ratio is None]
    whole = None if unknown else _whole(steps, policy)
    if whole is not None and whole[1] > 1.0:
        advice = Advice.TOKENS if len({step.tokens for step in steps}) == 1 else Advice.SCHEDULE
        message = f"{whole[0]:.3f} times the throughput without speculation, at least {whole[1]:.3f}"
        return Schedule(advice=advice, message=message, steps=steps, ratio=whole[0], lower=whole[1])
    why = (
        f"what an idle draft costs at concurrency {', '.join(map(str, unknown))} was not measured; measure an arm of "
        "0 tokens"
        if unknown
        else "the schedule does not win as a whole"
    )
    best = max(constant, key=lambda one: _whole(one, policy)[1], default=None)
    if best is not None and _whole(best, policy)[1] > 1.0:
        ratio, lower = _whole(best, policy)
        message = f"{ratio:.3f} times the throughput without speculation, at least {lower:.3f}; {why}"
        return Schedule(advice=Advice.TOKENS, message=message, steps=best, ratio=ratio, lower=lower)
    return Schedule(advice=Advice.NONE, message=f"speculation is not shown to win: {why}", steps=steps)


def _whole(steps: Sequence[Step], policy: Policy) -> tuple[float, float]:
    """Return the ratio of the whole and its lower bound; bounds that all hold together may be averaged."""
    shares = policy.shares([(step.concurrency, "all") for step in steps])
    known = [(shares.get((step.concurrency, "all"), 0.0), step) for step in steps]
    ratio = math.fsum(share * math.log(step.ratio or 1.0) for share, step in known)
    lower = math.fsum(share * math.log(step.lower or 1.0) for share, step in known)
    return math.exp(ratio), math.exp(lower)
