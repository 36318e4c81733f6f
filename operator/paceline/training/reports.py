"""What a stage's pod reported, judged before anything believes it: the pod is a tenant's, not ours."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from paceline.api import report as codec
from paceline.api import stages
from paceline.planning import view as views
from paceline.training import attempts, observe, places

_LOG_TAIL: Final = 300  # characters; the end of a log names the error, its beginning is banners


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """The Job succeeded, and its report cannot be used."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The Job succeeded, and its pod was collected before its report was read."""


Answer: TypeAlias = stages.AnyStageResult | Unfit | Lost


def answer(job: observe.StageJob, folders: places.Places, now: float) -> Answer | None:
    """Return what a Job that is complete has to say; None while its pod may still turn up."""
    if job.complete is None:
        return None
    ended = job.ended
    if ended is None or ended.ending is None or ended.ending.exit_code != stages.EXIT_OK:
        return Lost() if now - job.complete.at >= views.LOST_AFTER_S else None
    said = read(ended.ending)
    if said is None or said.result is None:
        return Unfit(
            message=f"Stage {job.stage} ended without error but reported no result; "
            "set spec.trainer.image to the stage image of this operator's version."
        )
    return _checked(said.result, job=job, folders=folders)


def read(ending: attempts.Ending) -> stages.StageReport | None:
    """Return the report in a termination message; None when it is none, such as the last log lines."""
    try:
        return codec.decode(ending.message, stages.StageReport)
    except codec.UnreadableReportError:
        return None


def words(ending: attempts.Ending) -> str:
    """Return in words how a container failed: its own words, else exit code and the end of its log."""
    said = read(ending)
    if said is not None and said.error:
        return said.error
    if ending.out_of_memory:
        return "OOMKilled: it used more memory than its limit"
    tail = " ".join(ending.message.split())[-_LOG_TAIL:]
    return f"exit code {ending.exit_code}" + (f"; its log ends: {tail}" if tail and said is None else "")


def _checked(result: stages.AnyStageResult, *, job: observe.StageJob, folders: places.Places) -> Answer:
    if result.stage != job.stage.value:
        return Unfit(message=f"Stage {job.stage} reported the result of {result.stage}; check spec.trainer.image.")
    if isinstance(result, stages.TrainResult) and not folders.made_by_run(result.checkpoint):
        return Unfit(message=f"Stage Train reported a checkpoint outside its workspace: {result.checkpoint!r}.")
    if isinstance(result, stages.PublishResult) and folders.published_uri(result.path) is None:
        return Unfit(message=f"Stage Publish reported a head outside spec.output.uri: {result.path!r}.")
    return result
