"""The result of a pod's program, left where the kubelet picks it up."""

from pathlib import Path
from typing import Final

import pydantic

from paceline.api import report as reports

TERMINATION_LOG: Final = Path("/dev/termination-log")
"""Kubernetes' own default of ``terminationMessagePath``; the kubelet mounts a file there."""


def write(report: pydantic.BaseModel, *, path: Path = TERMINATION_LOG) -> None:
    """Leave ``report`` for the operator.

    Raises:
        ValueError: when it does not fit 4 KiB even deflated.
        OSError: when the file cannot be written.
    """
    path.write_text(reports.encode(report), encoding="utf-8")
