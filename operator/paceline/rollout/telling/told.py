"""The conditions of a SpeculativeDeployment: what each says, and which of their reasons are warnings."""

from typing import Final

from paceline.api import names
from paceline.api.conditions import ConditionType, RolloutReason
from paceline.api.measurement import Purpose
from paceline.judge import comparison
from paceline.planning import conditions
from paceline.rollout.documents import records
from paceline.rollout.guarding import suspicion
from paceline.rollout.places import downtime
from paceline.rollout.resolving import resolve
from paceline.rollout.steps import Step
from paceline.rollout.telling import settled
from paceline.rollout.view import observe, parts

_WARNINGS: Final = frozenset(
    {
        RolloutReason.SOURCE_UNREADABLE,
        RolloutReason.TRAINING_JOB_NOT_FOUND,
        RolloutReason.HEAD_MISMATCH,
        RolloutReason.DRAFT_UNAVAILABLE,
        RolloutReason.TARGET_UNFIT,
        RolloutReason.INVALID_SPEC,
        RolloutReason.DAMAGED_RECORD,
        RolloutReason.NO_READY_ENDPOINTS,
        RolloutReason.INSUFFICIENT_GPU,
        RolloutReason.NO_FREE_GPU,
        RolloutReason.VOLUME_EXCLUSIVE,
        RolloutReason.CONSENT_NEEDED,
        RolloutReason.NOT_RECOVERED,
        RolloutReason.RECOVERY_UNCONFIRMED,
        RolloutReason.SLOWER_THAN_CONTROL,
        RolloutReason.SLOWER_THAN_STABLE,
        RolloutReason.NO_GAIN,
        RolloutReason.DEAD_DRAFT,
        RolloutReason.HEAD_LOAD_FAILED,
        RolloutReason.ENGINE_FAILED,
        RolloutReason.INCONCLUSIVE,
        RolloutReason.OUT_OF_MEMORY,
        RolloutReason.VOLUME_UNAVAILABLE,
        RolloutReason.DEADLINE_EXCEEDED,
        *settled.OVERDUE.values(),
        RolloutReason.ANALYSIS_DEADLINE_EXCEEDED,
        RolloutReason.HANDOVER_DEADLINE_EXCEEDED,
        RolloutReason.HELD_DEADLINE_EXCEEDED,
        RolloutReason.METHOD_UNSUPPORTED,
        RolloutReason.LIVE_BELOW_BASELINE,
        RolloutReason.REQUEST_ERRORS,
        RolloutReason.ACCEPTANCE_FELL,
        RolloutReason.HELD,
        RolloutReason.ROUTES_UNSEEN,
        RolloutReason.ROUTE_NOT_FOUND,
        RolloutReason.ROUTE_UNFIT,
        RolloutReason.ROUTE_NOT_ACCEPTED,
        RolloutReason.ROUTE_CONFLICT,
    }
)


def said(kind: ConditionType, status: bool | None, reason: RolloutReason, message: str) -> conditions.Said:  # noqa: FBT001
    """Return what a condition says; a status of None is Unknown."""
    return conditions.Said(
        type=kind.value, status=status, reason=reason.value, message=message, warning=reason in _WARNINGS
    )


def available(seen: observe.Observed, history: records.History, server: parts.Server | None) -> conditions.Said:
    """Return whether users are served: by what the Service selects, which is stable but for a moment."""
    serving = seen.servers.get(seen.front.selected) if seen.front else None
    wanted = seen.owner.spec.replicas
    if serving is not None and serving.ready:
        message = f"Revision {serving.revision} serves with {len(serving.ready)} of {wanted} replicas."
        return said(ConditionType.AVAILABLE, True, RolloutReason.SERVING, message)  # noqa: FBT003
    if wanted == 0:
        message = "spec.replicas is 0; set it to 1 or more to serve."
    elif server is None:
        message = "No revision serves yet; see condition Progressing."
    else:
        message = downtime.why_stopped(history)
        message = message or f"Revision {names.short(history.stable)} has no ready pod; see its pods' events and logs."
    return said(ConditionType.AVAILABLE, False, RolloutReason.NO_READY_ENDPOINTS, message)  # noqa: FBT003


def progressing(step: Step, history: records.History) -> conditions.Said:
    """Return whether a rollout is on its way, or how the last one ended."""
    reason = step.reason
    if step.record is not None and step.record.decision is not None and history.last is not None:
        reason = settled.condition_reason(history.last)
    elif not step.progressing:
        reason = settled.OVERDUE.get(reason, reason)
    return said(ConditionType.PROGRESSING, step.progressing, reason, step.message)


def speculating(seen: observe.Observed, stable: str, resolution: resolve.Resolution) -> conditions.Said:
    """Return whether what serves users drafts."""
    revision = seen.revisions.get(stable)
    if revision is not None and revision.inputs.speculates:
        message = f"Revision {revision.short} drafts: {revision.inputs.title}."
        return said(ConditionType.SPECULATING, True, RolloutReason.DRAFT_SERVING, message)  # noqa: FBT003
    reason = RolloutReason.HEAD_STALE if resolution.stale else RolloutReason.NO_DRAFT
    message = resolution.stale or "What serves uses no draft."
    return said(ConditionType.SPECULATING, False, reason, message)  # noqa: FBT003


def suspect(history: records.History, watched: suspicion.Watch) -> conditions.Said:
    """Return the guard's condition; its message holds no figure that moves with every scrape."""
    opened = history.open.record if history.open else None
    if opened is not None and opened.purpose is Purpose.GUARD:
        message = f"Rollout {opened.number} measures whether speculation still pays on users' traffic."
        return said(ConditionType.SUSPECT, True, RolloutReason.CONFIRMING, message)  # noqa: FBT003
    match watched.verdict:
        case comparison.Verdict.FAIL:
            message = "Users' requests accept less of the draft than speculation costs; see status.guard."
            message += _unconfirmed(history)
            return said(ConditionType.SUSPECT, True, RolloutReason.ACCEPTANCE_FELL, message[:1024])  # noqa: FBT003
        case comparison.Verdict.PASS:
            message = "Users' requests accept more of the draft than speculation costs."
            return said(ConditionType.SUSPECT, False, RolloutReason.HEALTHY, message)  # noqa: FBT003
        case comparison.Verdict.INCONCLUSIVE:
            message = "Too few drafts of users' requests were counted in the window to say anything."
            if watched.reason is RolloutReason.UNLIKE_PROMPTS:
                message = "Users' prompts are far longer than those of rollout.analysis.prompts; measure on such."
            return said(ConditionType.SUSPECT, None, watched.reason, message)


def _unconfirmed(history: records.History) -> str:
    """Return why the last confirmation of what serves brought no verdict; empty when it did, or there was none."""
    last = history.last_confirmation
    ended = last is not None and last.reason == RolloutReason.ABORTED
    return f" Its last confirmation ended without a verdict: {last.message}" if last is not None and ended else ""
