"""The programs in a training run's pods: each stage succeeds, fails, hangs or runs out of memory, as a test says."""

import enum
from collections.abc import Mapping
from typing import Any

from machine.kubelet import Ending, Serving
from machine.server import Server
from machine.watches import Scrapes
from paceline.api import names, report, stages
from paceline.api.checkpoint import TargetCheckpoint
from paceline.api.drafttrainingjob import Stage
from training import builders


class Luck(enum.StrEnum):
    """How a stage's pods end."""

    GOOD = "succeeds"
    ERROR = "fails"
    PERMANENT = "says what to change"
    MEMORY = "runs out of memory"
    SILENT = "succeeds without a report"
    HANGS = "goes on for ever"


class StagePrograms:
    """The knob is by stage."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.luck: dict[Stage, Luck] = {}
        """Good for what is not named."""
        self.takes_s = 300.0
        self.checkpoint: TargetCheckpoint | None = None
        """What Inspect reports of the target's files; None as an older version did."""

    def serve(self, pod: Mapping[str, Any]) -> Serving:
        """Refuse: a training run has no servers of its own."""
        raise AssertionError(f"{pod['metadata']['name']} is nobody's server")

    def run(self, pod: Mapping[str, Any], document: str | None) -> Ending | None:
        """Return how a stage's pod ends."""
        stage = stage_of(pod)
        luck = self.luck.get(stage, Luck.GOOD)
        if document is None or luck is Luck.HANGS:
            return None
        result = builders.RESULTS[stage]
        if stage is Stage.INSPECT:
            result = result.model_copy(update={"checkpoint": self.checkpoint})
        good = stages.StageReport(result=result)
        advice = stages.StageReport(error="Set spec.draft.layers to 1.", permanent=True)
        return {
            Luck.GOOD: Ending(code=0, message=report.encode(good), after_s=self.takes_s),
            Luck.ERROR: Ending(code=1, message="Traceback ... boom", after_s=self.takes_s),
            Luck.PERMANENT: Ending(code=stages.EXIT_PERMANENT, message=report.encode(advice)),
            Luck.MEMORY: Ending(code=137, message="", reason="OOMKilled", after_s=self.takes_s),
            Luck.SILENT: Ending(code=0, message="done", after_s=self.takes_s),
        }[luck]

    def scraped(self) -> Mapping[str, Scrapes]:
        """Return nothing: no policy of training reads metrics."""
        return {}


def stage_of(manifest: Mapping[str, Any]) -> Stage:
    """Return which stage a Job or a pod is of."""
    label = manifest["metadata"]["labels"][names.LABEL_STAGE]
    return next(stage for stage in Stage if stage.lower() == label)
