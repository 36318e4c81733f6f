"""How a serving pod ends without losing a request.

A pod that is to go leaves the endpoints at once, and whoever balances (kube-proxy on every node, a gateway) hears of it
a moment later. Until then new requests still come, so the engine must not be told to stop yet: a sleep before SIGTERM
bridges that. vLLM on SIGTERM aborts what is in flight unless it is given time to finish, so it gets the rest of the
grace period, less a moment to end in good order.
"""

from dataclasses import dataclass
from typing import Any, Final

from paceline.api.podparts import PodTemplate
from paceline.workloads import pods

_LONGEST_LEAD_S: Final = 15
"""For those who balance to hear of it; seconds are the rule, and a cloud's load balancer may take ten."""
_LEAD_SHARE: Final = 4
_EXIT_SHARE: Final = 10
_LONGEST_EXIT_S: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a pod's grace period is spent."""

    lead_s: int
    """From the deletion to SIGTERM."""
    drain_s: int
    """From SIGTERM until what is still in flight is given up."""

    @property
    def lifecycle(self) -> dict[str, Any]:
        """The container's lifecycle; the kubelet itself sleeps, since an image need not hold a shell."""
        return {"preStop": {"sleep": {"seconds": self.lead_s}}}


def of(template: PodTemplate) -> Ending:
    """Return how the pods of a template end: 15, 40 and 5 of the usual 60 seconds."""
    grace_s = pods.grace_s(template)
    lead_s = max(1, min(_LONGEST_LEAD_S, grace_s // _LEAD_SHARE))
    exit_s = max(1, min(_LONGEST_EXIT_S, grace_s // _EXIT_SHARE))
    return Ending(lead_s=lead_s, drain_s=max(0, grace_s - lead_s - exit_s))
