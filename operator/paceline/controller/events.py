"""Kubernetes events about our resources, on transitions only; losing one is no reason to fail a pass."""

from typing import Any, Final

from paceline.api import names
from paceline.controller import apiserver, clock, errors, logs, metrics
from paceline.planning import conditions, plan
from paceline.planning.plan import Event, Key, Manifest

_COMPONENT: Final = "paceline-operator"
_MAX_NOTE_BYTES: Final = 1024
_MAX_INSTANCE: Final = 128


class Recorder:
    """Posts events."""

    def __init__(
        self, *, server: apiserver.ApiServer, instance: str, time: clock.Clock, measured: metrics.Metrics
    ) -> None:
        """Prepare; ``instance`` names this process."""
        self._server = server
        self._instance = instance[:_MAX_INSTANCE]
        self._clock = time
        self._metrics = measured

    async def record(self, key: Key, resource: Manifest, event: Event, *, version: str) -> None:
        """Post ``event`` about ``resource`` once.

        Args:
            key: the resource.
            resource: the same, as it was seen.
            event: what to tell.
            version: the resource's version after the status write that the event belongs to: together with the
                event it names it, so that a repeated pass does not tell it twice.
        """
        self._metrics.transitions.labels(kind=key.kind.kind, reason=event.reason).inc()
        logs.bind(key).info("transition", reason=event.reason, message=event.message, warning=event.warning)
        path = f"/apis/events.k8s.io/v1/namespaces/{key.namespace}/events"
        try:
            await self._server.request("POST", path, body=self._body(key, resource, event, version))
        except errors.AlreadyExistsError:
            return
        except errors.ControllerError as error:
            logs.bind(key).warning("event_lost", reason=event.reason, **{logs.ERROR: str(error)})

    def _body(self, key: Key, resource: Manifest, event: Event, version: str) -> dict[str, Any]:
        meta = plan.metadata(resource)
        token = names.digest([meta["uid"], version, event.reason, event.message])[7:23]
        moment = conditions.timestamp(self._clock.wall()).removesuffix("Z") + ".000000Z"
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{key.name[:236]}.{token}", "namespace": key.namespace},
            "eventTime": moment,
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "action": "Reconcile",
            "note": event.message.encode()[:_MAX_NOTE_BYTES].decode(errors="ignore"),
            "regarding": {
                "apiVersion": key.kind.api_version,
                "kind": key.kind.kind,
                "namespace": key.namespace,
                "name": key.name,
                "uid": meta["uid"],
                "resourceVersion": version,
            },
            "reportingController": _COMPONENT,
            "reportingInstance": self._instance,
        }
