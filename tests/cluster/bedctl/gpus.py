"""Pretending GPUs: the scheduler counts whatever a node's status says."""

from bedctl import api
from bedctl.record import Bed

RESOURCE = "nvidia.com/gpu"


def advertise(bed: Bed, node: str, count: int) -> None:
    """Set how many GPUs the node's status names. The kubelet leaves resources alone that it does not know."""
    amounts = {RESOURCE: str(count)}
    api.connect(bed).patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": amounts, "allocatable": amounts}})
