"""What is counted of a block: neither ramp nor tail."""

import pytest

from paceline.probe import window
from paceline.probe.exchange import Trace


def steady(started_s: float, *, prefill_s: float = 0.5, tokens: int = 10, step_s: float = 0.1) -> Trace:
    """Return a request that decodes evenly."""
    first_s = started_s + prefill_s
    marks = tuple((first_s + index * step_s, index + 1) for index in range(tokens))
    return Trace(prompt=0, started_s=started_s, ended_s=marks[-1][0], marks=marks)


def chain(count: int, *, offset_s: float = 0.0, **shape: float) -> list[Trace]:
    """Return requests of one slot, back to back."""
    traces: list[Trace] = []
    start_s = offset_s
    for _ in range(count):
        traces.append(steady(start_s, **shape))  # type: ignore[arg-type]
        start_s = traces[-1].ended_s
    return traces


def test_one_slot_counts_from_its_first_token_to_its_end() -> None:
    """Three answers of ten tokens, the very first token left out."""
    found = window.measure(chain(3), concurrency=1, drained_s=4.2)
    assert (found.tokens, found.finished) == (29, 3)
    assert found.seconds == pytest.approx(4.2 - 0.5)
    assert found.itl_ms == pytest.approx(100)
    assert found.ttft_ms == pytest.approx(500)


def test_window_opens_when_the_last_slot_has_its_first_token() -> None:
    """A slot that waits two seconds for its prefill keeps the window shut."""
    early, late = chain(4), chain(4, offset_s=2.0)
    traces = sorted(early + late, key=lambda one: one.started_s)
    traces = [early[0], late[0], *[one for one in traces if one not in (early[0], late[0])]]
    found = window.measure(traces, concurrency=2, drained_s=5.6)
    assert found.seconds == pytest.approx(5.6 - 2.5)


def test_tail_is_not_counted() -> None:
    """What comes after a slot ran dry was made by a smaller batch."""
    long = steady(0.0, tokens=100)
    found = window.measure([steady(0.0), long, steady(1.4)], concurrency=2, drained_s=2.8)
    assert found.tokens <= 9 + 24 + 10
    assert found.seconds == pytest.approx(2.3)


def test_even_chunks_of_several_tokens_give_the_same_rate() -> None:
    """A speculating server's tokens come in lumps; the rate is theirs all the same."""
    lumps = [
        Trace(
            prompt=0,
            started_s=start,
            ended_s=start + 4.0,
            marks=tuple((start + 1.0 + index, 4 * (index + 1)) for index in range(4)),
        )
        for start in (0.0, 4.0, 8.0)
    ]
    found = window.measure(lumps, concurrency=1, drained_s=12.0)
    assert found.tokens / found.seconds == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize(
    ("traces", "drained_s"),
    [
        ([], 1.0),
        ([Trace(prompt=0, started_s=0, ended_s=1.0)], 1.0),
        ([steady(0.0)], 0.2),
    ],
    ids=["no request", "no token", "drained before the first token"],
)
def test_block_without_a_steady_part_is_not_steady(traces: list[Trace], drained_s: float) -> None:
    """No tokens are no throughput, not zero throughput."""
    found = window.measure(traces, concurrency=1, drained_s=drained_s)
    assert not found.is_steady(1)


def test_tails_are_the_longest_of_few_and_near_it_of_many() -> None:
    """Nearest rank: a value that was seen, never one in between."""
    assert window.percentile([], 0.99) is None
    assert window.percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert window.percentile([float(value) for value in range(1, 201)], 0.99) == 198.0


def test_a_pause_inside_a_stream_shows_in_the_tail_and_hardly_in_the_mean() -> None:
    """What a reader feels."""
    marks = tuple((1.0 + 0.1 * index + (2.0 if index > 50 else 0.0), index + 1) for index in range(100))
    found = window.measure(
        [Trace(prompt=0, started_s=0.0, ended_s=marks[-1][0], marks=marks)], concurrency=1, drained_s=marks[-1][0]
    )
    assert found.itl_p99_ms == pytest.approx(2100)
    assert found.itl_ms == pytest.approx(120, abs=1)


def test_too_few_requests_for_the_slots_are_not_steady() -> None:
    """Of 8 slots at least 4 must turn over inside the window."""
    found = window.Window(seconds=3.0, tokens=100, finished=3, ttft_ms=None, itl_ms=None)
    assert not found.is_steady(8)
    assert found.is_steady(6)
