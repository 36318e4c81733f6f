"""Volumes that one node, or one pod, holds alone: an arm that would wait for such a volume in vain is never made.

A model on a ReadWriteOnce claim is on the node of the pods that serve it. The scheduler places an arm by its devices,
and a kubelet elsewhere then waits for the volume until a deadline ends the rollout. Access modes are in the claim, so
where the operator may read claims this is known before any pod is made.
"""

from collections.abc import Mapping
from typing import Any, Final

from paceline.api.speculativedeployment import Strategy
from paceline.capacity import forecast, placement
from paceline.planning import fleet
from paceline.rollout.documents import revisions
from paceline.rollout.steps import Case
from paceline.rollout.view import observe

_REMEDY: Final = "Use a claim with access mode ReadOnlyMany or ReadWriteMany"


def in_vain(case: Case, revision: revisions.Revision, count: int) -> str:
    """Return why ``count`` pods of a revision beside stable's would wait in vain; empty when they would not.

    Empty too where nobody can know, and then deadlines decide.
    """
    seen = case.seen
    server, stable = seen.server(seen.history.stable), seen.revisions.get(seen.history.stable)
    if seen.devices is None or server is None or stable is None:
        return ""
    nodes = sorted({pod.node for pod in server.pods if pod.node})
    held = _held(seen, seen.devices, revision, stable)
    if not held or not nodes:
        return ""
    name, mode = held
    where = ", ".join(nodes)
    if mode == fleet.ONE_POD:
        if seen.owner.spec.rollout.strategy is Strategy.REPLACE:
            return ""  # the scheduler keeps the arm waiting until stable's pod is gone
        return (
            f"Claim {name} is {mode}, and a pod of stable has it; no arm beside it could start. {_REMEDY}, or set"
            " rollout.strategy: Replace."
        )
    claim = forecast.Claim.of(revision.template["spec"], count)
    pinned = forecast.Claim(count=count, requests=claim.requests, template=placement.pinned(claim.template, nodes))
    if forecast.forecast(seen.devices, seen.standing.promised, pinned).is_enough:
        return ""
    return (
        f"Claim {name} is {mode}, and mounted on {where}, where an arm has no room; on another node it would wait for"
        f" the volume in vain. {_REMEDY}, or free {next(iter(claim.requests), 'devices')} on {where}."
    )


def _held(
    seen: observe.Observed, world: fleet.Fleet, revision: revisions.Revision, stable: revisions.Revision
) -> tuple[str, str] | None:
    """Return name and access mode of a claim that stable's pods have alone and the revision mounts; None without."""
    shared = sorted(_mounted(revision.template) & _mounted(stable.template))
    alone = ((name, world.claims.get((seen.owner.namespace, name), "")) for name in shared)
    return min((one for one in alone if one[1]), key=lambda one: one[1] != fleet.ONE_POD, default=None)


def _mounted(template: Mapping[str, Any]) -> frozenset[str]:
    volumes = template["spec"].get("volumes") or ()
    return frozenset(one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one)
