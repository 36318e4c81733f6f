"""An engine's container: as the server of a revision, or as the sidecar of a stage."""

from typing import Any, Final

from paceline.api.engine import EngineSpec
from paceline.engines import registry
from paceline.engines.base import ServeRequest
from paceline.workloads import endings, pods

CONTAINER: Final = "engine"
_STARTUP_PERIOD_S: Final = 5
# Kernels are compiled for the first shapes that come; 25 seconds were reported (vllm#43009).
_FIRST_COMPLETION_S: Final = 60
# Imports, compilation and graph capture, before and beside the reading of weights.
_STARTUP_BASE_S: Final = 900.0
# A slow network volume; 600 GB then may take 100 minutes, where 25 to 40 are common.
_SLOWEST_READ_BYTES_PER_S: Final = 100e6


def startup_budget_s(weights_bytes: int) -> float:
    """Return how long an engine may take to answer before it counts as hung, from the size of the target's weights."""
    return _STARTUP_BASE_S + weights_bytes / _SLOWEST_READ_BYTES_PER_S


def server_container(
    *, engine: EngineSpec, request: ServeRequest, storage: pods.Storage, startup_budget_s: float
) -> dict[str, Any]:
    """Return the engine as a long-running container.

    Liveness only begins after the startup probe, whose budget follows the model's size: a probe that starts earlier
    kills servers that are still loading. The startup probe asks for a completion: an engine whose GPU has failed, or
    whose draft crashes, still answers its health path with 200.
    """
    health = {"httpGet": {"path": registry.ENGINES[engine.name].health_path, "port": "http"}}
    rendered = _container(engine=engine, request=request, storage=storage)
    rendered["startupProbe"] = {
        "exec": {"command": registry.ENGINES[engine.name].completion_command(request.port)},
        "periodSeconds": _STARTUP_PERIOD_S,
        "timeoutSeconds": _FIRST_COMPLETION_S,
        "failureThreshold": max(1, round(startup_budget_s / _STARTUP_PERIOD_S)),
    }
    rendered["lifecycle"] = endings.of(engine.pod_template).lifecycle
    rendered["livenessProbe"] = {**health, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 6}
    rendered["readinessProbe"] = {**health, "periodSeconds": 5, "timeoutSeconds": 10, "failureThreshold": 3}
    return rendered


def sidecar_container(
    *, engine: EngineSpec, request: ServeRequest, storage: pods.Storage, startup_budget_s: float
) -> dict[str, Any]:
    """Return the engine as a native sidecar: an init container that keeps running and never holds up the Job's end."""
    rendered = _container(engine=engine, request=request, storage=storage)
    rendered["restartPolicy"] = "Always"
    rendered["startupProbe"] = {
        "httpGet": {"path": registry.ENGINES[engine.name].health_path, "port": "http"},
        "periodSeconds": _STARTUP_PERIOD_S,
        "timeoutSeconds": 5,
        "failureThreshold": max(1, round(startup_budget_s / _STARTUP_PERIOD_S)),
    }
    return rendered


def _container(*, engine: EngineSpec, request: ServeRequest, storage: pods.Storage) -> dict[str, Any]:
    rendered = pods.container(
        name=CONTAINER,
        image=engine.image,
        command=registry.ENGINES[engine.name].command(request),
        template=engine.pod_template,
        storage=storage,
    )
    rendered["ports"] = [{"name": "http", "containerPort": request.port, "protocol": "TCP"}]
    return rendered
