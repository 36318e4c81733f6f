"""The order in which policies are asked: one pass over one SpeculativeDeployment. The order is the design."""

from dataclasses import replace
from typing import Final

from paceline.api.measurement import Purpose
from paceline.planning import plan
from paceline.rollout import alternation, drains, execution, growth, opening, promotion, recovery, seating, verbs
from paceline.rollout.guarding import guard, suspicion
from paceline.rollout.places import handover
from paceline.rollout.resolving import headsource, inspection, resolve
from paceline.rollout.steps import Case, Step
from paceline.rollout.telling import settled, status
from paceline.rollout.traffic import front, weights
from paceline.rollout.view import observe

_AGAIN_S: Final = 1.0


def reconcile(seen: observe.Observed, training_job: plan.Manifest | None, now: float) -> plan.Plan:
    """Return the plan for one resource."""
    if seen.damaged:
        return status.damaged(seen, now)
    if front.is_outdated(seen, now):
        return plan.Plan(requeue_after_s=_AGAIN_S)
    source = headsource.find(seen.owner.spec, training_job, seen.revisions)
    named = seen.owner.spec.speculation.draft
    subject = inspection.Subject(
        target=seen.owner.spec.target,
        head=source.draft,
        head_credentials=named.credentials_secret if named else None,
    )
    found = inspection.inspect(seen, subject, now)
    resolution = resolve.resolve(seen.owner.spec, source, found, seen.revisions)
    wanted = opening.goal(seen, resolution)
    watched = suspicion.watch(seen, now) if guard.is_on(seen) else None
    step = next_step(seen, wanted, resolution=resolution, watched=watched, now=now)
    answer = execution.Answer(goal=wanted, resolution=resolution, found=found, watched=watched, step=step)
    return execution.carry_out(seen, answer, now)


def next_step(
    seen: observe.Observed,
    wanted: opening.Goal,
    *,
    resolution: resolve.Resolution,
    watched: suspicion.Watch | None,
    now: float,
) -> Step:
    """Return where the rollout stands and what brings it on; the first policy that has an answer gives it."""
    if seen.history.open is None and weights.draining_s(seen, seen.history, now) is not None:
        # Streams of a candidate that had a share still end; two candidates never stand side by side.
        return _settled(seen, wanted, resolution)
    undone = verbs.undo(seen, workload=opening.workload(seen.owner.spec), now=now)
    if undone is not None:
        return undone
    if seen.history.open is not None:
        return advance(Case(seen=seen, record=seen.history.open.record, now=now), wanted)
    opened = recovery.due(seen, now) or handover.describe(seen, now) or opening.open_rollout(seen, wanted, now)
    if opened is not None:
        return opened
    suspected = guard.suspect(seen, watched, now) if watched is not None else None
    return suspected or handover.overdue(seen, now) or _settled(seen, wanted, resolution)


def _settled(seen: observe.Observed, wanted: opening.Goal, resolution: resolve.Resolution) -> Step:
    """Return where a settled resource stands, and what a person asks for in vain."""
    step, unheeded = settled.describe(seen, wanted, resolution), verbs.unheeded(seen, wanted.digest)
    return replace(step, message=f"{step.message} {unheeded}"[:1024]) if unheeded else step


def advance(case: Case, wanted: opening.Goal) -> Step:
    """Return the next step of an open rollout, with what is remembered whatever it decides."""
    marked = drains.marked(case)
    step = growth.settle(marked, _decide(marked, wanted))
    return step if step.record is not None or marked is case else replace(step, record=marked.record)


def _decide(case: Case, wanted: opening.Goal) -> Step:
    """Return the next step by why the rollout was opened."""
    ended = verbs.abort(case) or opening.overtaken(case, wanted) or seating.settle(case)
    if ended is not None:
        return ended
    match case.record.purpose:
        case Purpose.BASELINE:
            return promotion.advance_baseline(case)
        case Purpose.CANDIDATE:
            return alternation.advance(case) if case.record.turns else promotion.advance_candidate(case)
        case Purpose.GUARD:
            return guard.advance(case)
        case Purpose.UNDO:
            return verbs.advance_undo(case)
        case Purpose.RECOVERY:
            return recovery.advance(case)
