"""Runs one stage as a pod's main process: configuration in, progress out, one report at the end.

The report goes to the termination message. Exit codes: 0 finished, 42 the user must change something, 143 asked to
stop, 1 anything else, which is worth another attempt.
"""

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import pydantic
import structlog

from paceline.api import stages
from paceline.podside import clock as clocks
from paceline.podside import progress as progresses
from paceline.podside import termination
from paceline.stages import (
    evaluate,
    extract,
    inspection,
    prepare,
    publish,
    stopping,
    train,
    workspace,
)
from paceline.stages.context import Context
from paceline.stages.failures import PermanentError, StageError, TerminatedError

EXIT_TRANSIENT: Final = 1
EXIT_TERMINATED: Final = 143
_MESSAGE_CHARACTERS: Final = 1024

ConfigT = TypeVar("ConfigT", bound=stages.StageConfig)
Program = Callable[[Any, Context], stages.AnyStageResult]

PROGRAMS: Final[Mapping[str, Program]] = {
    "inspect": inspection.run,
    "prepare": prepare.run,
    "extract": extract.run,
    "train": train.run,
    "evaluate": evaluate.run,
    "publish": publish.run,
}

_log = structlog.get_logger()


def main(
    name: str, config_path: Path, *, port: int = stages.PROGRESS_PORT, report_path: Path = termination.TERMINATION_LOG
) -> int:
    """Run the stage ``name`` and return the exit code; the report is written before this returns."""
    clock = clocks.SystemClock()
    started_s = clock.monotonic()
    stop = stopping.Stop()
    stop.install()
    log = _log.bind(stage=name)
    report, code = run(name, config_path, clock=clock, stop=stop, port=port)
    write_report(report, report_path)
    log.info(
        "stage_ended",
        exit_code=code,
        error=report.error or None,
        duration_s=round(clock.monotonic() - started_s, 1),
        result=report.result.wire() if report.result else None,
    )
    return code


def run(
    name: str, config_path: Path, *, clock: clocks.Clock, stop: stopping.Stop, port: int
) -> tuple[stages.StageReport, int]:
    """Return the report and the exit code of one stage."""
    try:
        config = load_config(name, config_path)
        progress = progresses.Progress(config.stage, clock)
        context = Context(workspace=workspace.open_workspace(config), progress=progress, clock=clock, stop=stop)
        close = progresses.serve(progress, port)
        try:
            return stages.StageReport(result=PROGRAMS[name](config, context)), stages.EXIT_OK
        finally:
            close()
    except evaluate.GateNotMetError as error:
        return stages.StageReport(result=error.result, error=_clip(str(error)), permanent=True), stages.EXIT_PERMANENT
    except PermanentError as error:
        return stages.StageReport(error=_clip(str(error)), permanent=True), stages.EXIT_PERMANENT
    except TerminatedError as error:
        return stages.StageReport(error=_clip(str(error))), EXIT_TERMINATED
    except StageError as error:
        return stages.StageReport(error=_clip(str(error))), EXIT_TRANSIENT
    except Exception as error:  # noqa: BLE001 - the last frame of the process: whatever it is, it is reported
        traceback.print_exc()
        return stages.StageReport(error=_clip(f"{type(error).__name__}: {error}")), EXIT_TRANSIENT


def load_config(name: str, path: Path) -> Any:
    """Return the stage's configuration.

    Raises:
        PermanentError: when it is missing, malformed or another stage's.
    """
    try:
        config = pydantic.TypeAdapter(stages.AnyStageConfig).validate_json(path.read_bytes())
    except (OSError, pydantic.ValidationError) as error:
        raise PermanentError(
            f"stage configuration {path} cannot be used: {error}; operator and image must match"
        ) from error
    if config.stage.lower() != name:
        raise PermanentError(f"stage configuration {path} is for {config.stage}, not for {name}")
    return config


def write_report(report: stages.StageReport, path: Path) -> None:
    """Leave the report for the operator."""
    try:
        termination.write(report, path=path)
    except OSError as error:
        # Outside a pod there is no such file; the log's last line tells the same.
        _log.warning("report_not_written", path=str(path), error=str(error))


def _clip(text: str) -> str:
    """Return the message within the API's bound."""
    return text[:_MESSAGE_CHARACTERS]
