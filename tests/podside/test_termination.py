"""The termination message: the only way a result leaves a pod."""

from pathlib import Path

import pydantic
import pytest

from paceline.api import report, stages
from paceline.podside import termination


class Wordy(pydantic.BaseModel):
    """A report without bounds, as none of ours is."""

    said: str


def test_written_report_is_read_back_by_the_operator(tmp_path: Path) -> None:
    """One dialect on both ends."""
    said = stages.StageReport(error="the disk is full; ask for more", permanent=False)
    termination.write(said, path=tmp_path / "log")
    assert report.decode((tmp_path / "log").read_text(), stages.StageReport) == said


def test_report_that_cannot_fit_is_an_error_and_writes_nothing(tmp_path: Path) -> None:
    """Half a report would be read as garbage by the operator."""
    noise = "".join(chr(0x4E00 + (index * 7919) % 20_000) for index in range(4000))
    with pytest.raises(ValueError, match="4 KiB"):
        termination.write(Wordy(said=noise), path=tmp_path / "log")
    assert not (tmp_path / "log").exists()
