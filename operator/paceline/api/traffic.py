"""How users reach what is served: the front Service, the steps of a rollout, and disruptions."""

from typing import Annotated, Final

import pydantic

from paceline.api.base import ApiModel, Cel, Duration, ObjectName


class TrafficStep(ApiModel):
    """One share of users' traffic that a candidate gets after the probe and before its promotion."""

    weight: Annotated[int, pydantic.Field(ge=1, le=99)]
    """Percent. Behind the front Service alone it becomes the nearest share that whole replicas give while stable keeps
    its own, 50 at most, and status says which; with ``traffic.httpRoute`` the gateway gives it as it is."""
    pause: Duration = "5m"
    """How long the share is watched, counted from the moment it is in place."""


STEP_RULES: Final = (
    Cel(
        rule="!has(self.steps) || self.steps.map(s, s.weight).isSorted()",
        message="rollout.steps must rise: order them by weight",
    ),
)


class HttpRouteSpec(ApiModel):
    """A route of yours that leads users to the front Service."""

    name: ObjectName
    """Name of the HTTPRoute, in the same namespace. Every rule of it that has the front Service as its only backend is
    weighted; hosts, matches, filters, time-outs and other rules stay yours."""


ROUTE_RULES: Final = (
    Cel(
        rule="!has(self.traffic) || !has(self.traffic.httpRoute) || "
        "(has(self.rollout.steps) && self.rollout.steps.size() > 0)",
        message="traffic.httpRoute is only weighted in rollout.steps; add steps, or remove traffic.httpRoute",
    ),
)


class TrafficSpec(ApiModel):
    """The front Service, and how users come to it."""

    port: Annotated[int, pydantic.Field(ge=1, le=65535)] = 8000
    http_route: HttpRouteSpec | None = None
    """An HTTPRoute of the Gateway API whose weights give a candidate its share in ``rollout.steps``. Left out, shares
    are made of replicas behind the front Service. It needs ``gateway.enabled`` in the operator's chart."""


class DisruptionBudgetSpec(ApiModel):
    """What a drain of nodes leaves of the serving pods."""

    enabled: bool = True
    max_unavailable: Annotated[int, pydantic.Field(ge=1, le=1000)] = 1
    """Serving pods that may be evicted at once. It is never 0: a drain of a single replica's node would never end."""
