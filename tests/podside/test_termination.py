"""The termination message: the only way a result leaves a pod."""

from pathlib import Path

import pytest

from paceline.api import report, stages
from paceline.podside import termination


def test_written_report_is_read_back_by_the_operator(tmp_path: Path) -> None:
    """One dialect on both ends."""
    said = stages.StageReport(error="the disk is full; ask for more", permanent=False)
    termination.write(said, path=tmp_path / "log")
    assert report.decode((tmp_path / "log").read_text(), stages.StageReport) == said


def test_report_that_cannot_fit_is_an_error_and_writes_nothing(tmp_path: Path) -> None:
    """Half a report would be read as garbage by the operator."""
    incompressible = "".join(chr(0x4E00 + (i * 7919) % 20000) for i in range(1024))
    said = stages.StageReport(
        result=stages.EvaluateResult(
            acceptance_length=1.0,
            acceptance_by_position=[i / 7919 for i in range(2000)],
            drafts=1,
            accepted_tokens=0,
            prompts=1,
            speculative_tokens=1,
        ),
        error=incompressible,
    )
    with pytest.raises(ValueError, match="4 KiB"):
        termination.write(said, path=tmp_path / "log")
    assert not (tmp_path / "log").exists()
