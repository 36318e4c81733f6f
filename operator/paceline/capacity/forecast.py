"""How many pods would find their devices now, after all that were promised before them.

Devices are counted a node: 4 + 4 free are no room for a pod of 8. Claims are laid on the nodes in order, each where
the least is left over, and one that fits nowhere takes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.capacity import placement, reading
from paceline.planning import fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Pods that were promised devices and do not exist yet, all of one shape."""

    count: int
    requests: Mapping[str, int]
    template: Mapping[str, Any]
    """Where they may run: nodeSelector, tolerations and affinity."""

    @classmethod
    def of(cls, pod_spec: Mapping[str, Any], count: int) -> "Claim":
        """Return the claim of ``count`` pods of a rendered spec."""
        return cls(count=count, requests=reading.needs(pod_spec), template=reading.placing(pod_spec))


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the nodes have for one claim."""

    fits: int
    """Pods that would find a node, at most as many as were asked for."""
    wanted: int
    resource: str
    """What is asked for most; empty when no device is."""
    each: int
    """So many of it a pod."""
    largest: int
    """The most of it that is free on one node that would take the pod."""

    @property
    def is_enough(self) -> bool:
        """Whether all would find a node."""
        return self.fits >= self.wanted


def forecast(world: fleet.Fleet, promised: Iterable[Claim], wanted: Claim) -> Forecast:
    """Return how many pods of ``wanted`` would find a node.

    Args:
        world: nodes and pods. Pods without a node come before ``promised``: they are in the scheduler's queue already.
        promised: claims that come before this one, in their order.
        wanted: what is asked for.
    """
    resource = max(wanted.requests, key=lambda name: (wanted.requests[name], name), default="")
    if not resource or not wanted.count:
        return Forecast(fits=wanted.count, wanted=wanted.count, resource="", each=0, largest=0)
    room = _Room(world)
    for waiting in _queued(world):
        room.place(waiting)
    for claim in promised:
        room.place(claim)
    largest = room.largest(wanted, resource)
    return Forecast(
        fits=room.place(wanted),
        wanted=wanted.count,
        resource=resource,
        each=wanted.requests[resource],
        largest=largest,
    )


def devices_of(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Return the devices among a container's resources."""
    return reading.devices(amounts)


def _queued(world: fleet.Fleet) -> Sequence[Claim]:
    """Return the pods that wait for a node, in the order in which the scheduler takes them up, as far as is known."""
    waiting = sorted((one for one in world.holdings.values() if not one.node), key=lambda one: (-one.priority, one.uid))
    return [Claim(count=1, requests=one.requests, template=one.template) for one in waiting]


class _Room:
    """What is left on the nodes while claims are laid on them."""

    def __init__(self, world: fleet.Fleet) -> None:
        self._nodes = sorted(world.nodes.values(), key=lambda node: node.name)
        self._free = {node.name: dict(node.allocatable) for node in self._nodes}
        for one in world.holdings.values():
            if one.node in self._free:
                self._take(one.node, one.requests)

    def place(self, claim: Claim) -> int:
        """Lay a claim's pods on nodes; return how many found one."""
        for placed in range(claim.count):
            fitting = [node.name for node in self._nodes if self._fits(node, claim)]
            if not fitting:
                return placed
            tightest = min(fitting, key=lambda name: (self._left(name, claim), name))
            self._take(tightest, claim.requests)
        return claim.count

    def largest(self, claim: Claim, resource: str) -> int:
        """Return the most of a resource that is free on one node which would take the claim's pods."""
        admitting = [node.name for node in self._nodes if placement.admits(node, claim.template)]
        return max((self._free[name].get(resource, 0) for name in admitting), default=0)

    def _fits(self, node: fleet.Node, claim: Claim) -> bool:
        free = self._free[node.name]
        enough = all(free.get(name, 0) >= count for name, count in claim.requests.items())
        return enough and placement.admits(node, claim.template)

    def _left(self, name: str, claim: Claim) -> int:
        return sum(self._free[name].get(one, 0) - count for one, count in claim.requests.items())

    def _take(self, name: str, requests: Mapping[str, int]) -> None:
        for one, count in requests.items():
            self._free[name][one] = self._free[name].get(one, 0) - count
