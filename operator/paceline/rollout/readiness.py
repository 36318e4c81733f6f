"""Whether a revision's pods are ready, what they wait for, and when the wait has been too long.

Deadlines count from what the cluster itself wrote down (creation, scheduling), never from when the operator looked, so
that a restart of either changes nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from paceline.api import base
from paceline.api.conditions import RolloutReason
from paceline.api.speculativedeployment import DeadlineSpec
from paceline.rollout import observe

# One restart may be the memory of a pod that is still ending on the same GPU; two are the revision's own.
MAX_RESTARTS: Final = 2
_NO_GPU: Final = re.compile(r"Insufficient ([a-z0-9.-]+/[a-z0-9.-]*gpu[a-z0-9.-]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """As many pods as wanted have an endpoint."""

    pods: tuple[observe.Pod, ...]


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
    server: observe.Server | None
    wanted: int
    """Replicas that have to be ready."""
    speculates: bool


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


def _absent(arm: Arm, server: observe.Server, deadlines: DeadlineSpec, now: float) -> Waiting | Failed:
    """Return the verdict on a Deployment that lacks pods altogether."""
    since = server.stirred_at
    why = server.trouble or "no pod has been made yet"
    wait = Waiting(
        reason=RolloutReason.SCHEDULING,
        message=f"Revision {arm.short} has no pod: {why}",
        until=since + _seconds(deadlines.scheduling),
    )
    return _or_failed(wait, now, remedy="Raise the quota, or rollout.deadlines.scheduling.")


def _pod(arm: Arm, pod: observe.Pod, deadlines: DeadlineSpec, now: float) -> Waiting | Failed:
    if pod.restarts >= MAX_RESTARTS:
        return _crashed(arm, pod)
    if pod.scheduled_at is None:
        return _unscheduled(arm, pod, deadlines, now)
    doing = f"waits: {pod.waiting}" if pod.waiting else "loads the model"
    again = f" after it ended once ({pod.last_exit})" if pod.restarts else ""
    wait = Waiting(
        reason=RolloutReason.LOADING,
        message=f"Pod {pod.name} of revision {arm.short} {doing}{again}.",
        until=pod.scheduled_at + _seconds(deadlines.loading),
    )
    return _or_failed(wait, now, remedy="Look at the pod's log, or raise rollout.deadlines.loading.")


def _crashed(arm: Arm, pod: observe.Pod) -> Failed:
    reason = RolloutReason.HEAD_LOAD_FAILED if arm.speculates else RolloutReason.ENGINE_FAILED
    return Failed(
        reason=reason,
        message=f"The engine of revision {arm.short} ended {pod.restarts} times before it was ready"
        f" ({pod.last_exit or pod.waiting or 'no exit was seen'}). Fix the head, the image or the arguments.",
    )


def _unscheduled(arm: Arm, pod: observe.Pod, deadlines: DeadlineSpec, now: float) -> Waiting | Failed:
    lacking = _NO_GPU.search(pod.unschedulable)
    reason = RolloutReason.INSUFFICIENT_GPU if lacking else RolloutReason.SCHEDULING
    said = pod.unschedulable or "the scheduler has not said why"
    wait = Waiting(
        reason=reason,
        message=f"Revision {arm.short} has no node: {said.rstrip('.')}."[:900],
        until=pod.created_at + _seconds(deadlines.scheduling),
    )
    what = f"Free {lacking[1]} on one node" if lacking else "Make room on a node"
    return _or_failed(wait, now, remedy=f"{what}, or raise rollout.deadlines.scheduling.")


def _or_failed(wait: Waiting, now: float, *, remedy: str) -> Waiting | Failed:
    if now < wait.until:
        return wait
    return Failed(reason=wait.reason, message=f"{wait.message} The wait is over. {remedy}")


def _seconds(duration: str) -> float:
    return base.parse_duration(duration).total_seconds()
