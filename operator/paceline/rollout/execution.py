"""Turns a pass's answers into ordered writes: evidence first, then what users reach, then arms that go and that come.

A crash between any two of them leaves a state from which the next pass does the rest. One that comes again and again
must not keep users from what was decided for them, so nothing but evidence goes before the front Service.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paceline.api.measurement import RolloutRecord
from paceline.capacity import ledger
from paceline.planning import kinds, plan
from paceline.rollout import analysis, arms, disruption, growth, opening, verbs
from paceline.rollout.documents import claims, records, revisions, workloads
from paceline.rollout.guarding import suspicion
from paceline.rollout.places import copies, turns
from paceline.rollout.resolving import inspection, resolve
from paceline.rollout.steps import Step
from paceline.rollout.telling import status
from paceline.rollout.traffic import front, routing, weights
from paceline.rollout.view import observe

# Scrapes come every 15 seconds; the guard looks as often.
_GUARD_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the policies said in one pass."""

    goal: opening.Goal
    resolution: resolve.Resolution
    found: inspection.Inspection
    watched: suspicion.Watch | None
    """None when there is nothing to watch."""
    step: Step


def carry_out(seen: observe.Observed, answer: Answer, now: float) -> plan.Plan:
    """Return the plan that an answer amounts to."""
    step, draft = verbs.remembering(seen, answer.step), plan.Draft()
    after = seen.history.with_(step.record) if step.record else seen.history
    wanted, draining_s = arms.wanted(seen, after, full=step.full, now=now)
    draft.actions += answer.found.actions
    made = _missing_revisions(seen, after, answer)
    draft.actions += made
    draft.actions += _stored(seen, after, step, made)
    weighed = routing.carry_out(seen, after, now)
    draft.actions += weighed.withdrawals
    draft.actions += front.actions(seen, after, now)
    draft.actions += disruption.actions(seen)
    # What is over goes before anything new comes: a crash between two rollouts must not leave both on one node.
    draft.actions += arms.delete_unwanted(seen, wanted)
    draft.actions += arms.create_and_scale(seen, wanted)
    draft.actions += step.actions
    draft.actions += weighed.actions
    draft.actions += analysis.superfluous(seen, step.job)
    draft.actions += answer.found.clean_up
    draft.actions += _forgotten(seen, after, answer.goal)
    watches = _GUARD_S if answer.watched is not None else None
    for wait in (step.look_again_s, draining_s, weighed.look_again_s, answer.found.look_again_s, watches):
        if wait is not None:
            draft.look_again(wait)
    told, draft.events = status.project(seen, after, answer.resolution, watched=answer.watched, step=step, now=now)
    return draft.plan(told)


def _stored(
    seen: observe.Observed, after: records.History, step: Step, made: Sequence[plan.Action]
) -> Sequence[plan.Action]:
    """Return the write of a record that has changed, or whose claim on devices has.

    ``made`` holds the revisions this pass creates.
    """
    opened = after.numbered(step.record.number) if step.record is not None else after.open
    if opened is None:
        return []
    claim = _claim(seen, opened.record, full=step.full, made=made)
    if step.record is None and opened.claims is not None and ledger.is_kept(opened.claims, claim):
        return []
    return [records.write(opened, owner=seen.owner.manifest, labels=seen.owner.labels, claim=claim)]


def _claim(
    seen: observe.Observed, record: RolloutRecord, *, full: str, made: Sequence[plan.Action]
) -> Mapping[str, Any]:
    replicas = seen.owner.spec.replicas
    sizes = claims.Sizes(
        replicas=replicas,
        slot=turns.slot(seen, record),
        share=growth.bounded(seen, record, weights.share(seen, record).replicas) if record.weight else 0,
        full=full,
        copied=copies.claimed_for(record, replicas=replicas),
        grows=turns.newcomer(record) if record.asked_replicas else "",
    )
    fresh = [one.manifest["data"] for one in made if isinstance(one, plan.Create)]
    templates = {digest: revision.template for digest, revision in seen.revisions.items()}
    templates |= {data["digest"]: data["template"] for data in fresh}
    return claims.document(record, claims.of(record, sizes), templates)


def _missing_revisions(seen: observe.Observed, after: records.History, answer: Answer) -> Sequence[plan.Action]:
    """Return the creation of revisions that a rollout needs and that do not exist, as far as their inputs are known."""
    goal, baseline = answer.goal.inputs, answer.resolution.baseline
    known = [one for one in (goal, revisions.control_of(goal) if goal else None, baseline) if one is not None]
    opened = after.open.record if after.open else None
    needed = {after.stable} | ({opened.candidate, opened.control} if opened else set())
    number = max((one.number for one in seen.revisions.values()), default=0)
    weights_bytes = answer.found.target.weights_bytes if answer.found.target else 0
    actions: list[plan.Action] = []
    for inputs in {one.digest: one for one in known}.values():
        if inputs.digest not in needed or inputs.digest in seen.revisions:
            continue
        number += 1
        manifest = revisions.manifest(
            owner=seen.owner.manifest,
            labels=seen.owner.labels,
            inputs=inputs,
            head=answer.resolution.head if inputs.draft else None,
            template=workloads.server_template(seen.owner, inputs, weights_bytes),
            number=number,
        )
        actions.append(plan.Create(manifest=manifest))
    return actions


def _forgotten(seen: observe.Observed, after: records.History, goal: opening.Goal) -> Sequence[plan.Action]:
    """Return the deletion of records and revisions beyond the history's limit."""
    limit = seen.owner.spec.revision_history_limit
    old = [
        workloads.delete(seen.owner, kinds.CONFIG_MAP, name=one.name, uid=one.uid)
        for one in records.superfluous(after, limit=limit)
        if one.uid is not None
    ]
    spare = revisions.superfluous(seen.revisions.values(), needed=_needed(after, goal), limit=limit)
    unused = [
        workloads.delete(seen.owner, kinds.CONTROLLER_REVISION, name=one.name, uid=one.uid)
        for one in spare
        if one.short not in seen.servers
    ]
    return [*old, *unused]


def _needed(after: records.History, goal: opening.Goal) -> frozenset[str]:
    """Return the revisions that may be loaded again: what serves, its control, what served before, what is wanted."""
    promotion, change = after.promotion_of(after.stable), after.last_change
    opened = after.open.record if after.open else None
    needed = {after.stable, goal.digest}
    needed |= {promotion.control} if promotion else set()
    needed |= {change.stable} if change else set()
    needed |= {opened.candidate, opened.control} if opened else set()
    return frozenset(needed)
