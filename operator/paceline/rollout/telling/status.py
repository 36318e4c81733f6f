"""The status: a projection that can be rebuilt from revisions, records and workloads at any time."""

from typing import Any

from paceline.api import names
from paceline.api.conditions import ConditionType, RolloutReason
from paceline.api.measurement import Purpose
from paceline.api.rolloutstatus import RevisionStatus
from paceline.api.speculativedeployment import SpeculativeDeploymentStatus
from paceline.planning import conditions, plan
from paceline.rollout.documents import records, workloads
from paceline.rollout.guarding import suspicion
from paceline.rollout.resolving import resolve
from paceline.rollout.steps import Step
from paceline.rollout.telling import standing, told
from paceline.rollout.traffic import routing
from paceline.rollout.view import observe


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
        told.said(ConditionType.ACCEPTED, resolution.accepted, resolution.reason, resolution.message),
        told.available(seen, history, server),
        told.progressing(step, history),
        told.speculating(seen, stable, resolution),
    ]
    if watched is not None:
        said.append(told.suspect(history, watched))
    routed = routing.describe(seen, history, now)
    if routed is not None:
        said.append(told.said(ConditionType.ROUTED, routed.is_fine, routed.reason, routed.message))
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
        rollout=standing.describe(seen, history, step, now),
        guard=standing.of_guard(watched),
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
    said = told.said(ConditionType.ACCEPTED, False, reason, message[:1024])  # noqa: FBT003 - a condition's status
    merged, events = conditions.merge(previous, [said], generation=generation, now=now)
    kept = [one for one in previous if one["type"] != ConditionType.ACCEPTED]
    together = sorted([*kept, *merged], key=lambda one: one["type"])
    status = {**stored, "observedGeneration": generation, "conditions": together}
    return plan.Plan(status=status, events=tuple(events))


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
