"""The order in which a pass decides. Each policy has its own file; this one is their index."""

from paceline.api import stages
from paceline.planning import kinds, plan
from paceline.planning import view as views
from paceline.training import (
    advance,
    collect,
    deadline,
    failure,
    observe,
    results,
    status,
    step,
    success,
    suitability,
    suspend,
    ttl,
)


def reconcile(view: views.View, key: plan.Key, now: float) -> plan.Plan | None:
    """Return the plan for one DraftTrainingJob; None when it is gone."""
    resource = view.get(kinds.DRAFT_TRAINING_JOB, key.namespace, key.name)
    if resource is None:
        return None
    if "deletionTimestamp" in plan.metadata(resource):
        return plan.Plan()  # owner references take everything with it
    try:
        seen = observe.observe(view, resource)
    except ValueError as error:
        refused, events = status.refuse(resource, error, now)
        return plan.Plan(status=refused, events=tuple(events))

    record = collect.collect(seen, now)
    record = suitability.judge(seen, record, now)
    record = success.judge(seen, record, now)
    record = failure.judge(seen, record, now)
    record = deadline.judge(seen, record, now)
    decided = (
        ttl.after_finish(seen, record, now)
        or suspend.hold(seen, record)
        or suitability.hold(seen, record)
        or advance.next_stage(seen, record, now)
    )
    return _sealed(seen, record, decided, live=_live(view, seen), now=now)


def _sealed(
    seen: observe.Observed,
    record: results.Record,
    decided: step.Step,
    *,
    live: dict[str, stages.LiveProgress],
    now: float,
) -> plan.Plan:
    """Return the plan: what is remembered is written first, so that no later step builds on what could be forgotten."""
    if decided.ends is not None:
        record = collect.retire(record, decided.ends, now=now)
    draft = plan.Draft()
    memory = results.write(seen.resource, seen.record_object, record, decided.claim)
    draft.actions.extend(([memory] if memory else []) + list(decided.actions))
    if decided.look_again_s is not None:
        draft.look_again(decided.look_again_s)
    rendered, events = status.render(seen, record, decided, live=live, now=now)
    draft.events.extend(events)
    return draft.plan(rendered)


def _live(view: views.View, seen: observe.Observed) -> dict[str, stages.LiveProgress]:
    pods = [pod.uid for job in seen.stage_jobs.values() for pod in job.pods if pod.running]
    return {uid: said for uid in pods if (said := view.progress(uid)) is not None}
