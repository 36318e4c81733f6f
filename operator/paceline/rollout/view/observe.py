"""Sorts what the View shows once into disjoint groups, so that no policy filters pods a second time, differently."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline.api import names, stages
from paceline.api.speculativedeployment import SpeculativeDeployment
from paceline.capacity import precedence
from paceline.planning import fleet, kinds, plan
from paceline.planning import view as views
from paceline.rollout.documents import records, revisions, routes, workloads
from paceline.rollout.view import parts, podview


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One SpeculativeDeployment and all that belongs to it."""

    owner: workloads.Owner
    generation: int
    annotations: Mapping[str, str]
    status: Mapping[str, Any]
    revisions: Mapping[str, revisions.Revision]
    """By digest."""
    history: records.History
    servers: Mapping[str, parts.Server]
    """By short hash of the revision; a measuring copy by ``workloads.copy_key`` of it."""
    front: parts.Front | None
    """None before the first promotion."""
    backends: Mapping[str, parts.Backend] = field(default_factory=dict)
    """Services of single revisions, by short hash."""
    http_routes: Mapping[str, routes.Route] = field(default_factory=dict)
    """The HTTPRoute that the spec names, and those that still hold something of ours, by name."""
    route_sight: views.Sight = views.Sight.OFF
    budget: parts.Budget | None = None
    inspections: Mapping[str, parts.Work] = field(default_factory=dict)
    probes: Mapping[str, parts.Work] = field(default_factory=dict)
    documents: Mapping[str, parts.Document] = field(default_factory=dict)
    """Configuration of inspection and probe Jobs, by name, which is the Job's."""
    progress: Mapping[str, stages.LiveProgress] = field(default_factory=dict)
    """What probe pods last said, by pod UID; a pod that was not heard is missing."""
    scrapes: Mapping[str, tuple[tuple[float, str], ...]] = field(default_factory=dict)
    """Recent metrics of stable's ready pods, by pod UID, oldest first; empty for pods that are not asked."""
    candidate_scrapes: Mapping[str, tuple[tuple[float, str], ...]] = field(default_factory=dict)
    """Those of an open rollout's candidate, while it has a share of users' traffic."""
    draining_nodes: frozenset[str] = frozenset()
    """Nodes on which a server's pod of this resource still ends, and may hold its GPUs."""
    living: frozenset[str] = frozenset()
    """Short hashes of the revisions that have a server's pod which is not ending."""
    devices: fleet.Fleet | None = None
    """Nodes and who holds their devices; None where nobody may see them."""
    standing: precedence.Standing = field(default_factory=precedence.Standing)
    """Where the open rollout's claim stands in the ledger, or what was promised to others while one hands over."""
    damaged: tuple[str, ...] = ()
    """What is wrong with evidence that cannot be read; nothing is decided while there is any."""

    def server(self, digest: str) -> parts.Server | None:
        """Return the Deployment of the revision with this digest."""
        return self.servers.get(names.short(digest)) if digest else None


def observe(view: views.View, manifest: plan.Manifest, *, stage_image: str) -> Observed:
    """Return what is known of one resource, looked up once a picture.

    Raises:
        pydantic.ValidationError: when the stored spec is none that this version understands.
    """
    question = f"{manifest['kind']} {plan.metadata(manifest)['uid']}"
    return view.once(question, lambda: _observe(view, manifest, stage_image=stage_image))


def _observe(view: views.View, manifest: plan.Manifest, *, stage_image: str) -> Observed:
    resource = SpeculativeDeployment.model_validate({"spec": manifest["spec"]})
    owner = workloads.Owner(manifest=manifest, spec=resource.spec, stage_image=stage_image)
    meta = plan.metadata(manifest)
    pods = _pods_by_part(view, owner)
    stored, documents, damaged = parts.config_maps(view.owned(kinds.CONFIG_MAP, owner.uid))
    known, unknown = _revisions(view.owned(kinds.CONTROLLER_REVISION, owner.uid))
    jobs = view.owned(kinds.JOB, owner.uid)
    front = parts.front(view.get(kinds.SERVICE, owner.namespace, names.front(owner.name)), owner.uid)
    history = records.History(
        owner=owner.name, owner_uid=owner.uid, stored=stored, floor=front.decision if front else 0
    )
    servers = parts.servers(view.owned(kinds.DEPLOYMENT, owner.uid), pods, view)
    probes = parts.works(jobs, workloads.PROBE, pods.get(workloads.PROBE, ()))
    return Observed(
        owner=owner,
        generation=int(meta.get("generation", 0)),
        annotations=meta.get("annotations") or {},
        status=manifest.get("status") or {},
        revisions=known,
        history=history,
        servers=servers,
        front=front,
        backends=parts.backends(view.owned(kinds.SERVICE, owner.uid)),
        http_routes=_routes(view, owner),
        route_sight=view.sight(kinds.HTTP_ROUTE),
        budget=parts.budget(view.owned(kinds.POD_DISRUPTION_BUDGET, owner.uid)),
        inspections=parts.works(jobs, workloads.INSPECT, pods.get(workloads.INSPECT, ())),
        probes=probes,
        documents=documents,
        progress=_progress(view, probes.values()),
        scrapes=_scrapes(view, servers.get(names.short(history.stable))),
        candidate_scrapes=_scrapes(view, _sharing(servers, history)),
        draining_nodes=parts.draining([*pods.get(workloads.SERVER, ()), *pods.get(workloads.COPY, ())]),
        living=frozenset(
            podview.label(pod, names.LABEL_REVISION) for pod in pods.get(workloads.SERVER, ()) if podview.lives(pod)
        ),
        devices=view.fleet(),
        standing=_standing(view, history),
        damaged=(*damaged, *unknown),
    )


def _standing(view: views.View, history: records.History) -> precedence.Standing:
    world, opened, change = view.fleet(), history.open, history.last_change
    place = None
    if opened is None and change is not None and change.rolls:
        place = precedence.LAST
    if opened is not None and opened.uid is not None:
        place = precedence.Place(record_uid=opened.uid, resource_version=opened.resource_version or "")
    return precedence.stand(view, world, place) if world is not None and place is not None else precedence.Standing()


def _progress(view: views.View, works: Iterable[parts.Work]) -> dict[str, stages.LiveProgress]:
    heard = {pod.uid: view.progress(pod.uid) for work in works for pod in work.pods}
    return {uid: progress for uid, progress in heard.items() if progress is not None}


def _sharing(servers: Mapping[str, parts.Server], history: records.History) -> parts.Server | None:
    """Return the candidate that has a share of users' traffic."""
    opened = history.open
    return servers.get(names.short(opened.record.candidate)) if opened and opened.record.weight else None


def _scrapes(view: views.View, server: parts.Server | None) -> dict[str, tuple[tuple[float, str], ...]]:
    return {pod.uid: view.metrics_text(pod.uid) for pod in server.ready} if server else {}


def _pods_by_part(view: views.View, owner: workloads.Owner) -> dict[str, list[plan.Manifest]]:
    groups: dict[str, list[plan.Manifest]] = {}
    value = names.label_value(owner.name)
    for pod in view.labelled(kinds.POD, owner.namespace, names.LABEL_DEPLOYMENT, value):
        groups.setdefault(podview.label(pod, names.LABEL_PART), []).append(pod)
    return groups


def _revisions(
    manifests: Iterable[plan.Manifest],
) -> tuple[dict[str, revisions.Revision], tuple[str, ...]]:
    known: dict[str, revisions.Revision] = {}
    damaged: list[str] = []
    for manifest in manifests:
        try:
            revision = revisions.read(manifest)
        except (KeyError, TypeError, ValueError):
            name = plan.metadata(manifest)["name"]
            damaged.append(f"ControllerRevision {name} is not readable; delete it to have it made again")
        else:
            known[revision.digest] = revision
    return known, tuple(damaged)


def _routes(view: views.View, owner: workloads.Owner) -> dict[str, routes.Route]:
    named, mark = owner.spec.traffic.http_route, routes.annotation(owner)
    found = [
        routes.read(one, owner)
        for one in view.listed(kinds.HTTP_ROUTE, owner.namespace)
        if (named and plan.metadata(one)["name"] == named.name) or mark in (plan.metadata(one).get("annotations") or {})
    ]
    return {one.name: one for one in found}
