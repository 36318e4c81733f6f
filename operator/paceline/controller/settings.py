"""What the operator is told by its environment, read once and checked."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Self

import pydantic

from paceline.api import base

PREFIX: Final = "PACELINE_"
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def _seconds(value: object) -> object:
    return base.parse_duration(value).total_seconds() if isinstance(value, str) else value


def _words(value: object) -> object:
    return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


Seconds = Annotated[float, pydantic.BeforeValidator(_seconds), pydantic.Field(gt=0)]
Words = Annotated[tuple[str, ...], pydantic.BeforeValidator(_words)]


def _own_namespace() -> str:
    return _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else "default"


def _own_identity() -> str:
    # A restarted container keeps its host name but is another process, so it must not mistake the lease for its own.
    return f"{socket.gethostname()}_{os.getpid()}_{os.urandom(4).hex()}"


class Settings(pydantic.BaseModel):
    """The operator's configuration; each field is ``PACELINE_<FIELD>`` in the environment, durations as in ``90s``."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    namespaces: Words = ()
    """Namespaces to act in, separated by commas; empty for all."""
    namespace: str = pydantic.Field(default_factory=_own_namespace)
    """Where the operator itself lives: its Lease is there."""
    identity: str = pydantic.Field(default_factory=_own_identity)
    """Name of this process in the Lease."""
    lease_name: str = "paceline-operator"
    lease_duration: Seconds = 15.0
    """How long a leader that was not heard of is waited for."""
    lease_renew_deadline: Seconds = 10.0
    """How long a leader tries to renew before it gives up."""
    lease_retry_period: Seconds = 2.0

    stage_image: str = ""
    """Image of inspection and probe pods where the resource names none."""
    rooms: Words = ("paceline.training.room:Training", "paceline.rollout.room:Rollout")
    """``module:Class`` of each room that runs."""

    workers: Annotated[int, pydantic.Field(ge=1, le=256)] = 8
    """Passes at the same time; one resource never has two."""
    resync: Seconds = 600.0
    """Every resource is looked at so often even when nothing happens."""
    api_timeout: Seconds = 15.0
    """Bound on one call to the API server; a write's is shorter than what is left of the lease."""
    watch_silence: Seconds = 75.0
    """A watch that says nothing for so long has a dead peer; bookmarks come every minute."""
    backoff_base: Seconds = 0.5
    backoff_max: Seconds = 300.0

    forecast: bool = True
    """Whether to watch nodes, and pods with devices, in the whole cluster, to know of free GPUs before a pod is made.
    Without it, or without the permission, scheduling deadlines alone decide."""

    gateway: bool = False
    """Whether to watch HTTPRoutes of the Gateway API, and to write the weights in those that resources name."""

    poll_interval: Seconds = 5.0
    """Between two questions to one pod for its progress."""
    scrape_interval: Seconds = 15.0
    """Between two scrapes of one engine's metrics."""
    scrape_window: Seconds = 600.0
    """How far back scrapes are kept."""
    poll_concurrency: Annotated[int, pydantic.Field(ge=1, le=1024)] = 32
    poll_timeout: Seconds = 5.0

    health_host: str = "0.0.0.0"  # noqa: S104 - the kubelet asks from outside the pod
    health_port: Annotated[int, pydantic.Field(ge=0, le=65535)] = 8080
    stall_limit: Seconds = 180.0
    """A pass or a ready key that waits longer means that the process is stuck: /healthz fails."""
    log_level: Annotated[str, pydantic.Field(pattern="^(debug|info|warning|error)$")] = "info"

    @pydantic.model_validator(mode="after")
    def _lease_times_are_ordered(self) -> Self:
        if not self.lease_retry_period < self.lease_renew_deadline < self.lease_duration:
            raise ValueError(
                f"PACELINE_LEASE_RETRY_PERIOD ({self.lease_retry_period}s) must be below PACELINE_LEASE_RENEW_DEADLINE "
                f"({self.lease_renew_deadline}s), and that below PACELINE_LEASE_DURATION ({self.lease_duration}s)"
            )
        return self

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Return the settings in ``environment``, by default the process's own.

        Raises:
            pydantic.ValidationError: a value is wrong; it names the field.
        """
        given = os.environ if environment is None else environment
        values = {name: given[PREFIX + name.upper()] for name in cls.model_fields if given.get(PREFIX + name.upper())}
        return cls.model_validate(values)
