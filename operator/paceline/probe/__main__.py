"""``python -m paceline.probe --config FILE``: one round, from inside the cluster."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pydantic
import structlog

from paceline.api import stages
from paceline.api.measurement import Measurement, ProbeConfig, ProbeReport
from paceline.podside import clock as clocks
from paceline.podside import progress as progresses
from paceline.podside import termination
from paceline.probe import corpus, prompts, transport
from paceline.probe import round as rounds

_EXIT_FAILED = 1
_EXIT_TERMINATED = 143


class _PodListener:
    """Tells the operator through /progress, and the log."""

    def __init__(self, progress: progresses.Progress) -> None:
        self._progress = progress
        self._log = structlog.get_logger()

    def at(self, share: float, message: str) -> None:
        """Hear how far the round is."""
        self._progress.update(share, message)

    def paused(self, arm: str, *, is_on: bool) -> None:
        """Hear that an arm is left to its users, or no longer."""
        self._progress.pause(paused=is_on)
        self._log.info("probe_paused" if is_on else "probe_goes_on", arm=arm)

    def measured(self, measurement: Measurement, message: str) -> None:
        """Hear a block."""
        self._log.info("block_measured", **measurement.model_dump(mode="json", exclude_none=True), message=message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a round, and leave its report as termination message; return the exit code."""
    structlog.configure(processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()])
    parser = argparse.ArgumentParser(prog="python -m paceline.probe", description=__doc__)
    parser.add_argument("--config", type=Path, default=Path(stages.CONFIG_PATH), help="JSON file with a ProbeConfig")
    parser.add_argument("--termination-log", type=Path, default=termination.TERMINATION_LOG)
    parser.add_argument("--progress-port", type=int, default=stages.PROGRESS_PORT)
    options = parser.parse_args(arguments)
    clock = clocks.SystemClock()
    progress = progresses.Progress("Probe", clock)
    stop = progresses.serve(progress, options.progress_port)
    try:
        report, code = _reported(options.config, progress, clock)
    finally:
        stop()
    termination.write(report, path=options.termination_log)
    return code


def _reported(path: Path, progress: progresses.Progress, clock: clocks.Clock) -> tuple[ProbeReport, int]:
    """Return the report and the exit code: what the user must change is permanent, all else may be tried again."""
    try:
        config = ProbeConfig.model_validate_json(path.read_bytes())
        texts = corpus.load(config.prompts_path, max_prompts=config.max_prompts)
    except (OSError, pydantic.ValidationError, prompts.PromptsError) as error:
        return ProbeReport(error=str(error)[:1024], permanent=True), stages.EXIT_PERMANENT
    try:
        return asyncio.run(_probe(config, texts, progress, clock)), stages.EXIT_OK
    except prompts.PromptsError as error:
        return ProbeReport(error=str(error)[:1024], permanent=True), stages.EXIT_PERMANENT
    except rounds.NotAnsweringError as error:
        return ProbeReport(error=str(error)[:1024]), _EXIT_FAILED


async def _probe(
    config: ProbeConfig, texts: Sequence[prompts.Prompt], progress: progresses.Progress, clock: clocks.Clock
) -> ProbeReport:
    async with transport.HttpTransport(request_timeout_s=config.request_timeout_s) as http:
        arms = rounds.arms_of(config, http, clock)
        return await rounds.run(config, texts, arms, listener=_PodListener(progress))


def _end(*_: object) -> None:
    """Leave what is in flight: the engine gives up a request whose connection closes."""
    raise SystemExit(_EXIT_TERMINATED)


if __name__ == "__main__":
    # A container's first process ignores SIGTERM unless it says otherwise. A probe that is no longer wanted would drive
    # its servers, and what comes after it, through the whole grace period of its pod.
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main())
