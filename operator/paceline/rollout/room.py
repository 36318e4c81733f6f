"""SpeculativeDeployment as the controller drives it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import quote

import pydantic

from paceline.api import names, stages
from paceline.api.conditions import RolloutReason
from paceline.engines import registry
from paceline.planning import kinds, plan
from paceline.planning import view as views
from paceline.rollout import reconcile
from paceline.rollout.documents import routes, workloads
from paceline.rollout.guarding import guard
from paceline.rollout.telling import status
from paceline.rollout.view import endings, observe, readiness
from paceline.workloads import engines

# A volume's warning is repeated in one event; a pod has a handful.
_MOST_EVENTS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The room of SpeculativeDeployment."""

    kind: ClassVar[kinds.Kind] = kinds.SPECULATIVE_DEPLOYMENT

    stage_image: str = ""
    """Image of inspection and probe pods where a resource names none."""

    def reconcile(self, view: views.View, key: plan.Key, now: float) -> plan.Plan | None:
        """Return the plan for ``key``; None when the resource is gone, or going: its children go with it."""
        manifest = _living(view, key)
        if manifest is None:
            return None
        meta, stored = plan.metadata(manifest), manifest.get("status") or {}
        generation = int(meta.get("generation", 0))
        try:
            seen = observe.observe(view, manifest, stage_image=self.stage_image)
        except pydantic.ValidationError as error:
            message = f"The spec cannot be read: {_first(error)}"
            return status.refuse(stored, RolloutReason.INVALID_SPEC, message, generation=generation, now=now)
        if not (seen.owner.spec.prober_image or self.stage_image):
            message = "No image for inspection and probe pods: set spec.proberImage, or the operator's stage image."
            return status.refuse(stored, RolloutReason.INVALID_SPEC, message, generation=generation, now=now)
        return reconcile.reconcile(seen, _training_job(view, seen), now)

    def dependents(self, view: views.View, changed: plan.Manifest) -> Sequence[plan.Key]:
        """Return the resource a pod works for, and those that wait for a training job or weigh a route."""
        meta = plan.metadata(changed)
        if changed["kind"] == kinds.POD.kind:
            owner = (meta.get("annotations") or {}).get(workloads.ANNOTATION_OWNER)
            ours = names.LABEL_DEPLOYMENT in (meta.get("labels") or {})
            return [_key(meta["namespace"], owner)] if owner and ours else []
        if changed["kind"] == kinds.HTTP_ROUTE.kind:
            return [_key(meta["namespace"], one) for one in _weighting(view, changed)]
        if changed["kind"] != kinds.DRAFT_TRAINING_JOB.kind:
            return []
        return [
            _key(meta["namespace"], plan.metadata(one)["name"])
            for one in view.listed(kinds.SPECULATIVE_DEPLOYMENT, meta["namespace"])
            if _referred_job(one) == meta["name"]
        ]

    def polled(self, view: views.View, key: plan.Key) -> Sequence[views.PodPoll]:
        """Return probe pods, for progress, stable's pods, for metrics, and engines that ended unexplained, for logs."""
        manifest = _living(view, key)
        if manifest is None:
            return []
        try:
            seen = observe.observe(view, manifest, stage_image=self.stage_image)
        except pydantic.ValidationError:
            return []
        # An open rollout has to know whether users are on stable's pods, which the probe would drive.
        watches = guard.is_on(seen) or seen.history.open is not None
        return [*_probes(seen), *(_servers(seen) if watches else []), *_logs(seen), *_events(seen)]


def _living(view: views.View, key: plan.Key) -> plan.Manifest | None:
    manifest = view.get(kinds.SPECULATIVE_DEPLOYMENT, key.namespace, key.name)
    return None if manifest is None or "deletionTimestamp" in plan.metadata(manifest) else manifest


def _key(namespace: str, name: str) -> plan.Key:
    return plan.Key(kind=kinds.SPECULATIVE_DEPLOYMENT, namespace=namespace, name=name)


def _referred_job(manifest: plan.Manifest) -> str | None:
    speculation = (manifest.get("spec") or {}).get("speculation") or {}
    name: str | None = (speculation.get("trainingJobRef") or {}).get("name")
    return name


def _weighting(view: views.View, route: plan.Manifest) -> Sequence[str]:
    """Return the resources that name an HTTPRoute, and those that have left something on it."""
    meta = plan.metadata(route)
    marked = routes.owners(route)
    named = [
        str(plan.metadata(one)["name"])
        for one in view.listed(kinds.SPECULATIVE_DEPLOYMENT, meta["namespace"])
        if (((one.get("spec") or {}).get("traffic") or {}).get("httpRoute") or {}).get("name") == meta["name"]
    ]
    return sorted({*marked, *named})


def _training_job(view: views.View, seen: observe.Observed) -> plan.Manifest | None:
    reference = seen.owner.spec.speculation.training_job_ref
    return view.get(kinds.DRAFT_TRAINING_JOB, seen.owner.namespace, reference.name) if reference else None


def _probes(seen: observe.Observed) -> Sequence[views.PodPoll]:
    return [
        views.PodPoll(pod_uid=pod.uid, url=f"http://{pod.ip}:{stages.PROGRESS_PORT}/progress", wants="progress")
        for work in seen.probes.values()
        for pod in work.pods
        if pod.phase == "Running" and pod.ip
    ]


def _servers(seen: observe.Observed) -> Sequence[views.PodPoll]:
    """Return the pods that users reach: stable's, and those of a candidate that has a share of the traffic."""
    opened = seen.history.open
    sharing = [opened.record.candidate] if opened and opened.record.weight else []
    servers = [server for digest in (seen.history.stable, *sharing) if (server := seen.server(digest))]
    path = registry.ENGINES[seen.owner.spec.engine.name].metrics_path
    return [
        views.PodPoll(pod_uid=pod.uid, url=f"http://{pod.ip}:{stages.ENGINE_PORT}{path}", wants="metrics")
        for server in servers
        for pod in server.ready
        if pod.ip
    ]


def _logs(seen: observe.Observed) -> Sequence[views.PodPoll]:
    failed = [(pod.name, pod.ending) for server in seen.servers.values() for pod in server.pods if not pod.ready]
    return endings.polls(failed, namespace=seen.owner.namespace, container=engines.CONTAINER)


def _events(seen: observe.Observed) -> Sequence[views.PodPoll]:
    """Return the questions for events of servers that have a node and have not started."""
    path = f"/api/v1/namespaces/{quote(seen.owner.namespace)}/events"
    return [
        views.PodPoll(
            pod_uid=pod.uid,
            url=f"{path}?fieldSelector={quote(f'involvedObject.uid={pod.uid}')}&limit={_MOST_EVENTS}",
            wants="events",
        )
        for server in seen.servers.values()
        for pod in server.pods
        if readiness.is_starting(pod)
    ]


def _first(error: pydantic.ValidationError) -> str:
    """Return the first fault with its field."""
    fault = error.errors()[0]
    return f"spec.{'.'.join(str(part) for part in fault['loc'][1:])}: {fault['msg']}"
