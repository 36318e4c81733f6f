"""How users reach what is served: the front Service, a Gateway's routes, the steps of a rollout, and disruptions."""

from typing import Annotated, Final

import pydantic

from paceline.api.base import ApiModel, Cel, Duration, Label, ObjectName, list_field, text

Hostname = Annotated[
    str, text(max_length=253, pattern=r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
]


class TrafficStep(ApiModel):
    """One share of users' traffic that a candidate gets after the probe and before its promotion."""

    weight: Annotated[int, pydantic.Field(ge=1, le=99)]
    """Percent. Exact with ``traffic.gateway``; behind the front Service alone it is the nearest share that whole
    replicas give while stable keeps its own, 50 at most, and status says which."""
    pause: Duration = "5m"
    """How long the share is watched, counted from the moment it is in place."""


STEP_RULES: Final = (
    Cel(
        rule="!has(self.steps) || self.steps.map(s, s.weight).isSorted()",
        message="rollout.steps must rise: order them by weight",
    ),
)


class ParentReference(ApiModel):
    """A Gateway, or one listener of it, that routes users' requests."""

    name: ObjectName
    namespace: Label | None = None
    """Left out, the resource's own."""
    section_name: Annotated[str, text(max_length=253)] | None = None
    """The listener; left out, all of them."""
    port: Annotated[int, pydantic.Field(ge=1, le=65535)] | None = None


class GatewaySpec(ApiModel):
    """An HTTPRoute (Gateway API) by whose weights users' traffic is shared; the operator must be told to use them."""

    parent_refs: Annotated[list[ParentReference], list_field(max_items=8, min_items=1)]
    hostnames: Annotated[list[Hostname], list_field(max_items=16)] = []


class TrafficSpec(ApiModel):
    """The front Service, and the route that leads to what it selects."""

    port: Annotated[int, pydantic.Field(ge=1, le=65535)] = 8000
    gateway: GatewaySpec | None = None


class DisruptionBudgetSpec(ApiModel):
    """What a drain of nodes leaves of the serving pods."""

    enabled: bool = True
    max_unavailable: Annotated[int, pydantic.Field(ge=1, le=1000)] = 1
    """Serving pods that may be evicted at once. It is never 0: a drain of a single replica's node would never end."""
