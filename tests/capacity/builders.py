"""Nodes and pods as the API server gives them."""

from typing import Any

from paceline.capacity import reading
from paceline.planning import fleet

GPU = "nvidia.com/gpu"


def node(name: str, gpus: int = 8, **spec: Any) -> dict[str, Any]:
    """Return a Node with devices; ``labels`` and ``ready`` beside fields of its spec."""
    labels, ready = spec.pop("labels", {}), spec.pop("ready", "True")
    return {
        "metadata": {"name": name, "uid": f"uid-of-{name}", "labels": labels},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "64", "pods": "110", GPU: str(gpus)},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(name: str, gpus: int = 8, *, on: str = "", phase: str = "Running", **spec: Any) -> dict[str, Any]:
    """Return a Pod that asks for devices; ``on`` is its node."""
    container = {"name": "main", "resources": {"limits": {GPU: str(gpus), "cpu": "4"}}}
    return {
        "metadata": {"name": name, "namespace": "models", "uid": f"uid-of-{name}"},
        "spec": {"containers": [container], **({"nodeName": on} if on else {}), **spec},
        "status": {"phase": phase},
    }


def world(nodes: list[dict[str, Any]], pods: list[dict[str, Any]] | None = None) -> fleet.Fleet:
    """Return the fleet of nodes and pods."""
    read = [one for one in map(reading.node, nodes) if one]
    held = [one for one in map(reading.holding, pods or []) if one]
    return fleet.Fleet(nodes={one.name: one for one in read}, holdings={one.uid: one for one in held})
