"""What is known of the cluster's nodes, and of the pods that hold or wait for their devices.

Only what a forecast needs is kept: a cluster of a thousand nodes then takes megabytes, not hundreds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

FoundT = TypeVar("FoundT")
ONE_NODE: Final = "ReadWriteOnce"
ONE_POD: Final = "ReadWriteOncePod"
Maker = tuple[str, ...]
"""What the pods of one Deployment of ours, or of one Job, have in common with no others; empty for other people's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """What keeps pods off a node unless they tolerate it; PreferNoSchedule does not, and is left out."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node that has devices."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    usable: bool
    """Ready, and not cordoned."""
    allocatable: Mapping[str, int]
    """Extended resources, such as ``nvidia.com/gpu``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One living pod that asks for devices; one that is being deleted holds them until it is gone."""

    uid: str
    namespace: str
    node: str
    """Empty while it has none."""
    requests: Mapping[str, int]
    priority: int
    maker: Maker
    template: Mapping[str, object]
    """Where it may run: nodeSelector, tolerations and affinity; only while it has no node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Nodes by name, and holdings by pod UID."""

    nodes: Mapping[str, Node]
    holdings: Mapping[str, Holding]
    claims: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Access mode of the volume claims that only one node or one pod can have, by namespace and name; empty where the
    operator may not see claims."""
    _found: dict[Callable[["Fleet"], Any], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, find: Callable[["Fleet"], FoundT]) -> FoundT:
        """Return what a pure function finds in this fleet, which many passes ask before anything changes."""
        if find not in self._found:
            self._found[find] = find(self)
        found: FoundT = self._found[find]
        return found
