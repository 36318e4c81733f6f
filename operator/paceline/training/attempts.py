"""One pod of a stage, reduced to what policies ask of it.

Everything in a pod's status may be absent: a pod that was evicted before it started has no container statuses at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from paceline.planning import conditions, plan
from paceline.workloads import engines

CONTAINER: Final = "stage"
"""The main container, the one whose exit ends the pod."""

# Waiting reasons that are part of every healthy start; any other one is a fault worth telling.
_STARTING: Final = frozenset({"", "PodInitializing", "ContainerCreating"})
_OOM: Final = "OOMKilled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a container ended."""

    exit_code: int
    reason: str
    message: str
    """The termination message, or the last log lines when the container failed without one. Not to be trusted."""
    at: float | None

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel ended it for its memory."""
        return self.reason == _OOM


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engine sidecar of a pod."""

    restarts: int
    started: bool
    """Whether its startup probe has succeeded; only then the main container starts."""
    last: Ending | None
    """How it ended last; None while it never did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One pod of a stage's Job."""

    name: str
    uid: str
    node: str
    """Empty until a node was found."""
    ip: str
    """Empty until the pod has its network."""
    started_s: float | None
    """When a node took it; None while it waits for one. Time before that is queueing and is charged to nobody."""
    ended_s: float | None
    """When it was over; None while it may still run."""
    deleting: bool
    running: bool
    """Whether the main container runs."""
    unscheduled: str | None
    """What the scheduler says while there is no node; None when there is one, or nothing was said yet."""
    disruption: str | None
    """Why the cluster took it away (preemption, drain, eviction); None when it did not."""
    blocked: str | None
    """Why a container cannot start (image, configuration); None in a healthy start."""
    ending: Ending | None
    """How the main container ended; None while it has not."""
    engine: Engine | None
    """None in a stage without one."""

    @property
    def placed(self) -> bool:
        """Whether a node has it: the kubelet's own word counts, since a scheduler's condition may be older."""
        return self.node != "" or self.started_s is not None

    @property
    def over(self) -> bool:
        """Whether the pod will run no more."""
        return self.ended_s is not None

    def ran_s(self, now: float) -> float:
        """Return for how many seconds it has held a node."""
        if self.started_s is None:
            return 0.0
        return max(0.0, (now if self.ended_s is None else self.ended_s) - self.started_s)


def read(pod: plan.Manifest) -> Attempt:
    """Return what a pod's manifest says."""
    meta, status = plan.metadata(pod), pod.get("status", {})
    told = {condition["type"]: condition for condition in status.get("conditions", ())}
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    by_name = {container["name"]: container for container in containers}
    main = by_name.get(CONTAINER, {})
    return Attempt(
        name=meta["name"],
        uid=meta["uid"],
        node=pod.get("spec", {}).get("nodeName", ""),
        ip=status.get("podIP", ""),
        started_s=_time(status.get("startTime")),
        ended_s=_ended_s(pod, containers),
        deleting="deletionTimestamp" in meta,
        running="running" in main.get("state", {}),
        unscheduled=_unscheduled(told.get("PodScheduled", {})),
        disruption=_disruption(told.get("DisruptionTarget", {})),
        blocked=_blocked(containers),
        ending=_ending(main.get("state", {})),
        engine=_engine(by_name.get(engines.CONTAINER)),
    )


def _time(text: str | None) -> float | None:
    return conditions.parse_timestamp(text) if text else None


def _ended_s(pod: plan.Manifest, containers: Iterable[Mapping[str, Any]]) -> float | None:
    """Return when a pod in a final phase ended: its last container's end, or the best that is known in its place."""
    meta, status = plan.metadata(pod), pod.get("status", {})
    if status.get("phase") not in {"Succeeded", "Failed"}:
        return None
    endings = [_ending(container.get("state", {})) for container in containers]
    known = [ending.at for ending in endings if ending and ending.at is not None]
    if known:
        return max(known)
    fallback = meta.get("deletionTimestamp") or status.get("startTime") or meta.get("creationTimestamp")
    return _time(fallback) or 0.0


def _unscheduled(condition: Mapping[str, Any]) -> str | None:
    if condition.get("status") != "False":
        return None
    return str(condition.get("message") or condition.get("reason") or "no node fits")


def _disruption(condition: Mapping[str, Any]) -> str | None:
    if condition.get("status") != "True":
        return None
    return ": ".join(part for part in (condition.get("reason", ""), condition.get("message", "")) if part)


def _blocked(containers: Iterable[Mapping[str, Any]]) -> str | None:
    for container in containers:
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason", "") not in _STARTING:
            return f"container {container['name']}: {waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    return None


def _ending(state: Mapping[str, Any]) -> Ending | None:
    ended = state.get("terminated")
    if ended is None:
        return None
    return Ending(
        exit_code=int(ended.get("exitCode", 0)),
        reason=ended.get("reason", ""),
        message=ended.get("message", ""),
        at=_time(ended.get("finishedAt")),
    )


def _engine(container: Mapping[str, Any] | None) -> Engine | None:
    if container is None:
        return None
    return Engine(
        restarts=int(container.get("restartCount", 0)),
        started=bool(container.get("started")),
        last=_ending(container.get("state", {})) or _ending(container.get("lastState", {})),
    )
