"""Whether a revision's pods are ready, what they wait for, and when the wait has been too long.

Deadlines count from what the cluster itself wrote down (creation, scheduling), never from when the operator looked, so
that a restart of either changes nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from paceline.api import base
from paceline.api.conditions import RolloutReason
from paceline.api.speculativedeployment import DeadlineSpec
from paceline.rollout.view import parts, podview, symptoms

ENGINE_FAULTS: Final = frozenset(
    {RolloutReason.HEAD_LOAD_FAILED, RolloutReason.ENGINE_FAILED, RolloutReason.OUT_OF_MEMORY}
)
"""Reasons of a Failed that no waiting would mend."""
_NO_GPU: Final = re.compile(r"Insufficient ([a-z0-9.-]+/[a-z0-9.-]*gpu[a-z0-9.-]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """As many pods as wanted have an endpoint."""

    pods: tuple[podview.Pod, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """It may still come."""

    reason: RolloutReason
    message: str
    until: float
    """When the wait is over, wall clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """It will not come, or not in time."""

    reason: RolloutReason
    message: str


Readiness: TypeAlias = Ready | Waiting | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A revision that is waited for."""

    short: str
    server: parts.Server | None
    wanted: int
    """Replicas that have to be ready."""
    speculates: bool
    around: symptoms.Surroundings = field(default_factory=symptoms.Surroundings)
    since: float = 0.0
    """When the wait for it began, if later than what the cluster wrote down: its place has only just been made."""
    asks: bool = False
    """Whether it asks for the devices of more replicas: none of those is made before they are granted."""


def assess(arm: Arm, deadlines: DeadlineSpec, now: float) -> Readiness:
    """Return whether the arm is ready; the worst of its pods speaks for it."""
    server = arm.server
    if server is None:
        until = now + _seconds(deadlines.scheduling)
        return Waiting(reason=RolloutReason.SCHEDULING, message=f"Revision {arm.short} is being created.", until=until)
    if len(server.ready) >= arm.wanted:
        return Ready(pods=tuple(server.ready))
    verdicts = [_absent(arm, server, deadlines, now)] if len(server.pods) < arm.wanted else []
    verdicts += [_pod(arm, pod, deadlines, now) for pod in server.pods if not pod.ready]
    return _worst(verdicts)


def _worst(verdicts: Sequence[Waiting | Failed]) -> Waiting | Failed:
    failed = [one for one in verdicts if isinstance(one, Failed)]
    if failed:
        return failed[-1]
    waiting = [one for one in verdicts if isinstance(one, Waiting)]
    return min(waiting, key=lambda one: one.until)


def _absent(arm: Arm, server: parts.Server, deadlines: DeadlineSpec, now: float) -> Waiting | Failed:
    """Return the verdict on a Deployment that lacks pods altogether."""
    since = max(server.stirred_at, arm.since)
    if arm.asks:
        return _asking(arm, server, since + _seconds(deadlines.scheduling), now)
    why = server.trouble or "no pod has been made yet"
    wait = Waiting(
        reason=RolloutReason.SCHEDULING,
        message=f"Revision {arm.short} has no pod: {why}",
        until=since + _seconds(deadlines.scheduling),
    )
    return _or_failed(wait, now, remedy="Raise the quota, or rollout.deadlines.scheduling.")


def _asking(arm: Arm, server: parts.Server, until: float, now: float) -> Waiting | Failed:
    """Return the verdict on replicas that are not made, since others were promised what is free."""
    missing = arm.wanted - len(server.pods)
    more = "one more replica" if missing == 1 else f"{missing} more replicas"
    wait = Waiting(
        reason=RolloutReason.INSUFFICIENT_GPU,
        message=f"Revision {arm.short} asks for the devices of {more}, and what is free was promised to others before.",
        until=until,
    )
    return _or_failed(wait, now, remedy="Free a node, or raise rollout.deadlines.scheduling.")


def _pod(arm: Arm, pod: podview.Pod, deadlines: DeadlineSpec, now: float) -> Waiting | Failed:
    if pod.scheduled_at is None:
        return _unscheduled(arm, pod, deadlines, now)
    symptom = symptoms.of(pod, arm.around)
    if symptom is not None and symptom.is_over:
        return _over(arm, pod, symptom)
    wait = _starting(arm, pod, deadlines) if is_starting(pod) else _loading(arm, pod, deadlines)
    field = "starting" if wait.reason is RolloutReason.STARTING else "loading"
    if symptom is not None:
        reason = RolloutReason.VOLUME_UNAVAILABLE if symptom.volume else wait.reason
        wait = replace(wait, reason=reason, message=f"{wait.message} {symptom.message}"[:1000])
    remedy = f"Look at the pod's events and log, or raise rollout.deadlines.{field}."
    return _or_failed(wait, now, remedy=remedy)


def _over(arm: Arm, pod: podview.Pod, symptom: symptoms.Symptom) -> Failed:
    if symptom.memory:
        reason = RolloutReason.OUT_OF_MEMORY
    elif arm.speculates and not symptom.blames_engine:
        reason = RolloutReason.HEAD_LOAD_FAILED
    else:
        reason = RolloutReason.ENGINE_FAILED
    times = f" after {pod.restarts} restarts" if pod.restarts else ""
    message = f"The engine of revision {arm.short} does not come up{times}. {symptom.message}"
    return Failed(reason=reason, message=message[:1000])


def is_starting(pod: podview.Pod) -> bool:
    """Whether the engine's container has never run: its image or its volumes are still to come."""
    return pod.scheduled_at is not None and bool(pod.waiting) and pod.ending is None and not pod.restarts


def _starting(arm: Arm, pod: podview.Pod, deadlines: DeadlineSpec) -> Waiting:
    spans = (_seconds(deadlines.starting), _seconds(deadlines.loading))
    return Waiting(
        reason=RolloutReason.STARTING,
        message=f"Pod {pod.name} of revision {arm.short} waits for its image and volumes.",
        until=(pod.scheduled_at or 0.0) + min(spans),
    )


def _loading(arm: Arm, pod: podview.Pod, deadlines: DeadlineSpec) -> Waiting:
    again = f" once more after it ended {pod.restarts} times" if pod.restarts else ""
    return Waiting(
        reason=RolloutReason.LOADING,
        message=f"Pod {pod.name} of revision {arm.short} loads the model{again}.",
        until=max(pod.scheduled_at or 0.0, pod.unready_since or 0.0) + _seconds(deadlines.loading),
    )


def _unscheduled(arm: Arm, pod: podview.Pod, deadlines: DeadlineSpec, now: float) -> Waiting | Failed:
    lacking = _NO_GPU.search(pod.unschedulable)
    reason = RolloutReason.INSUFFICIENT_GPU if lacking else RolloutReason.SCHEDULING
    said = pod.unschedulable or "the scheduler has not said why"
    wait = Waiting(
        reason=reason,
        message=f"Revision {arm.short} has no node: {said.rstrip('.')}."[:900],
        until=max(pod.created_at, arm.since) + _seconds(deadlines.scheduling),
    )
    what = f"Free {lacking[1].rstrip('.')} on one node" if lacking else "Make room on a node"
    return _or_failed(wait, now, remedy=f"{what}, or raise rollout.deadlines.scheduling.")


def _or_failed(wait: Waiting, now: float, *, remedy: str) -> Waiting | Failed:
    if now < wait.until:
        return wait
    return Failed(reason=wait.reason, message=f"{wait.message} The wait is over. {remedy}")


def _seconds(duration: str) -> float:
    return base.parse_duration(duration).total_seconds()
