"""Where a run's folders lie, the same in every pod and container of it."""

from dataclasses import dataclass

from paceline.api import sources
from paceline.api.drafttrainingjob import DraftTrainingJobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Folders of one run."""

    target: sources.Location
    workspace: sources.Location
    """Shared by the attempts of this run, and by no other run."""
    output: sources.Location
    prompts: sources.Location | None
    """File on a volume; None when the prompts come from a ConfigMap."""
    start: sources.Location | None = None
    """The head to start from; None for random weights."""

    @property
    def hidden_states(self) -> str:
        """Folder that the engine's connector writes to and the trainer reads."""
        return f"{self.workspace.path}/hidden-states"

    def made_by_run(self, path: str) -> bool:
        """Whether ``path``, which a pod named, lies on this run's own workspace."""
        return ".." not in path.split("/") and path.startswith(f"{self.workspace.path}/")

    def published_uri(self, path: str) -> str | None:
        """Return the URI of a folder below the output; None for a path that a pod named anywhere else."""
        claim, below = self.output.claim, f"{self.output.path}/"
        if claim is None or ".." in path.split("/") or not path.startswith(below):
            return None
        return f"pvc://{claim}{path.removeprefix(self.output.mount_path)}"


def locate(spec: DraftTrainingJobSpec, uid: str) -> Places:
    """Return the places of the run whose resource has ``uid``."""
    space = spec.workspace
    below = "/".join(part for part in (space.sub_path, uid) if part)
    return Places(
        target=sources.locate(spec.target.uri),
        workspace=sources.locate(f"pvc://{space.claim_name}/{below}"),
        output=sources.locate(spec.output.uri),
        prompts=sources.locate(spec.data.prompts.uri) if spec.data.prompts.uri else None,
        start=sources.locate(spec.draft.start_from.uri) if spec.draft.start_from else None,
    )
