"""The PodDisruptionBudget of what serves: a drain of nodes takes serving pods one by one, and no others are counted.

It selects what the front Service selects, so that candidates, controls and measuring copies are neither protected nor
mistaken for serving pods. It never forbids an eviction altogether: the drain of a single replica's node would not end.
"""

from collections.abc import Sequence
from typing import Any, Final

from paceline.api import names
from paceline.planning import kinds, plan
from paceline.rollout.documents import workloads
from paceline.rollout.view import observe, parts

PART: Final = "budget"


def actions(seen: observe.Observed) -> Sequence[plan.Action]:
    """Return the write that makes the budget follow the front Service; none when it does."""
    front, budget, wanted = seen.front, seen.budget, seen.owner.spec.disruption_budget
    if not wanted.enabled:
        return () if budget is None else (_delete(seen, budget),)
    if front is None:
        return ()
    if budget is None:
        return (plan.Create(manifest=_manifest(seen, front)),)
    if dict(budget.selector) == dict(front.selector) and budget.max_unavailable == wanted.max_unavailable:
        return ()
    return (plan.Apply(manifest=_manifest(seen, front), uid=budget.uid),)


def name(owner: str) -> str:
    """Return the budget's name: not the resource's own, which a budget that a person made may have."""
    return names.child(owner, PART, owner)


def _delete(seen: observe.Observed, budget: parts.Budget) -> plan.Action:
    kind = kinds.POD_DISRUPTION_BUDGET
    return workloads.delete(seen.owner, kind, name=name(seen.owner.name), uid=budget.uid)


def _manifest(seen: observe.Observed, front: parts.Front) -> dict[str, Any]:
    kind, wanted = kinds.POD_DISRUPTION_BUDGET, seen.owner.spec.disruption_budget
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": seen.owner.metadata(name(seen.owner.name), part=PART),
        "spec": {"selector": {"matchLabels": dict(front.selector)}, "maxUnavailable": wanted.max_unavailable},
    }
