"""One pod of a resource, reduced to what policies ask of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from paceline.planning import conditions, plan
from paceline.planning import view as views
from paceline.rollout.view import endings

_GONE_PHASES: Final = frozenset({"Failed", "Succeeded"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What a policy asks of a pod."""

    name: str
    uid: str
    created_at: float
    ip: str
    node: str
    phase: str
    ready: bool
    scheduled_at: float | None
    """None while it has no node."""
    unschedulable: str
    """The scheduler's message while it has no node."""
    restarts: int
    waiting: str
    """Reason for which the engine's container waits, such as ``ImagePullBackOff``; empty when it does not."""
    last_exit: str
    """How the engine's container last ended, in words; empty when it never did."""
    message: str
    """Termination message of the main container; empty while it runs."""
    waiting_message: str = ""
    """What Kubernetes says beside ``waiting``."""
    ending: endings.Ending | None = None
    """How it last ended; None when it never did."""
    warnings: tuple[views.Warned, ...] = ()
    """Warning events about a server's pod that has not started, newest first; empty while none is known."""
    unready_since: float | None = None
    """When it last stopped being ready, or began to be not: a crash loop does not move it. None while it is ready."""
    ready_at: float | None = None
    """When it last became ready; None while it is not."""
    priority: int = 0
    """As admission resolved it from the priority class."""


def read(manifest: plan.Manifest, *, container: str, view: views.View | None = None) -> Pod:
    """Return what a pod's manifest says; ``container`` is the one that its ending is read of."""
    meta = plan.metadata(manifest)
    status = manifest.get("status") or {}
    told = {one["type"]: one for one in status.get("conditions") or ()}
    scheduled = told.get("PodScheduled", {})
    states = status.get("containerStatuses") or ()
    own: Mapping[str, Any] = next((one for one in states if one["name"] == container), {})
    state = own.get("state") or {}
    ended = endings.state(own)
    has_node = scheduled.get("status") == "True"
    readiness = told.get("Ready", {})
    changed = readiness.get("lastTransitionTime")
    ready = readiness.get("status") == "True"
    unready_since = conditions.parse_timestamp(changed) if changed and readiness.get("status") == "False" else None
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        created_at=conditions.parse_timestamp(meta["creationTimestamp"]),
        ip=status.get("podIP") or "",
        node=(manifest.get("spec") or {}).get("nodeName") or "",
        phase=status.get("phase") or "Pending",
        ready=ready,
        scheduled_at=conditions.parse_timestamp(scheduled["lastTransitionTime"]) if has_node else None,
        ready_at=conditions.parse_timestamp(changed) if changed and ready else None,
        priority=int((manifest.get("spec") or {}).get("priority") or 0),
        unschedulable="" if has_node else str(scheduled.get("message", "")),
        restarts=int(own.get("restartCount", 0)),
        waiting=(state.get("waiting") or {}).get("reason") or "",
        last_exit=endings.in_words(ended),
        message=(state.get("terminated") or {}).get("message") or "",
        waiting_message=(state.get("waiting") or {}).get("message") or "",
        ending=endings.read(own, pod_uid=meta["uid"], unready_since=unready_since, log=view.log if view else None),
        unready_since=unready_since,
        warnings=view.warnings(meta["uid"]) if view else (),
    )


def lives(pod: plan.Manifest) -> bool:
    """Whether a pod is neither terminating nor over."""
    phase = (pod.get("status") or {}).get("phase")
    return "deletionTimestamp" not in plan.metadata(pod) and phase not in _GONE_PHASES


def made_by(pod: plan.Manifest, deployment: str) -> bool:
    """Whether a ReplicaSet of this Deployment made the pod: a stray one with our labels is nobody's endpoint."""
    references = plan.metadata(pod).get("ownerReferences", ())
    return any(
        one.get("controller") and one["kind"] == "ReplicaSet" and one["name"].startswith(f"{deployment}-")
        for one in references
    )


def label(manifest: plan.Manifest, name: str) -> str:
    """Return the value of an object's label; empty without it."""
    return str((plan.metadata(manifest).get("labels") or {}).get(name, ""))
