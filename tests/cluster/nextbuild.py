"""A later build of the operator: every pod is rendered otherwise, and revisions have a field more, with a default.

Imported by an operator's process through ``PACELINE_ROOMS=nextbuild:Rollout,nextbuild:Training``, and never by a test:
what it changes, it changes for the whole process.
"""

from typing import Any

from paceline.rollout.documents import revisions
from paceline.rollout.room import Rollout
from paceline.training.room import Training
from paceline.workloads import engines, pods

__all__ = ["Rollout", "Training"]

_container, _pod_template = pods.container, pods.pod_template


class _Inputs(revisions.Inputs):
    """Knows a thing more, which nobody has asked for yet."""

    prefill: str = "chunked"


def _next_container(**words: Any) -> dict[str, Any]:
    rendered = _container(**words)
    rendered["env"] = [*rendered["env"], {"name": "PACELINE_BUILD", "value": "next"}]
    rendered["terminationMessagePath"] = "/dev/termination-log-of-the-next-build"
    return rendered


def _next_pod_template(**words: Any) -> dict[str, Any]:
    rendered = _pod_template(**words)
    rendered["metadata"]["annotations"] = {**rendered["metadata"].get("annotations", {}), "build": "next"}
    rendered["spec"]["terminationGracePeriodSeconds"] = 77
    return rendered


pods.container = _next_container
pods.pod_template = _next_pod_template
engines.startup_budget_s = lambda weights_bytes: 7200.0 + weights_bytes / 50e6
revisions.Inputs = _Inputs  # type: ignore[misc]  # what the process resolves from now on
