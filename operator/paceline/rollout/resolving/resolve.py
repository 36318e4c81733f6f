"""Turns the spec into what could serve: the baseline (no draft) and the desired revision, or why there is none yet.

A draft source or a finished training job gives a head; Inspect says whether it fits the target. What does not resolve
never takes down what serves: the answer is then only a condition.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from paceline.api import stages
from paceline.api.checkpoint import CheckpointStatus
from paceline.api.conditions import RolloutReason
from paceline.api.speculation import Method, NgramSpec, SuffixSpec
from paceline.api.speculativedeployment import SpeculativeDeploymentSpec
from paceline.checkpoints import inspection as checkpoints
from paceline.checkpoints import summary
from paceline.engines import base as engine_base
from paceline.engines import methods
from paceline.rollout.documents import revisions
from paceline.rollout.resolving import automatic, headsource, inspection, suitability


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What the spec comes down to."""

    accepted: bool | None
    reason: RolloutReason
    message: str
    baseline: revisions.Inputs | None = None
    """The server without speculation; None until the target is read."""
    desired: revisions.Inputs | None = None
    """What is to serve if it proves itself; None when that is not known or not possible."""
    head: revisions.Head | None = None
    checkpoint: CheckpointStatus | None = None
    """What the files say, for status; None when they were read by a version that reported no facts."""
    stale: str = ""
    """Why the head that was wanted is out of date, and what makes a new one."""
    awaiting: str = ""
    """Why there is no head yet."""


def resolve(
    spec: SpeculativeDeploymentSpec,
    source: headsource.Source,
    found: inspection.Inspection,
    known: Mapping[str, revisions.Revision],
) -> Resolution:
    """Return what the spec comes down to, given what Inspect found."""
    if found.target is None:
        return _unread(found)
    judged = suitability.judge(spec, found.result or found.target, with_head=found.result is not None)
    chosen = automatic.choose(spec, judged)
    if chosen.speculation.draft is None and chosen.speculation.training_job_ref is None:
        source = headsource.Source()
    resolved = _judged(chosen, source, found, judged=judged, known=known)
    message = resolved.message
    if chosen is not spec and resolved.desired is not None:
        message = f"{message} Auto is {chosen.speculation.method.value} here."
    return replace(resolved, message=message, checkpoint=summary.summarise(judged) if judged else None)


def _judged(
    spec: SpeculativeDeploymentSpec,
    source: headsource.Source,
    found: inspection.Inspection,
    *,
    judged: checkpoints.Inspection | None,
    known: Mapping[str, revisions.Revision],
) -> Resolution:
    """Return what the spec comes down to, given what Inspect read and what that amounts to."""
    if found.target is None:
        raise AssertionError("asked for before the target was read")
    unfit = suitability.of_target(judged)
    if unfit:
        # Not even the server without a draft would start; what serves stays.
        return Resolution(accepted=False, reason=RolloutReason.TARGET_UNFIT, message=f"The target: {unfit}.")
    baseline = revisions.control_of(_inputs(spec, found.target, draft=None))
    refused = _refused(spec, baseline, judged)
    if refused is not None:
        return refused
    unresolved = _unresolved(source, found, baseline)
    if unresolved is not None or found.result is None:
        return unresolved or _unread(found)
    if source.draft is None:
        return _resolved(spec, found.result, judged, baseline=baseline, source=source)
    return _fitted(spec, source, found.result, judged=judged, baseline=baseline, known=known)


def _refused(
    spec: SpeculativeDeploymentSpec, baseline: revisions.Inputs, judged: checkpoints.Inspection | None
) -> Resolution | None:
    """Return the refusal of a method that the engine or the target does not have; told before any server is made."""
    wanted = spec.speculation
    why = methods.refusal(wanted.method, scheduled=bool(wanted.schedule), version=baseline.engine_version)
    why = why or suitability.of_method(spec, judged).removesuffix(".")
    if not why:
        return None
    reason = RolloutReason.METHOD_UNSUPPORTED
    return Resolution(accepted=False, reason=reason, message=f"{why}.", baseline=baseline)


def _unresolved(
    source: headsource.Source, found: inspection.Inspection, baseline: revisions.Inputs
) -> Resolution | None:
    """Return why there is only a baseline; None when all that was asked for has been read."""
    if found.error:
        reason = RolloutReason.SOURCE_UNREADABLE
        return Resolution(accepted=False, reason=reason, message=found.error, baseline=baseline)
    if source.missing:
        reason = RolloutReason.TRAINING_JOB_NOT_FOUND
        return Resolution(accepted=False, reason=reason, message=source.missing, baseline=baseline)
    if found.result is None:
        message = "The head is being read; what serves stays until it is known to fit the target."
        return Resolution(accepted=None, reason=RolloutReason.INSPECTING, message=message, baseline=baseline)
    if source.awaiting:
        message = "Target read; the head is still to come."
        return Resolution(
            accepted=True, reason=RolloutReason.RESOLVED, message=message, baseline=baseline, awaiting=source.awaiting
        )
    return None


def _unread(found: inspection.Inspection) -> Resolution:
    if found.error:
        return Resolution(accepted=False, reason=RolloutReason.SOURCE_UNREADABLE, message=found.error)
    return Resolution(
        accepted=None, reason=RolloutReason.INSPECTING, message="The files of target and head are being read."
    )


def _fitted(
    spec: SpeculativeDeploymentSpec,
    source: headsource.Source,
    result: stages.InspectResult,
    *,
    judged: checkpoints.Inspection | None,
    baseline: revisions.Inputs,
    known: Mapping[str, revisions.Revision],
) -> Resolution:
    """Return the resolution of a head that exists: it fits, is stale, or belongs to another target."""
    strange = source.trained_on not in {None, result.digest}
    unfit, reason = suitability.of_head(judged)
    if judged is not None and judged.head is None:
        reason = RolloutReason.DRAFT_UNAVAILABLE
    problems = [*result.head_problems, *unfit]
    if not problems and not strange:
        return _resolved(spec, result, judged, baseline=baseline, source=source)
    problem = "; ".join(problems) or (
        f"the head was trained for target {str(source.trained_on)[:19]}, but this one is {result.digest[:19]}"
    )
    if strange or _served_another_target(source, result, known):
        trainer = f"DraftTrainingJob {source.head.training_job}" if source.head else "a DraftTrainingJob"
        message = f"The target has changed since the head was trained: {problem}. Train a new head ({trainer}) for it."
        return Resolution(
            accepted=False,
            reason=RolloutReason.HEAD_MISMATCH,
            message=message[:1024],
            baseline=baseline,
            stale=message[:1024],
        )
    message = f"The head cannot be used: {problem}"
    return Resolution(accepted=False, reason=reason, message=f"{message[:1023]}.", baseline=baseline)


def _served_another_target(
    source: headsource.Source, result: stages.InspectResult, known: Mapping[str, revisions.Revision]
) -> bool:
    """Whether this very head was resolved before, for a target that is not this one."""
    return any(
        one.inputs.draft == source.draft and one.inputs.target.digest != result.digest
        for one in known.values()
        if one.inputs.draft is not None
    )


def _resolved(
    spec: SpeculativeDeploymentSpec,
    result: stages.InspectResult,
    judged: checkpoints.Inspection | None,
    *,
    baseline: revisions.Inputs,
    source: headsource.Source,
) -> Resolution:
    doubts = suitability.warnings(judged)
    told = f" with {doubts} warnings, see status.checkpoint" if doubts else ""
    return Resolution(
        accepted=True,
        reason=RolloutReason.RESOLVED,
        message=f"Target {result.digest[7:19]} ({result.architecture}) read"
        + (f", and the head fits it{told}." if source.draft else f"{told}."),
        baseline=baseline,
        desired=_inputs(spec, result, draft=source.draft),
        head=source.head,
    )


def _inputs(
    spec: SpeculativeDeploymentSpec, target: stages.InspectResult, *, draft: revisions.DraftInput | None
) -> revisions.Inputs:
    """Return what the spec asks for; defaults of the method at hand are written down, others are left out."""
    wanted = spec.speculation
    looks_up = wanted.method in {Method.NGRAM, Method.NGRAM_GPU}
    return revisions.Inputs(
        target=revisions.TargetInput.model_validate({**headsource.served(spec.target), "digest": target.digest}),
        engine=spec.engine,
        engine_version=engine_base.version_of(spec.engine),
        method=wanted.method,
        num_speculative_tokens=wanted.num_speculative_tokens if wanted.method is not Method.NONE else 0,
        draft=draft,
        ngram=(wanted.ngram or NgramSpec()) if looks_up else None,
        suffix=(wanted.suffix or SuffixSpec()) if wanted.method is Method.SUFFIX else None,
        schedule=sorted(wanted.schedule, key=lambda step: step.up_to_concurrency) if wanted.schedule else None,
        draft_tensor_parallel_size=wanted.draft_tensor_parallel_size,
    )
