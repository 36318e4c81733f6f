"""Where a head comes from: the spec itself, a training job that has published one, or a revision that keeps one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.api.drafttrainingjob import DraftTrainingJob
from paceline.api.sources import ModelSource
from paceline.api.speculativedeployment import SpeculativeDeploymentSpec
from paceline.planning import plan
from paceline.rollout.documents import revisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the head comes from, before anything is known of its fit."""

    draft: revisions.DraftInput | None = None
    """None for a method that reads none, and while it does not exist."""
    head: revisions.Head | None = None
    """The training job it is resolved from."""
    trained_on: str | None = None
    """Digest of the target the training job read."""
    awaiting: str = ""
    """Why there is no head yet."""
    missing: str = ""
    """Why there will be none until the spec or the cluster changes."""


def find(
    spec: SpeculativeDeploymentSpec, training_job: plan.Manifest | None, known: Mapping[str, revisions.Revision]
) -> Source:
    """Return the head that the spec names.

    Args:
        spec: the wanted state.
        training_job: the DraftTrainingJob it refers to; None when there is none.
        known: existing revisions, which keep what a job that has been deleted since had published.
    """
    wanted = spec.speculation
    if wanted.draft is not None:
        return Source(draft=revisions.DraftInput.model_validate(served(wanted.draft)))
    if wanted.training_job_ref is None:
        return Source()
    name = wanted.training_job_ref.name
    published = _published(training_job)
    if published is not None:
        return published
    kept = _kept(name, known)
    if kept is not None:
        return kept
    if training_job is None:
        return Source(
            missing=f"DraftTrainingJob {name} does not exist in this namespace; create it or name another one"
        )
    return Source(awaiting=_awaiting(name, training_job))


def served(source: ModelSource) -> dict[str, Any]:
    """Return a source as a revision keeps it: with what it is read changes nothing of what is served."""
    return source.model_copy(update={"credentials_secret": None}).wire()


def _published(training_job: plan.Manifest | None) -> Source | None:
    """Return the head of a job that has published one."""
    if training_job is None or not (training_job.get("status") or {}).get("output"):
        return None
    status = DraftTrainingJob.model_validate(training_job).status
    if status is None or status.output is None:
        return None
    meta = plan.metadata(training_job)
    return Source(
        draft=revisions.DraftInput(uri=status.output.uri, manifest_digest=status.output.manifest_digest),
        head=revisions.Head(training_job=meta["name"], uid=meta["uid"]),
        trained_on=status.target.digest if status.target else None,
    )


def _kept(name: str, known: Mapping[str, revisions.Revision]) -> Source | None:
    """Return the head that the newest revision resolved from this job; a reference resolves once."""
    made = [one for one in known.values() if one.head is not None and one.head.training_job == name]
    if not made:
        return None
    newest = max(made, key=lambda one: one.number)
    return Source(draft=newest.inputs.draft, head=newest.head, trained_on=newest.inputs.target.digest)


def _awaiting(name: str, training_job: plan.Manifest) -> str:
    told = {one["type"]: one for one in (training_job.get("status") or {}).get("conditions") or ()}
    failed = told.get("Failed", {})
    skipped = told.get("Skipped", {})
    if skipped.get("status") == "True":
        return (
            f"DraftTrainingJob {name} trains no head ({skipped.get('message', '')}); set speculation.method: MTP here"
        )
    if failed.get("status") == "True":
        return f"DraftTrainingJob {name} failed ({failed.get('message', '')}); make another one and name it here"
    return f"DraftTrainingJob {name} has not published a head yet; until then the target serves without speculation"
