"""Counter differences: never negative, never across two processes."""

import dataclasses
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engines import counters, metrics

FOLDER = Path(__file__).parent / "metrics"


def readings(series: str) -> list[metrics.Reading]:
    """Return a recorded series of scrapes."""
    outcomes = [metrics.read(path.read_text()) for path in sorted(FOLDER.glob(f"{series}-t*.txt"))]
    return [one for one in outcomes if isinstance(one, metrics.Reading)]


def reading(tokens: int | None, *, start_s: float | None = None) -> metrics.Reading:
    """Return a reading with a token counter."""
    return metrics.Reading(engine="vllm", model="m", generation_tokens=tokens, process_start_s=start_s)


def test_restart_is_rebased_and_counted() -> None:
    """The first value of the new process is what it counted since its start."""
    found = counters.increase(readings("series-reset"))
    assert (found.generation_tokens, found.resets) == (12000 + 900 + 12300, 1)
    assert found.drafts == 3600 + 250 + 3650


def test_warm_up_series_gives_its_rates() -> None:
    """Ten seconds apart: the slow start is visible, and left to the caller to drop."""
    series = readings("series-warmup")
    rates = [(counters.increase(pair).generation_tokens or 0) / 10 for pair in pairwise(series)]
    assert rates == pytest.approx([8.6, 17, 85.5, 76.5, 480, 480], abs=0.06)


def test_moved_start_time_is_a_reset_though_the_counter_grew() -> None:
    """A busy new process may have passed the old one's count."""
    found = counters.increase([reading(100, start_s=1000.0), reading(150, start_s=2000.0)])
    assert (found.generation_tokens, found.resets) == (150, 1)


def test_start_time_within_a_tick_is_no_reset() -> None:
    """It is computed from the boot time."""
    found = counters.increase([reading(100, start_s=1000.0), reading(150, start_s=1000.01)])
    assert (found.generation_tokens, found.resets) == (50, 0)


@pytest.mark.parametrize("values", [[100, None, 200], [None, 200], [100]], ids=str)
def test_missing_counter_has_no_growth(values: list[int | None]) -> None:
    """What was not seen did not grow by zero."""
    assert counters.increase([reading(value) for value in values]).generation_tokens is None


def test_fields_of_increase_are_fields_of_a_reading() -> None:
    """Names are looked up by text, so they must stay in step."""
    wanted = {field.name for field in dataclasses.fields(counters.Increase)} - {"resets"}
    assert wanted <= set(dir(metrics.Reading))
    assert wanted == {name for name, value in _some_increase().items() if value is not None}


def _some_increase() -> dict[str, int | None]:
    speculation = metrics.Speculation(drafts=1, draft_tokens=1, accepted_tokens=1)
    one = metrics.Reading(
        engine="vllm",
        model="m",
        generation_tokens=1,
        prompt_tokens=1,
        requests_finished=1,
        prefix_cache_queries=1,
        prefix_cache_hits=1,
        speculation=speculation,
    )
    return {key: value for key, value in dataclasses.asdict(counters.increase([one, one])).items() if key != "resets"}


@given(st.lists(st.integers(min_value=0, max_value=10**12), min_size=2, max_size=20))
def test_growth_is_never_negative(values: list[int]) -> None:
    """Whatever the counter does."""
    found = counters.increase([reading(value) for value in values])
    assert found.generation_tokens is not None
    assert found.generation_tokens >= 0
    assert found.resets == sum(after < before for before, after in pairwise(values))
