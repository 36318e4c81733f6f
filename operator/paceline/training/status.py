"""The status: a projection of the record and of what runs, rendered anew in every pass.

Only two things are taken from the stored status: when a condition last changed, and the progress that is still good
enough, so that a percentage that has not moved is not written again with another estimate.
"""

from collections.abc import Mapping
from typing import Any, Final

from paceline.api import names, stages
from paceline.api.conditions import ConditionType, TrainingReason
from paceline.api.drafttrainingjob import (
    DraftTrainingJobStatus,
    Phase,
    Progress,
    Stage,
    StageStatus,
    TargetFacts,
    TrainingOutput,
)
from paceline.planning import conditions, plan
from paceline.training import collect, failure, observe, places, reports, results, step, suitability, waits, wording

# These say that something has not happened; telling it as an event would only greet every new job with noise.
_QUIET: Final = frozenset({TrainingReason.NOT_PUBLISHED, TrainingReason.RUNNING, TrainingReason.HEAD_NEEDED})
_ENDS: Final = {TrainingReason.PUBLISHED: Phase.COMPLETE, TrainingReason.NATIVE_MTP: Phase.SKIPPED}
"""Ends that are no failure."""
# An estimate that is off by less is still the same estimate.
_ETA_TOLERANCE_S: Final = 15.0
_ETA_TOLERANCE_SHARE: Final = 0.2


def render(
    seen: observe.Observed,
    record: results.Record,
    decided: step.Step,
    *,
    live: Mapping[str, stages.LiveProgress],
    now: float,
) -> tuple[dict[str, Any], list[plan.Event]]:
    """Return the whole status to be, and the events of what changed.

    Args:
        seen: what there is.
        record: what is remembered after this pass.
        decided: what this pass does.
        live: what running pods last said of their progress, by pod UID.
        now: wall-clock seconds.
    """
    refused = _refusal(seen, record)
    said = _said(seen, record, refused, lacks=decided.waits)
    generation = int(plan.metadata(seen.resource).get("generation", 0))
    stored = (seen.resource.get("status") or {}).get("conditions", ())
    told, events = conditions.merge(stored, said, generation=generation, now=now)
    start = seen.start_time or (conditions.timestamp(now) if decided.claims_start else None)
    status = DraftTrainingJobStatus.model_validate(
        {
            "observed_generation": generation,
            "phase": _phase(seen, record, start),
            "start_time": start,
            "completion_time": record.outcome.at if record.outcome else None,
            "progress": _progress(seen, record, live),
            "stages": [_stage(seen, record, stage) for stage in Stage],
            "target": _target(record),
            "checkpoint": suitability.status(seen.spec, record),
            "output": _output(seen, record),
            "conditions": told,
        }
    )
    return status.wire(), [event for event in events if event.reason not in _QUIET]


def _refusal(seen: observe.Observed, record: results.Record) -> suitability.Refusal | None:
    """Return why the spec cannot be acted on: its source cannot be read, or what was read does not fit."""
    unread = failure.refusal(seen, record)
    if unread is not None:
        return suitability.Refusal(reason=TrainingReason.SOURCE_UNREADABLE, message=unread)
    return suitability.refusal(seen, record)


def refuse(resource: plan.Manifest, error: ValueError, now: float) -> tuple[dict[str, Any], list[plan.Event]]:
    """Return the status of a resource whose spec cannot be read; what else was stored stays."""
    stored: Mapping[str, Any] = resource.get("status") or {}
    generation = int(plan.metadata(resource).get("generation", 0))
    said = conditions.Said(
        type=ConditionType.ACCEPTED,
        status=False,
        reason=TrainingReason.INVALID_SPEC,
        message=wording.clip(f"This operator cannot read the spec: {error}"),
        warning=True,
    )
    told, events = conditions.merge(stored.get("conditions", ()), [said], generation=generation, now=now)
    return {**stored, "observedGeneration": generation, "conditions": told}, events


def _said(
    seen: observe.Observed, record: results.Record, refused: suitability.Refusal | None, *, lacks: str
) -> list[conditions.Said]:
    return [
        _accepted(seen, record, refused),
        waits.progressing(seen, record, refused, lacks=lacks),
        *_ended(record.outcome),
        _suspended(seen, record),
    ]


def _accepted(seen: observe.Observed, record: results.Record, refused: suitability.Refusal | None) -> conditions.Said:
    found = record.inspection
    if refused is not None:
        return conditions.Said(
            type=ConditionType.ACCEPTED,
            status=False,
            reason=refused.reason,
            message=refused.message,
            warning=True,
        )
    if found is None:
        return conditions.Said(
            type=ConditionType.ACCEPTED,
            status=None,
            reason=TrainingReason.INSPECTING,
            message=f"The files of {seen.spec.target.uri} are being read.",
        )
    return conditions.Said(
        type=ConditionType.ACCEPTED,
        status=True,
        reason=TrainingReason.TARGET_READ,
        message=f"{seen.spec.target.uri} is a {found.architecture} of {found.layers} layers, hidden size "
        f"{found.hidden_size}, {wording.size(found.weights_bytes)} of weights, digest {names.short(found.digest)}.",
    )


def _ended(outcome: results.Outcome | None) -> list[conditions.Said]:
    published = outcome is not None and outcome.reason is TrainingReason.PUBLISHED
    complete = conditions.Said(
        type=ConditionType.COMPLETE,
        status=published,
        reason=TrainingReason.PUBLISHED if published else TrainingReason.NOT_PUBLISHED,
        message=outcome.message if outcome and published else "No head is published.",
    )
    skipped = outcome is not None and outcome.reason is TrainingReason.NATIVE_MTP
    if outcome is None or published or skipped:
        failed = conditions.Said(
            type=ConditionType.FAILED,
            status=False,
            reason=TrainingReason.RUNNING,
            message="Nothing has failed for good.",
        )
    else:
        failed = conditions.Said(
            type=ConditionType.FAILED, status=True, reason=outcome.reason, message=outcome.message, warning=True
        )
    return [complete, failed, _skipped(outcome if skipped else None)]


def _skipped(outcome: results.Outcome | None) -> conditions.Said:
    if outcome is None:
        return conditions.Said(
            type=ConditionType.SKIPPED,
            status=False,
            reason=TrainingReason.HEAD_NEEDED,
            message="The target is not known to draft for itself.",
        )
    return conditions.Said(type=ConditionType.SKIPPED, status=True, reason=outcome.reason, message=outcome.message)


def _suspended(seen: observe.Observed, record: results.Record) -> conditions.Said:
    held = seen.spec.suspend and record.outcome is None
    return conditions.Said(
        type=ConditionType.SUSPENDED,
        status=held,
        reason=TrainingReason.SUSPENDED_BY_USER if held else TrainingReason.RUNNING,
        message="spec.suspend is set; clear it to go on." if held else "spec.suspend is not set.",
    )


def _phase(seen: observe.Observed, record: results.Record, start: str | None) -> Phase:
    if record.outcome is not None:
        return _ENDS.get(record.outcome.reason, Phase.FAILED)
    if seen.spec.suspend:
        return Phase.SUSPENDED
    return Phase.PENDING if start is None else Phase.RUNNING


def _progress(
    seen: observe.Observed, record: results.Record, live: Mapping[str, stages.LiveProgress]
) -> Progress | None:
    """Return what the running pod last said; the stored progress while that is as good, or nothing newer is known."""
    stage = record.current
    stored = seen.job.status.progress if seen.job.status else None
    if stage is None:
        return None
    kept = stored if stored is not None and stored.stage is stage else None
    job = seen.stage_jobs.get(stage)
    said = live.get(job.newest.uid) if job and job.newest else None
    if said is None or said.stage != stage.value:
        # An ETA of a pod that is gone is no estimate; its percentage still tells how far the stage had come.
        return kept and kept.model_copy(update={"eta": kept.eta if job and not job.finished else None})
    if kept is not None and kept.percent == said.percent and _same_eta(kept.eta, said.eta_s):
        return kept
    eta = None if said.eta_s is None else wording.duration(said.eta_s)
    return Progress(stage=stage, percent=said.percent, eta=eta, message=wording.clip(said.message))


def _same_eta(stored: str | None, said_s: int | None) -> bool:
    if stored is None or said_s is None:
        return stored is None and said_s is None
    stored_s = wording.seconds(stored)
    return abs(stored_s - said_s) <= max(_ETA_TOLERANCE_S, _ETA_TOLERANCE_SHARE * stored_s)


def _stage(seen: observe.Observed, record: results.Record, stage: Stage) -> StageStatus:
    kept, job = record.of(stage), seen.stage_jobs.get(stage)
    live_attempts = 0 if job is None or job.uid in kept.retired else collect.pods_tried(job)
    return StageStatus(
        name=stage,
        state=_state(record, stage, job),
        attempts=kept.attempts + live_attempts,
        started_at=kept.started_at or (job.started_at if job else None),
        finished_at=kept.finished_at,
        message=wording.clip(_message(seen, record, stage, job)),
    )


def _state(record: results.Record, stage: Stage, job: observe.StageJob | None) -> str:
    if record.of(stage).result is not None:
        failed = record.outcome is not None and record.outcome.stage is stage
        return "Failed" if failed else "Succeeded"
    if record.current is not stage:
        return "Pending"
    if record.outcome is not None and record.outcome.reason is TrainingReason.NATIVE_MTP:
        return "Pending"
    if record.outcome is not None or (stage is Stage.INSPECT and job is not None and job.failed is not None):
        return "Failed"
    started = job is not None and not job.deleting and job.newest is not None and job.newest.placed
    return "Running" if started else "Pending"


def _message(seen: observe.Observed, record: results.Record, stage: Stage, job: observe.StageJob | None) -> str:
    """Return what is worth knowing of one stage: why it failed, what a retry is for, what it will need or has made."""
    outcome = record.outcome
    if outcome is not None and outcome.stage is stage:
        return outcome.message
    result = record.of(stage).result
    if result is not None:
        return _made(result)
    ended = job.ended if job is not None and record.current is stage else None
    if ended is not None and ended.ending is not None and ended.ending.exit_code != stages.EXIT_OK:
        return f"Pod {ended.name} failed: {reports.words(ended.ending)}"
    if stage is Stage.EXTRACT and record.inspection is not None and record.preparation is not None:
        need = record.preparation.train_tokens * record.inspection.hidden_state_bytes_per_token
        return (
            f"Hidden states take about {wording.size(need)} on claim {seen.spec.workspace.claim_name}: "
            f"{record.preparation.train_tokens} tokens of {record.inspection.hidden_state_bytes_per_token} bytes."
        )
    return ""


def _made(result: stages.AnyStageResult) -> str:
    """Return in words what a stage has made."""
    if isinstance(result, stages.InspectResult):
        return f"{result.architecture}, {result.layers} layers, {wording.size(result.weights_bytes)} of weights."
    if isinstance(result, stages.PrepareResult):
        return f"{result.train_samples} samples of {result.train_tokens} tokens; {result.holdout_samples} held out."
    if isinstance(result, stages.ExtractResult):
        return (
            f"{wording.size(result.hidden_bytes)} of hidden states; they name the target's next token in "
            f"{result.agreement_percent:.1f} % of cases."
        )
    if isinstance(result, stages.TrainResult):
        loss = f" Loss {result.loss:.3f}." if result.loss is not None else ""
        return wording.clip(f"{result.epochs} epochs.{loss}" + (f" {result.start}" if result.start else ""))
    if isinstance(result, stages.EvaluateResult):
        return f"Acceptance length {result.acceptance_length:.3f} on {result.prompts} held-out prompts."
    return f"Manifest {names.short(result.manifest_digest)}."


def _target(record: results.Record) -> TargetFacts | None:
    found = record.inspection
    return TargetFacts.model_validate(found.model_dump()) if found else None


def _output(seen: observe.Observed, record: results.Record) -> TrainingOutput | None:
    published, measured = record.publication, record.evaluation
    if published is None or measured is None:
        return None
    uri = places.locate(seen.spec, seen.uid).published_uri(published.path)
    return TrainingOutput(
        uri=uri or seen.spec.output.uri,
        manifest_digest=published.manifest_digest,
        acceptance_length=f"{measured.acceptance_length:.3f}",
        acceptance_by_position=[f"{one:.3f}" for one in measured.acceptance_by_position],
    )
