"""How many tokens to draft at which concurrency."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge import builders
from paceline import judge
from paceline.api.measurement import Measurement
from paceline.judge import schedule

POLICY = judge.Policy(kind=judge.Bar.BETTER, min_rounds=2, max_rounds=6)
BANDS = (1, 8, 32, 64)


def measured(arms: dict[str, dict[int, float]], *, count: int = 4, noise: float = 0.01) -> list[Measurement]:
    """Return rounds of each arm beside a control of its own round numbers, at ratios given by concurrency."""
    source = builders.seeded(1)
    found: list[Measurement] = []
    for at, (arm, ratios) in enumerate(arms.items()):
        for concurrency, ratio in ratios.items():
            blocks = builders.noisy_rounds(source, count=count, ratio=ratio, noise=noise, concurrencies=(concurrency,))
            names = {"A": arm, "B": "none"}
            found += [
                one.model_copy(update={"arm": names[one.arm], "round": one.round, "position": one.position + 4 * at})
                for one in blocks
            ]
    return found


def propose(arms: dict[str, dict[int, float]], tokens: dict[str, int], **more: object) -> schedule.Schedule:
    """Return the proposal for arms that were each measured beside the control."""
    blocks = []
    for at, arm in enumerate(arms):
        # Arms that were measured in rounds of their own: the control has blocks in all of them.
        blocks += [one.model_copy(update={"round": one.round + 10 * at}) for one in measured({arm: arms[arm]}, **more)]
    policy = judge.Policy(kind=judge.Bar.BETTER, min_rounds=2, max_rounds=50)
    return schedule.propose(blocks, control="none", tokens=tokens, policy=policy)


def test_one_number_that_wins_everywhere_needs_no_schedule() -> None:
    """A schedule costs full CUDA graphs; it is not proposed without need."""
    found = propose({"k3": dict.fromkeys(BANDS, 1.4)}, {"k3": 3})
    assert (found.advice, found.num_speculative_tokens, found.ranges) == (schedule.Advice.TOKENS, 3, [])


def test_each_concurrency_gets_what_is_best_there() -> None:
    """In vLLM's own form; what lies between two concurrencies goes with the larger one."""
    arms = {
        "k5": {1: 1.9, 8: 1.2, 32: 0.8, 64: 0.6},
        "k3": {1: 1.7, 8: 1.4, 32: 1.0, 64: 0.7},
        "idle": dict.fromkeys(BANDS, 0.97),
    }
    found = propose(arms, {"k5": 5, "k3": 3, "idle": 0})
    assert found.advice is schedule.Advice.SCHEDULE
    assert found.ranges == [[1, 1, 5], [2, 8, 3], [9, 64, 0]]
    assert found.num_speculative_tokens == 5


def test_idle_draft_that_costs_too_much_means_no_speculation() -> None:
    """Nothing is drafted at most concurrencies, and that alone loses more than the rest gains."""
    arms = {"k3": {1: 1.1, 8: 0.8, 32: 0.6, 64: 0.5}, "idle": dict.fromkeys(BANDS, 0.85)}
    found = propose(arms, {"k3": 3, "idle": 0})
    assert (found.advice, found.num_speculative_tokens, found.ranges) == (schedule.Advice.NONE, 0, [])


def test_idle_draft_that_was_not_measured_is_asked_for() -> None:
    """Zero inside a speculating engine is not no speculation."""
    found = propose({"k3": {1: 1.3, 8: 0.7, 32: 0.6, 64: 0.5}}, {"k3": 3})
    assert found.advice is schedule.Advice.NONE
    assert "measure an arm of 0 tokens" in found.message


def test_constant_number_is_kept_while_the_idle_draft_is_unknown() -> None:
    """It loses a little at one concurrency and wins as a whole."""
    found = propose({"k3": {1: 1.9, 8: 1.6, 32: 1.2, 64: 0.9}}, {"k3": 3})
    assert (found.advice, found.num_speculative_tokens) == (schedule.Advice.TOKENS, 3)
    assert "not measured" in found.message


def test_noise_is_no_reason_to_speculate() -> None:
    """A lower bound above 1 is asked for, not an estimate."""
    found = propose({"k3": dict.fromkeys(BANDS, 1.02)}, {"k3": 3}, count=2, noise=0.2)
    assert found.advice is schedule.Advice.NONE


@pytest.mark.parametrize("blocks", [[], builders.rounds((1.3, 1.3))], ids=["nothing", "other arms"])
def test_nothing_measured_proposes_nothing(blocks: list[Measurement]) -> None:
    """No data never speculates."""
    found = schedule.propose(blocks, control="none", tokens={"k3": 3}, policy=POLICY)
    assert found.advice is schedule.Advice.NONE


def band(concurrency: int, lower: float, upper: float) -> judge.Band:
    """Return a band with bounds."""
    return judge.Band(concurrency=concurrency, ratio=(lower * upper) ** 0.5, lower=lower, upper=upper)


@pytest.mark.parametrize(
    ("bounds", "steps"),
    [
        ({1: (1.2, 1.4), 8: (1.1, 1.2), 64: (0.6, 0.8)}, [(8, 3), (64, 0)]),
        ({1: (1.2, 1.4), 8: (0.9, 1.2), 64: (0.6, 0.8)}, [(1, 3), (64, 0)]),
        ({1: (1.2, 1.4), 8: (0.9, 1.2)}, []),
        ({1: (0.5, 0.7), 8: (0.6, 0.8)}, []),
    ],
    ids=["both", "doubt goes with the larger", "doubt is no cost", "no gain anywhere"],
)
def test_one_number_tells_where_it_pays(bounds: dict[int, tuple[float, float]], steps: list[tuple[int, int]]) -> None:
    """And where it costs; only if it does both there is something to propose."""
    found = schedule.split([band(concurrency, *both) for concurrency, both in bounds.items()], tokens=3)
    assert [(step.concurrency, step.tokens) for step in found] == steps


@given(
    st.lists(st.tuples(st.integers(1, 200), st.integers(0, 8)), min_size=1, max_size=8, unique_by=lambda one: one[0])
)
def test_ranges_are_what_vllm_accepts(steps: list[tuple[int, int]]) -> None:
    """From 1, without gap or overlap, each batch size with the tokens of the next concurrency that was measured."""
    found = schedule.Schedule(
        advice=schedule.Advice.SCHEDULE,
        message="",
        steps=tuple(schedule.Step(concurrency=one, tokens=tokens) for one, tokens in sorted(steps)),
    )
    dense = {size: tokens for first, last, tokens in found.ranges for size in range(first, last + 1)}
    assert sorted(dense) == list(range(1, max(one for one, _ in steps) + 1))
    assert all(dense[size] == next(k for c, k in sorted(steps) if c >= size) for size in dense)
    assert all(before[2] != after[2] for before, after in zip(found.ranges, found.ranges[1:], strict=False))


def test_lengths_of_prompts_make_no_schedule() -> None:
    """An engine goes by the batch alone: what pays for short prompts and costs for long ones has no answer there."""
    bands = [
        judge.Band(concurrency=8, prompt_band=name, ratio=ratio, lower=ratio - 0.01, upper=ratio + 0.01)
        for name, ratio in (("0-2000", 1.4), ("2001-", 0.7))
    ]
    assert schedule.split(bands, tokens=3) == ()
