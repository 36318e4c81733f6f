"""The account of a whole run, by the definitions of ``vllm bench serve``."""

import pytest

from paceline.probe import wholerun
from paceline.probe.exchange import Fault, FaultKind, Trace


def answered(started_s: float, *times_s: float, step: int = 1, prompt_tokens: int | None = 5) -> Trace:
    """Return a request whose chunks of ``step`` tokens came at these times."""
    marks = tuple((at_s, step * (number + 1)) for number, at_s in enumerate(times_s))
    return Trace(prompt=0, started_s=started_s, ended_s=times_s[-1], marks=marks, prompt_tokens=prompt_tokens)


STALLED = Trace(
    prompt=1, started_s=0.0, ended_s=9.0, marks=((1.0, 1),), fault=Fault(kind=FaultKind.STALLED, message="silent")
)


def test_run_counts_from_the_first_start_to_the_last_end() -> None:
    """Ramp and tail included, as other tools count."""
    found = wholerun.measure([answered(0.0, 1.0, 2.0, 4.0), answered(1.0, 2.0, 3.0, 5.0)])
    assert (found.seconds, found.tokens, found.tokens_per_second) == (5.0, 6, pytest.approx(1.2))
    assert (found.requests, found.errors, found.prompt_tokens) == (2, 0, 10)
    assert (found.ttft_median_ms, found.ttft_p99_ms) == (1000.0, 1000.0)
    assert found.tpot_mean_ms == pytest.approx(1500)
    assert found.silence_p99_ms == pytest.approx(2000)
    assert found.busy_s == pytest.approx(8.0)


def test_time_per_token_counts_tokens_and_silences_count_chunks() -> None:
    """A speculating server sends several tokens in one chunk."""
    found = wholerun.measure([answered(0.0, 1.0, 2.0, 3.0, step=3)])
    assert found.tpot_mean_ms == pytest.approx(2000 / 8)
    assert found.silence_p99_ms == pytest.approx(1000)


def test_unanswered_requests_count_as_errors_and_bring_no_tokens() -> None:
    """A stall is an error of its own kind."""
    found = wholerun.measure([answered(0.0, 1.0, 2.0), STALLED])
    assert (found.requests, found.errors, found.stalls, found.tokens) == (1, 1, 1, 2)


def test_prompt_tokens_are_known_of_all_or_of_none() -> None:
    """Half a sum would look like short prompts."""
    assert wholerun.measure([answered(0.0, 1.0), answered(0.0, 1.0, prompt_tokens=None)]).prompt_tokens is None


def test_no_requests_are_no_figures() -> None:
    """Not zeros."""
    found = wholerun.measure([])
    assert (found.tokens_per_second, found.ttft_median_ms, found.tpot_mean_ms, found.silence_p99_ms) == (None,) * 4
