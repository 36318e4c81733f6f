"""The status: a projection that can be rebuilt from revisions, records and workloads at any time."""

from collections.abc import Sequence
from typing import Any, Final

from paceline.api import names
from paceline.api.conditions import ConditionType, RolloutReason
from paceline.api.measurement import Mode, Purpose, RolloutRecord, Seating
from paceline.api.speculativedeployment import (
    BandStatus,
    ComparisonStatus,
    GuardStatus,
    RevisionStatus,
    RolloutStatus,
    SpeculativeDeploymentStatus,
)
from paceline.judge import comparison
from paceline.judge import guard as judge
from paceline.planning import conditions, plan
from paceline.rollout import (
    analysis,
    copies,
    downtime,
    observe,
    promotion,
    records,
    release,
    resolve,
    settled,
    suspicion,
    weights,
    workloads,
)
from paceline.rollout.steps import Case, Step

_PERCENT_STEP: Final = 5  # finer progress would be a write every few seconds
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
        RolloutReason.CONSENT_NEEDED,
        RolloutReason.NOT_RECOVERED,
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
        RolloutReason.HELD_DEADLINE_EXCEEDED,
        RolloutReason.METHOD_UNSUPPORTED,
        RolloutReason.LIVE_BELOW_BASELINE,
        RolloutReason.REQUEST_ERRORS,
        RolloutReason.ACCEPTANCE_FELL,
        RolloutReason.HELD,
    }
)


def project(
    seen: observe.Observed,
    history: records.History,
    resolution: resolve.Resolution,
    *,
    watched: suspicion.Watch | None,
    step: Step,
    now: float,
) -> tuple[dict[str, Any], list[plan.Event]]:
    """Return the whole status, and the events of what changed in it."""
    stable = history.stable
    server = seen.server(stable)
    said = [
        _said(ConditionType.ACCEPTED, resolution.accepted, resolution.reason, resolution.message),
        _available(seen, stable, server),
        _progressing(step, history),
        _speculating(seen, stable, resolution),
    ]
    if watched is not None:
        said.append(_suspect(history, watched))
    merged, events = conditions.merge(seen.status.get("conditions") or (), said, generation=seen.generation, now=now)
    front = names.front(seen.owner.name)
    revision = seen.revisions.get(stable)
    status = SpeculativeDeploymentStatus(
        observed_generation=seen.generation,
        replicas=len(server.pods) if server else 0,
        ready_replicas=len(server.ready) if server else 0,
        selector=_selector(seen, stable),
        endpoint=f"http://{front}.{seen.owner.namespace}.svc:{seen.owner.spec.traffic.port}/v1" if seen.front else "",
        speculation=revision.inputs.title if revision else "",
        stable=_revision(seen, stable),
        candidate=_revision(seen, history.open.record.candidate) if _has_candidate(history) and history.open else None,
        rejected=[names.short(one) for one in history.rejected[: records.REMEMBERED_REJECTIONS]],
        rollout=_rollout(seen, history, step, now),
        guard=_guard(watched),
        checkpoint=resolution.checkpoint,
        target_digest=resolution.baseline.target.digest if resolution.baseline else None,
    )
    return {**status.wire(), "conditions": merged}, events


def damaged(seen: observe.Observed, now: float) -> plan.Plan:
    """Return the plan of a resource whose evidence cannot be read: nothing is touched, and it is told."""
    return refuse(
        seen.status, RolloutReason.DAMAGED_RECORD, "; ".join(seen.damaged), generation=seen.generation, now=now
    )


def refuse(stored: Any, reason: RolloutReason, message: str, *, generation: int, now: float) -> plan.Plan:
    """Return a plan that changes only condition Accepted: what runs, runs on."""
    previous = stored.get("conditions") or ()
    said = _said(ConditionType.ACCEPTED, False, reason, message[:1024])  # noqa: FBT003 - a condition's status
    merged, events = conditions.merge(previous, [said], generation=generation, now=now)
    kept = [one for one in previous if one["type"] != ConditionType.ACCEPTED]
    together = sorted([*kept, *merged], key=lambda one: one["type"])
    status = {**stored, "observedGeneration": generation, "conditions": together}
    return plan.Plan(status=status, events=tuple(events))


def _said(kind: ConditionType, status: bool | None, reason: RolloutReason, message: str) -> conditions.Said:  # noqa: FBT001
    return conditions.Said(
        type=kind.value, status=status, reason=reason.value, message=message, warning=reason in _WARNINGS
    )


def _available(seen: observe.Observed, stable: str, server: observe.Server | None) -> conditions.Said:
    """Return whether users are served: by what the Service selects, which is stable but for a moment."""
    serving = seen.servers.get(seen.front.selected) if seen.front else None
    wanted = seen.owner.spec.replicas
    if serving is not None and serving.ready:
        message = f"Revision {serving.revision} serves with {len(serving.ready)} of {wanted} replicas."
        return _said(ConditionType.AVAILABLE, True, RolloutReason.SERVING, message)  # noqa: FBT003
    if wanted == 0:
        message = "spec.replicas is 0; set it to 1 or more to serve."
    elif server is None:
        message = "No revision serves yet; see condition Progressing."
    else:
        message = f"Revision {names.short(stable)} has no ready pod; see its pods' events and logs."
    return _said(ConditionType.AVAILABLE, False, RolloutReason.NO_READY_ENDPOINTS, message)  # noqa: FBT003


def _progressing(step: Step, history: records.History) -> conditions.Said:
    reason = step.reason
    if step.record is not None and step.record.decision is not None and history.last is not None:
        reason = settled.condition_reason(history.last)
    elif not step.progressing:
        reason = settled.OVERDUE.get(reason, reason)
    return _said(ConditionType.PROGRESSING, step.progressing, reason, step.message)


def _speculating(seen: observe.Observed, stable: str, resolution: resolve.Resolution) -> conditions.Said:
    revision = seen.revisions.get(stable)
    if revision is not None and revision.inputs.speculates:
        message = f"Revision {revision.short} drafts: {revision.inputs.title}."
        return _said(ConditionType.SPECULATING, True, RolloutReason.DRAFT_SERVING, message)  # noqa: FBT003
    reason = RolloutReason.HEAD_STALE if resolution.stale else RolloutReason.NO_DRAFT
    message = resolution.stale or "What serves uses no draft."
    return _said(ConditionType.SPECULATING, False, reason, message)  # noqa: FBT003


def _suspect(history: records.History, watched: suspicion.Watch) -> conditions.Said:
    """Return the guard's condition; its message holds no figure that moves with every scrape."""
    opened = history.open.record if history.open else None
    if opened is not None and opened.purpose is Purpose.GUARD:
        message = f"Rollout {opened.number} measures whether speculation still pays on users' traffic."
        return _said(ConditionType.SUSPECT, True, RolloutReason.CONFIRMING, message)  # noqa: FBT003
    match watched.verdict:
        case comparison.Verdict.FAIL:
            message = "Users' requests accept less of the draft than speculation costs; see status.guard."
            return _said(ConditionType.SUSPECT, True, RolloutReason.ACCEPTANCE_FELL, message)  # noqa: FBT003
        case comparison.Verdict.PASS:
            message = "Users' requests accept more of the draft than speculation costs."
            return _said(ConditionType.SUSPECT, False, RolloutReason.HEALTHY, message)  # noqa: FBT003
        case comparison.Verdict.INCONCLUSIVE:
            message = "Too few drafts of users' requests were counted in the window to say anything."
            if watched.reason is RolloutReason.UNLIKE_PROMPTS:
                message = "Users' prompts are far longer than those of rollout.analysis.prompts; measure on such."
            return _said(ConditionType.SUSPECT, None, watched.reason, message)


def _has_candidate(history: records.History) -> bool:
    """Whether the open rollout is about a revision that does not serve yet."""
    return history.open is not None and history.open.record.purpose in {Purpose.BASELINE, Purpose.CANDIDATE}


def _selector(seen: observe.Observed, stable: str) -> str:
    if not stable:
        return ""
    return ",".join(f"{label}={value}" for label, value in sorted(workloads.selector(seen.owner, stable).items()))


def _revision(seen: observe.Observed, digest: str) -> RevisionStatus | None:
    revision = seen.revisions.get(digest)
    if revision is None:
        return None
    server = seen.server(digest)
    return RevisionStatus(
        name=revision.name,
        hash=revision.short,
        method=revision.inputs.method,
        num_speculative_tokens=revision.inputs.num_speculative_tokens,
        ready_replicas=len(server.ready) if server else 0,
    )


def _rollout(seen: observe.Observed, history: records.History, step: Step, now: float) -> RolloutStatus | None:
    if not history.stored:
        return None
    stored = history.stored[-1]
    record = stored.record
    case = Case(seen=seen, record=record, now=now)
    return RolloutStatus(
        candidate=names.short(record.candidate),
        evidence=stored.name,
        phase=record.decision.value if record.decision else step.reason.value,
        strategy=_strategy(record),
        evidence_mode=_evidence_mode(record),
        expected_downtime=_span(record.expected_downtime_s),
        longest_downtime=_span(record.longest_downtime_s),
        round=record.rounds,
        percent=_percent(case),
        comparisons=[_comparison(one) for one in _comparisons(case)],
        acceptance_length=_decimal(_acceptance(record), 2),
        measured_on=copies.in_words(case),
        weight=weights.in_place(seen, record),
        message=record.message if record.decision else step.message,
    )


def _strategy(record: RolloutRecord) -> str | None:
    if record.seating in {None, Seating.ASKED}:
        return None
    return "Replace" if record.seating in release.SEATINGS or record.rolls else "Surge"


def _evidence_mode(record: RolloutRecord) -> str | None:
    """Return how the arms live, or lived, whose comparison is the weakest."""
    if record.seating in {None, Seating.ASKED} or not (record.control or record.stable):
        return None
    return (Mode.ALTERNATING if record.turns else Mode.SIDE_BY_SIDE).value


def _span(seconds: int) -> str | None:
    return downtime.in_words(seconds) if seconds else None


def _percent(case: Case) -> int:
    """Return how much of the measuring is behind, at most: a verdict may come in any round."""
    if case.record.decision is not None:
        return 100
    job = case.seen.probes.get(analysis.probe_name(case))
    heard = [case.seen.progress[pod.uid].percent for pod in job.pods if pod.uid in case.seen.progress] if job else []
    rounds = case.record.rounds + max(heard, default=0) / 100
    percent = 100 * rounds / case.seen.owner.spec.rollout.analysis.max_rounds
    return min(100, int(percent) // _PERCENT_STEP * _PERCENT_STEP)


def _comparisons(case: Case) -> Sequence[analysis.Against]:
    if not case.record.measurements:
        return []
    return analysis.compare(case, promotion.rivals_of(case))


def _comparison(against: analysis.Against) -> ComparisonStatus:
    found = against.comparison
    return ComparisonStatus(
        against=against.rival,
        verdict=found.verdict.value,
        ratio=_decimal(found.ratio, 3),
        lower=_decimal(found.lower, 3),
        upper=_decimal(found.upper, 3),
        bands=[
            BandStatus(
                concurrency=band.concurrency,
                prompt_band=band.prompt_band,
                ratio=_decimal(band.ratio, 3),
                lower=_decimal(band.lower, 3),
                upper=_decimal(band.upper, 3),
            )
            for band in found.bands
        ],
    )


def _acceptance(record: RolloutRecord) -> float | None:
    arm = names.short(record.candidate)
    return judge.acceptance_length([one for one in record.measurements if one.arm == arm])


def _guard(watched: suspicion.Watch | None) -> GuardStatus | None:
    """Return what live traffic shows, so rounded that it does not change with every scrape."""
    if watched is None:
        return None
    return GuardStatus(
        acceptance_length=_decimal(watched.live.acceptance_length if watched.live else None, 1),
        break_even=_decimal(watched.break_even.value if watched.break_even else None, 2),
    )


def _decimal(value: float | None, digits: int) -> str | None:
    """Return a number as the API carries it; one that is out of its range is left out."""
    largest = 999_999
    return f"{value:.{digits}f}" if value is not None and 0 <= value <= largest else None
