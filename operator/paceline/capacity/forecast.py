"""How many pods would find their devices now, after all that were promised before them.

Devices are counted a node: 4 + 4 free are no room for a pod of 8. Claims are laid on the nodes in order, each where
the least is left over, and one that fits nowhere takes nothing.
"""

import json
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
    room = _Room(world.once(_left))
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


def takes_promised(world: fleet.Fleet, promised: Sequence[Claim], wanted: Claim, *, own: Sequence[Claim] = ()) -> bool:
    """Whether pods of ``wanted``, if they were made now, could land where others were promised room before.

    Where they would find no more nodes without those promises than with them they may as well wait in the scheduler's
    queue, in which a cluster that grows on demand finds them.

    Args:
        world: nodes and pods.
        promised: others' claims that come before this one.
        wanted: what would be made.
        own: claims of whoever asks, which come before it too.
    """
    left = forecast(world, (*promised, *own), wanted)
    return not left.is_enough and forecast(world, own, wanted).fits > left.fits


def devices_of(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Return the devices among a container's resources."""
    return reading.devices(amounts)


def _queued(world: fleet.Fleet) -> Sequence[Claim]:
    """Return the pods that wait for a node, in the order in which the scheduler takes them up, as far as is known."""
    waiting = sorted((one for one in world.holdings.values() if not one.node), key=lambda one: (-one.priority, one.uid))
    return [Claim(count=1, requests=one.requests, template=one.template) for one in waiting]


@dataclass(frozen=True, slots=True)
class _Left:
    """What waiting pods leave on the nodes."""

    nodes: tuple[fleet.Node, ...]
    """By name."""
    free: Mapping[str, Mapping[str, int]]
    """Devices by node."""
    hopeless: frozenset[str]
    """Shapes of pods that found no node."""


def _left(world: fleet.Fleet) -> _Left:
    room = _Room(
        _Left(
            nodes=tuple(sorted(world.nodes.values(), key=lambda node: node.name)),
            free={name: node.allocatable for name, node in world.nodes.items()},
            hopeless=frozenset(),
        )
    )
    for one in world.holdings.values():
        room.take(one.node, one.requests)
    for waiting in _queued(world):
        room.place(waiting)
    return room.left()


def _shape(claim: Claim) -> str:
    """Return what decides on which nodes one pod of a claim fits."""
    placed = json.dumps(claim.template, sort_keys=True) if claim.template else ""
    return f"{sorted(claim.requests.items())}{placed}"


class _Room:
    """What is left on the nodes while claims are laid on them.

    Nothing is ever given back, so a shape that found no node once is not tried again: where a thousand rollouts wait
    for a full cluster, each forecast would else look at every node a thousand times.
    """

    def __init__(self, left: _Left) -> None:
        self._nodes = left.nodes
        self._free = {name: dict(free) for name, free in left.free.items()}
        self._hopeless = set(left.hopeless)

    def left(self) -> _Left:
        """Return what is left now."""
        return _Left(nodes=self._nodes, free=self._free, hopeless=frozenset(self._hopeless))

    def place(self, claim: Claim) -> int:
        """Lay a claim's pods on nodes; return how many found one."""
        shape = _shape(claim)
        for placed in range(claim.count):
            fitting = () if shape in self._hopeless else [one.name for one in self._nodes if self._fits(one, claim)]
            if not fitting:
                self._hopeless.add(shape)
                return placed
            tightest = min(fitting, key=lambda name: (self._remaining(name, claim), name))
            self.take(tightest, claim.requests)
        return claim.count

    def largest(self, claim: Claim, resource: str) -> int:
        """Return the most of a resource that is free on one node which would take the claim's pods."""
        admitting = [node.name for node in self._nodes if placement.admits(node, claim.template)]
        return max((self._free[name].get(resource, 0) for name in admitting), default=0)

    def take(self, name: str, requests: Mapping[str, int]) -> None:
        """Take devices of a node, if it is one of those that are known."""
        free = self._free.get(name)
        if free is not None:
            for one, count in requests.items():
                free[one] = free.get(one, 0) - count

    def _fits(self, node: fleet.Node, claim: Claim) -> bool:
        free = self._free[node.name]
        enough = all(free.get(name, 0) >= count for name, count in claim.requests.items())
        return enough and placement.admits(node, claim.template)

    def _remaining(self, name: str, claim: Claim) -> int:
        return sum(self._free[name].get(one, 0) - count for one, count in claim.requests.items())
