"""Facts of target and head for the control plane to judge, small enough for a termination message.

They come on top of what Inspect always reported: a file that they cannot be read from fails nothing here, since what
must be there is checked by the stage itself.
"""

from collections.abc import Iterator

from paceline.api import report, stages
from paceline.api.checkpoint import HeadCheckpoint, TargetCheckpoint
from paceline.checkpoints import documents, files
from paceline.stages.failures import PermanentError


def of_target(folder: files.Files) -> TargetCheckpoint:
    """Return a target's facts.

    Raises:
        PermanentError: when a file of it is missing or damaged.
    """
    try:
        return files.read_target(folder)
    except documents.UnreadableError as error:
        raise PermanentError(f"the target: {error}") from error


def of_head(folder: files.Files) -> HeadCheckpoint:
    """Return a head's facts.

    Raises:
        PermanentError: when a file of it is missing or damaged.
    """
    try:
        return files.read_head(folder)
    except documents.UnreadableError as error:
        raise PermanentError(f"the head: {error}") from error


def within_report(result: stages.InspectResult) -> stages.InspectResult:
    """Return a result that fits the report, with as many notes as there is room for, and without facts at the worst."""
    for candidate in _ever_smaller(result):
        try:
            report.encode(stages.StageReport(result=candidate))
        except ValueError:
            continue
        return candidate
    return result.model_copy(update={"checkpoint": None, "head": None})


def _ever_smaller(result: stages.InspectResult) -> Iterator[stages.InspectResult]:
    yield result
    for kept in (4, 1, 0):
        yield result.model_copy(
            update={
                "checkpoint": result.checkpoint
                and result.checkpoint.model_copy(update={"problems": result.checkpoint.problems[:kept]}),
                "head": result.head and result.head.model_copy(update={"problems": result.head.problems[:kept]}),
            }
        )
