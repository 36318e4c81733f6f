"""What a policy asks for, before it is put together with the record into a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline.planning import kinds, plan
from paceline.training import observe


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The answer of the one policy that decides a pass."""

    actions: tuple[plan.Action, ...] = ()
    ends: observe.StageJob | None = None
    """The Job whose pods are ended, so that their time is entered into the record first."""
    look_again_s: float | None = None
    claims_start: bool = False
    """Whether this pass sets ``status.startTime``, which freezes the spec before anything is spent on it."""
    claim: Mapping[str, Any] = field(default_factory=dict)
    """What the record claims in the ledger of devices; what it claimed before is let go."""
    waits: str = ""
    """What the stage's Job waits for, in words; empty when it waits for nothing."""


def end_job(seen: observe.Observed, job: observe.StageJob) -> Step:
    """Return the step that ends a Job's pods.

    Foreground: the Job stays visible until its last pod is gone, so that its successor, which has the same name, cannot
    start beside a pod that still writes to the workspace.
    """
    delete = plan.Delete(kind=kinds.JOB, namespace=seen.namespace, name=job.name, uid=job.uid, propagation="Foreground")
    return Step(actions=() if job.deleting else (delete,), ends=job)
