"""The summary and the report are computed from the operator's evidence alone."""

from pathlib import Path

import pytest

from demo import report, summary
from paceline.api.measurement import BlockOutcome, Decision, Measurement, RolloutRecord


def block(arm: str, *, tokens: int, outcome: BlockOutcome = BlockOutcome.OK, position: int = 0) -> Measurement:
    """Return a block of ten seconds at concurrency 4."""
    return Measurement(
        arm=arm,
        concurrency=4,
        position=position,
        started_at="2026-01-01T00:00:00Z",
        window_ms=10_000,
        output_tokens=tokens,
        drafts=100,
        accepted_tokens=60,
        outcome=outcome,
    )


def record(*blocks: Measurement) -> RolloutRecord:
    """Return a decided rollout with these blocks."""
    return RolloutRecord(
        number=2,
        candidate="sha256:" + "a" * 64,
        workload="w",
        started_at="2026-01-01T00:00:00Z",
        measurements=list(blocks),
        decision=Decision.PROMOTED,
        reason="Promoted",
        message="1.5 times <the> control",
    )


def test_cells_pool_blocks_and_keep_their_spread() -> None:
    """Throughput is tokens over time of all blocks; low and high are the slowest and the fastest."""
    (cell,) = summary.cells([block("a", tokens=100), block("a", tokens=300, position=3)])
    assert cell.tokens_per_second == pytest.approx(20.0)
    assert (cell.low, cell.high, cell.blocks) == (10.0, 30.0, 2)
    assert cell.acceptance_length == pytest.approx(1.6)


def test_blocks_that_may_not_be_used_are_left_out() -> None:
    """What the judge dropped is not shown as a measurement."""
    assert summary.cells([block("a", tokens=0, outcome=BlockOutcome.REQUEST_ERRORS)]) == []


def test_report_is_one_escaped_page_with_its_plots(tmp_path: Path) -> None:
    """Messages come from the cluster, so they are escaped; plots are inside the file."""
    story = report.Story(machine="two <cores>", moments=[(61.0, "served")], training=[(1.0, "Train", 50)])
    page = tmp_path / "index.html"
    report.write(
        page, story=story, records=[record(block("a", tokens=100), block("b", tokens=200))], comparisons={2: ()}
    )
    text = page.read_text(encoding="utf-8")
    assert "1.5 times &lt;the&gt; control" in text
    assert "two &lt;cores&gt;" in text
    assert text.count("<svg") == 2
    assert "01:01" in text
