"""The metrics reader, on texts of real engines; expected readings are in ``metrics/README.md``."""

from pathlib import Path

import pytest

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
    assert read.speculation == metrics.Speculation(reported_acceptance_length=2.8)
    assert read.speculation.acceptance_length == 2.8


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


def test_a_bad_position_is_refused() -> None:
    """Positions are counted; a text there means the series is something else."""
    body = (
        "vllm:generation_tokens_total 3\nvllm:spec_decode_num_drafts_total 3\n"
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="first"} 1\n'
    )
    assert reason(body) is metrics.UnreadableReason.BAD_VALUE
