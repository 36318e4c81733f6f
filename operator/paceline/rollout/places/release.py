"""When stable gives up a replica for a newcomer: not before the newcomer waits for its GPUs and would get them.

The newcomer's pod exists and is Pending first. It has to come before whoever else waits for such a node, or the spec
has to consent to losing the node; and it is noted before stable is scaled down, so that a restart goes on from there.
"""

from typing import Final

from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Purpose, Seating
from paceline.planning import conditions
from paceline.rollout.documents import claims, revisions
from paceline.rollout.places import downtime
from paceline.rollout.steps import Case, Step
from paceline.rollout.view import observe, podview

_AGAIN_S: Final = 15.0


def consent(seen: observe.Observed, revision: revisions.Revision) -> str:
    """Return what the spec has to say before stable's GPUs may be released for a revision; empty if it says enough."""
    policy = seen.owner.spec.rollout.replace_policy
    if policy.allow_node_loss or revision.template["spec"].get("priorityClassName"):
        return ""
    return (
        "Another pod could take the GPUs that stable releases: set engine.podTemplate.priorityClassName to a class that"
        " comes first and has preemptionPolicy: Never, or consent by rollout.replace.allowNodeLoss: true."
    )


def due(case: Case, digest: str) -> Step | None:
    """Return the step by which stable gives up a replica for a newcomer that waits for it; None when none is due."""
    record, server = case.record, case.seen.server(digest)
    if server is None or record.seating not in claims.IN_STABLES_PLACE:
        return None
    if record.released_at is not None or record.paused:
        return None
    waiting = next((pod for pod in server.pods if pod.scheduled_at is None and pod.unschedulable), None)
    if waiting is None or digest == record.stable:
        return None
    stable = case.seen.server(record.stable)
    if record.purpose is Purpose.GUARD and record.seating is Seating.STOPPED and stable and stable.ready:
        # It serves again: its only place is not given up on a suspicion.
        return None
    rival = _ahead_of(case.seen, waiting)
    if rival and not case.seen.owner.spec.rollout.replace_policy.allow_node_loss:
        return Step(
            reason=RolloutReason.INSUFFICIENT_GPU,
            message=f"Stable keeps its replica: {rival} Raise the priority class of engine.podTemplate, or consent by"
            " rollout.replace.allowNodeLoss: true.",
            look_again_s=_AGAIN_S,
        )
    return _released(case, waiting)


def _ahead_of(seen: observe.Observed, pod: podview.Pod) -> str:
    """Return which pod would get the GPUs first; empty when none is known of."""
    if seen.devices is None:
        return "" if pod.priority > 0 else f"pod {pod.name} has no priority over others."
    mine = seen.devices.holdings.get(pod.uid)
    others = [
        one
        for one in seen.devices.holdings.values()
        if not one.node and one.uid != pod.uid and one.priority >= pod.priority
    ]
    if mine is None or not others:
        return ""
    first = max(others, key=lambda one: one.priority)
    return f"a pod of priority {first.priority} in namespace {first.namespace} waits for GPUs too."


def _released(case: Case, pod: podview.Pod) -> Step:
    changed: dict[str, object] = {"released_at": conditions.timestamp(case.now)}
    said = f"Stable gives up a replica for pod {pod.name}, which waits for its GPUs."
    if case.record.seating is Seating.STOPPED:
        cost = downtime.estimate(case)
        changed |= {"expected_downtime_s": cost.expected_s, "longest_downtime_s": cost.longest_s}
        said += (
            f" Users have no service for about {downtime.in_words(cost.expected_s)}, at most"
            f" {downtime.in_words(cost.longest_s)}."
        )
    return Step(reason=RolloutReason.RELEASING, message=said, record=case.record.model_copy(update=changed))
