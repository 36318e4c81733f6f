"""What a stage is handed besides its configuration."""

from dataclasses import dataclass

from paceline.podside import clock as clocks
from paceline.podside import progress as progresses
from paceline.stages import stopping, workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The run's folder, and the ways out: progress, time, and being asked to stop."""

    workspace: workspace.Workspace
    progress: progresses.Progress
    clock: clocks.Clock
    stop: stopping.Stop
