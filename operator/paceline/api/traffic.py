"""How users reach what is served: the front Service, the steps of a rollout, and disruptions."""

from typing import Annotated, Final

import pydantic

from paceline.api.base import ApiModel, Cel, Duration


class TrafficStep(ApiModel):
    """One share of users' traffic that a candidate gets after the probe and before its promotion."""

    weight: Annotated[int, pydantic.Field(ge=1, le=99)]
    """Percent. It becomes the nearest share that whole replicas give while stable keeps its own, 50 at most, and status
    says which."""
    pause: Duration = "5m"
    """How long the share is watched, counted from the moment it is in place."""


STEP_RULES: Final = (
    Cel(
        rule="!has(self.steps) || self.steps.map(s, s.weight).isSorted()",
        message="rollout.steps must rise: order them by weight",
    ),
)


class TrafficSpec(ApiModel):
    """The front Service."""

    port: Annotated[int, pydantic.Field(ge=1, le=65535)] = 8000


class DisruptionBudgetSpec(ApiModel):
    """What a drain of nodes leaves of the serving pods."""

    enabled: bool = True
    max_unavailable: Annotated[int, pydantic.Field(ge=1, le=1000)] = 1
    """Serving pods that may be evicted at once. It is never 0: a drain of a single replica's node would never end."""
