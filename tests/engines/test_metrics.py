"""The metrics reader, on texts of real engines; expected readings are in ``metrics/README.md``."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engines import metrics

FOLDER = Path(__file__).parent / "metrics"
EAGLE3 = metrics.Speculation(
    drafts=12000, draft_tokens=36000, accepted_tokens=19200, accepted_per_position=(9000, 6200, 4000)
)


def text(name: str) -> str:
    """Return a recorded scrape."""
    return (FOLDER / name).read_text()


def reading(name: str, model: str | None = None) -> metrics.Reading:
    """Return the reading of a recorded scrape that must have one."""
    outcome = metrics.read(text(name), model)
    assert isinstance(outcome, metrics.Reading), outcome
    return outcome


def reason(body: str, model: str | None = None) -> metrics.UnreadableReason:
    """Return why a body must not be read."""
    outcome = metrics.read(body, model)
    assert isinstance(outcome, metrics.Unreadable), outcome
    assert outcome.message
    return outcome.reason


@pytest.mark.parametrize("name", ["vllm-0.9-eagle3.txt", "vllm-0.16-eagle3.txt"])
def test_vllm_versions_give_the_same_reading(name: str) -> None:
    """Renamed series are the same quantities."""
    read = reading(name)
    assert (read.engine, read.model, read.generation_tokens) == ("vllm", "kimi-k2.5", 40000)
    assert read.speculation == EAGLE3
    assert read.speculation.acceptance_length == pytest.approx(2.60)
    assert read.speculation.acceptance_rate == pytest.approx(0.5333, abs=1e-4)
    assert (read.kv_cache_usage, read.prefix_cache_queries, read.prefix_cache_hits) == (0.21, 402000, 160000)
    assert (read.itl, read.ttft) == (metrics.Spent(seconds=760.0, count=40000), metrics.Spent(seconds=14.2, count=120))
    assert (read.requests_running, read.requests_waiting, read.requests_finished) == (4.0, 0.0, 120)


@pytest.mark.parametrize("name", ["vllm-0.9-baseline.txt", "vllm-0.16-baseline.txt"])
def test_no_speculation_is_not_zero_acceptance(name: str) -> None:
    """A server without speculation has no such series at all."""
    read = reading(name)
    assert read.generation_tokens == 40000
    assert (read.speculation, read.drafts, read.accepted_tokens) == (None, None, None)


def test_configured_but_unused_speculation_is_undefined() -> None:
    """0 / 0 is no acceptance, neither good nor bad."""
    found = reading("vllm-0.16-spec-configured-zero-traffic.txt").speculation
    assert found is not None
    assert (found.drafts, found.acceptance_length, found.is_dead) == (0, None, False)


def test_drafts_with_nothing_accepted_are_dead() -> None:
    """A dead head is seen by its counters, whatever the throughput."""
    found = reading("vllm-0.16-mtp-dead-head.txt").speculation
    assert found is not None
    assert found.drafts
    assert (found.accepted_tokens, found.acceptance_length, found.is_dead) == (0, 1.0, True)


def test_data_parallel_engines_add_up_and_shares_average() -> None:
    """Four engines are one server."""
    read = reading("vllm-dp4-engines.txt")
    assert (read.generation_tokens, read.drafts, read.accepted_tokens, read.draft_tokens) == (10000, 86, 115, 258)
    assert read.kv_cache_usage == pytest.approx(0.25)
    assert read.requests_running == 6.0


def test_real_scrape_of_032_is_read() -> None:
    """As an engine truly answered, with hundreds of other series."""
    read = reading("vllm-0.32-eagle3-real-scrape.txt", "smol")
    assert (read.generation_tokens, read.prompt_tokens, read.requests_finished) == (1024, 637, 16)
    assert read.speculation == metrics.Speculation(
        drafts=799, draft_tokens=2397, accepted_tokens=219, accepted_per_position=(172, 35, 12)
    )
    assert read.speculation.acceptance_length == pytest.approx(1.274, abs=1e-3)


def test_v0_engine_has_accepted_tokens_and_no_drafts() -> None:
    """What an engine never counted stays unknown."""
    read = reading("vllm-0.6-v0-spec.txt")
    assert (read.generation_tokens, read.kv_cache_usage) == (20480, 0.12)
    assert read.speculation == metrics.Speculation(draft_tokens=14754, accepted_tokens=9000)
    assert read.speculation.acceptance_length is None


def test_engine_label_is_not_needed() -> None:
    """Some versions and proxies leave it out."""
    read = reading("no-engine-label.txt")
    assert (read.generation_tokens, read.drafts, read.accepted_tokens) == (42, 10, 12)


def test_models_are_picked_by_exact_name() -> None:
    """A prefix would take the canary in as well."""
    assert reading("two-models-one-server.txt", "kimi-k2.5").generation_tokens == 40000
    assert reading("two-models-one-server.txt", "kimi-k2.5-canary").generation_tokens == 900
    assert reason(text("two-models-one-server.txt"), "kimi") is metrics.UnreadableReason.MODEL_NOT_FOUND
    assert reason(text("two-models-one-server.txt")) is metrics.UnreadableReason.MODEL_AMBIGUOUS


def test_sglang_ranks_are_not_added_and_the_draft_is_left_out() -> None:
    """Gauges repeat by rank, counters split by streaming; the draft model reports beside the target."""
    read = reading("sglang-eagle3.txt")
    assert (read.engine, read.model, read.generation_tokens, read.prompt_tokens) == ("sglang", "kimi-k2.5", 1000, 1000)
    assert (read.requests_running, read.requests_waiting, read.kv_cache_usage) == (3.0, 1.0, 0.3)
    assert read.speculation == metrics.Speculation(reported_acceptance_length=2.8, reported_acceptance_rate=0.6)
    assert (read.speculation.acceptance_length, read.speculation.acceptance_rate) == (2.8, 0.6)
    assert (read.prefix_cache_queries, read.prefix_cache_hits) == (1000, 400)
    assert (read.ttft, read.itl) == (metrics.Spent(seconds=30.0, count=100), metrics.Spent(seconds=12.0, count=900))
    assert read.requests_finished == 12


def test_old_sglang_tells_acceptance_and_no_tokens() -> None:
    """Its releases without counters give no throughput, and it is not made up."""
    read = reading("sglang-old-minimal.txt")
    assert (read.model, read.generation_tokens, read.kv_cache_usage) == ("qwen3.8-27b", None, 0.31)
    assert read.speculation is not None
    assert read.speculation.acceptance_length == 2.89


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (text("broken-empty.txt"), metrics.UnreadableReason.EMPTY),
        (text("broken-html-502.txt"), metrics.UnreadableReason.NOT_METRICS),
        (text("broken-nan-inf.txt"), metrics.UnreadableReason.BAD_VALUE),
        (text("ray-prefixed.txt"), metrics.UnreadableReason.UNSUPPORTED),
        ('{"detail": "Not Found"}\n', metrics.UnreadableReason.NOT_METRICS),
        ("# nothing here\n", metrics.UnreadableReason.NOT_METRICS),
        ("python_info 1.0\n", metrics.UnreadableReason.NO_ENGINE),
        ("vllm:generation_tokens_total -3\n", metrics.UnreadableReason.BAD_VALUE),
        ("vllm:generation_tokens_total +Inf\n", metrics.UnreadableReason.BAD_VALUE),
        ("vllm:num_requests_running 3\n", metrics.UnreadableReason.MISSING_SERIES),
        ("vllm:generation_tokens_created 1.76e9\n", metrics.UnreadableReason.MISSING_SERIES),
        ("vllm:generation_tokens_total 1e300\n", metrics.UnreadableReason.BAD_VALUE),
        ("vllm_generation_tokens_total 3\n", metrics.UnreadableReason.UNSUPPORTED),
        ("vllm:generation_tokens_total 3\n" * 200_000, metrics.UnreadableReason.TOO_LARGE),
    ],
    ids=lambda value: value if isinstance(value, metrics.UnreadableReason) else "",
)
def test_what_is_no_reading_has_its_own_reason(body: str, expected: metrics.UnreadableReason) -> None:
    """Never zero, and never a guess."""
    assert reason(body) is expected


def test_every_cut_of_a_scrape_is_unreadable_or_unchanged() -> None:
    """A connection that breaks may cut a number in half; a shorter number must never be believed."""
    whole = text("vllm-0.16-eagle3.txt")
    full = metrics.read(whole)
    assert isinstance(full, metrics.Reading)
    for cut in range(0, len(whole), 7):
        outcome = metrics.read(whole[:cut])
        if isinstance(outcome, metrics.Reading):
            assert outcome.generation_tokens == full.generation_tokens
            assert outcome.drafts in {None, full.drafts}


@pytest.mark.parametrize("position", ["first", "", "1000", "9" * 5000, "²", "-1"])
def test_a_bad_position_is_refused(position: str) -> None:
    """Positions are counted; anything else there means the series is something else."""
    body = (
        "vllm:generation_tokens_total 3\nvllm:spec_decode_num_drafts_total 3\n"
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{position}"}} 1\n'
    )
    assert reason(body) is metrics.UnreadableReason.BAD_VALUE


BOTH = 'vllm:generation_tokens_total{model_name="a"} 3\nsglang:generation_tokens_total{model_name="b"} 5\n'


def test_two_engines_in_one_answer_are_told_apart_by_the_model() -> None:
    """A proxy may put several scrapes into one; whose tokens they are must not be guessed."""
    for model, engine, tokens in (("a", "vllm", 3), ("b", "sglang", 5)):
        read = metrics.read(BOTH, model)
        assert isinstance(read, metrics.Reading)
        assert (read.engine, read.generation_tokens) == (engine, tokens)
    assert reason(BOTH) is metrics.UnreadableReason.ENGINE_AMBIGUOUS
    assert reason(BOTH, "c") is metrics.UnreadableReason.ENGINE_AMBIGUOUS


def test_every_recorded_file_has_a_row_of_its_own() -> None:
    """A scrape that no test reads proves nothing."""
    told = Path(__file__).read_text() + Path(__file__).with_name("test_counters.py").read_text().replace('"series-', "")
    names = [path.stem for path in FOLDER.glob("*.txt") if not path.stem.startswith("series-")]
    assert [name for name in names if f"{name}.txt" not in told] == []


@given(st.text(), st.one_of(st.none(), st.text(max_size=5)))
def test_any_text_is_a_reading_or_has_a_reason(body: str, model: str | None) -> None:
    """Never an exception: whatever answers at that address is not ours to trust."""
    assert isinstance(metrics.read(body, model), metrics.Reading | metrics.Unreadable)


_LINES = st.builds(
    lambda name, labels, value, end: f"{name}{labels} {value}{end}",
    st.sampled_from(["vllm:generation_tokens_total", "vllm:spec_decode_num_accepted_tokens_per_pos_total", "# TYPE x"]),
    st.sampled_from(["", "{", '{model_name="m"}', '{position="0",}', '{a="\\', "{}}", '{a="b"']),
    st.one_of(st.floats(), st.integers(), st.sampled_from(["NaN", "+Inf", "", "1 2 3", "0x1", "1e999", "1_000"])),
    st.sampled_from(["\n", "", "\n\n", "\r\n", " # {} 1\n"]),
)


@given(st.lists(_LINES, max_size=6).map("".join))
def test_damaged_metrics_are_a_reading_or_have_a_reason(body: str) -> None:
    """Half a label, two values in a line, numbers that are none."""
    assert isinstance(metrics.read(body), metrics.Reading | metrics.Unreadable)


@given(st.integers(min_value=0, max_value=4000), st.integers(min_value=0, max_value=40), st.binary(max_size=4))
def test_scrape_with_a_hole_is_a_reading_or_has_a_reason(at: int, length: int, instead: bytes) -> None:
    """What a broken connection or a proxy leaves of it."""
    whole = text("vllm-0.16-eagle3.txt").encode()
    cut = (whole[:at] + instead + whole[at + length :]).decode(errors="replace")
    assert isinstance(metrics.read(cut), metrics.Reading | metrics.Unreadable)
