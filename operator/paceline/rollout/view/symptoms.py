"""What a pod's end, or its refusal, says of the revision: over at once, borne for a while, or counted.

An engine that ran out of GPU memory beside a pod that still ends on its node is not to blame: such ends are borne until
that pod is gone, and the next end after it counts. When it was gone stands in the rollout's record, since the API
server forgets a pod.
"""

from dataclasses import dataclass
from typing import Final

from paceline.engines import failures
from paceline.engines.faults import Nature
from paceline.rollout.view import podview

# One end may be chance, two are the revision's own.
MAX_RESTARTS: Final = 2
# With back-off, as many restarts take a quarter of an hour: a pod that drains for longer is another fault.
MAX_MEMORY_RESTARTS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What happens around a pod."""

    draining_nodes: frozenset[str] = frozenset()
    """Nodes on which another pod still ends."""
    drained_at: float | None = None
    """When the last such pod was found gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """What is wrong with a pod that is not ready."""

    is_over: bool
    """Whether no further try is waited for."""
    message: str
    """What happened and what to change; empty when nothing did."""
    memory: bool = False
    """Whether the GPU's memory was too small."""
    volume: bool = False
    """Whether a volume does not come."""
    blames_engine: bool = False
    """Whether the container could not even be made, so that the draft has no part in it."""


def of(pod: podview.Pod, around: Surroundings) -> Symptom | None:
    """Return what is wrong with a pod that is not ready; None when it is only on its way."""
    refused = failures.of_waiting(reason=pod.waiting, message=pod.waiting_message)
    if refused is not None:
        message = f"{refused.name}: {refused.said or pod.waiting}. {refused.remedy}."
        return Symptom(is_over=refused.nature is Nature.PERMANENT, message=message, blames_engine=True)
    if pod.ending is None:
        return _unexplained(pod) if pod.restarts else _volume(pod)
    ended = pod.ending
    fault = ended.fault
    if fault is None:
        return _unexplained(pod)
    message = f"{fault.name}: {fault.said or pod.last_exit}. {fault.remedy}."
    if ended.served:
        return Symptom(is_over=False, message=message)
    if fault.nature is Nature.MEMORY:
        return _memory(pod, around, message)
    is_over = fault.nature is Nature.PERMANENT or pod.restarts >= MAX_RESTARTS
    return Symptom(is_over=is_over, message=message)


def _volume(pod: podview.Pod) -> Symptom | None:
    """Return why a volume of a pod that has not started does not come; None where no event says so."""
    found = [failures.of_warning(reason=one.reason, message=one.message) for one in pod.warnings if pod.waiting]
    fault = next((one for one in found if one is not None), None)
    if fault is None:
        return None
    message = f"{fault.name}: {fault.said}. {fault.remedy}."
    return Symptom(is_over=False, message=message, volume=True, blames_engine=True)


def _unexplained(pod: podview.Pod) -> Symptom:
    said = pod.last_exit or pod.waiting or "no exit was seen"
    served = pod.ending is not None and pod.ending.served
    return Symptom(
        is_over=pod.restarts >= MAX_RESTARTS and not served,
        message=f"{said.rstrip('.')}. Look at the log's root cause (kubectl logs {pod.name} --previous) and fix the "
        "head, the image or the arguments.",
    )


def _memory(pod: podview.Pod, around: Surroundings, message: str) -> Symptom:
    ended_at = pod.ending.at if pod.ending else 0.0
    shared = pod.node in around.draining_nodes
    lately = around.drained_at is not None and ended_at <= around.drained_at
    if (shared or lately) and pod.restarts < MAX_MEMORY_RESTARTS:
        return Symptom(is_over=False, message=f"It waits for another pod's GPU memory. {message}", memory=True)
    seen_alone = around.drained_at is not None and ended_at > around.drained_at
    is_over = pod.restarts >= (1 if seen_alone else MAX_RESTARTS)
    return Symptom(is_over=is_over, message=message, memory=True)
