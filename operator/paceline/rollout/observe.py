"""Sorts what the View shows once into disjoint groups, so that no policy filters pods a second time, differently."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from paceline.api import names, stages
from paceline.api.speculativedeployment import SpeculativeDeployment
from paceline.capacity import forecast, ledger
from paceline.planning import conditions, fleet, kinds, plan
from paceline.planning import view as views
from paceline.rollout import endings, records, revisions, workloads
from paceline.workloads import engines

_GONE_PHASES: Final = frozenset({"Failed", "Succeeded"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What a policy asks of a pod."""

    name: str
    uid: str
    created_at: float
    ip: str
    node: str
    phase: str
    ready: bool
    scheduled_at: float | None
    """None while it has no node."""
    unschedulable: str
    """The scheduler's message while it has no node."""
    restarts: int
    waiting: str
    """Reason for which the engine's container waits, such as ``ImagePullBackOff``; empty when it does not."""
    last_exit: str
    """How the engine's container last ended, in words; empty when it never did."""
    message: str
    """Termination message of the main container; empty while it runs."""
    waiting_message: str = ""
    """What Kubernetes says beside ``waiting``."""
    ending: endings.Ending | None = None
    """How it last ended; None when it never did."""
    warnings: tuple[views.Warned, ...] = ()
    """Warning events about a server's pod that has not started, newest first; empty while none is known."""
    unready_since: float | None = None
    """When it last stopped being ready, or began to be not: a crash loop does not move it. None while it is ready."""
    ready_at: float | None = None
    """When it last became ready; None while it is not."""
    priority: int = 0
    """As admission resolved it from the priority class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One revision's Deployment and its living pods."""

    name: str
    uid: str
    resource_version: str | None
    revision: str
    """Short hash, as in the label."""
    replicas: int
    created_at: float
    stirred_at: float
    """When one of its conditions last changed: the beginning of a wait that no pod shows."""
    trouble: str
    """Why no pod can be made, such as a quota; empty when nothing is wrong."""
    pods: tuple[Pod, ...]
    """Neither terminating nor over."""

    @property
    def ready(self) -> Sequence[Pod]:
        """Pods with a ready endpoint, by name."""
        return [pod for pod in self.pods if pod.ready]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A Job of ours and its pods, newest last."""

    name: str
    uid: str
    token: str
    """Of a probe: ``rollout/round``; else empty."""
    succeeded: bool
    failed: str
    """Why it failed, in words; empty otherwise."""
    deleting: bool
    pods: tuple[Pod, ...]

    @property
    def finished(self) -> bool:
        """Whether nothing more will come."""
        return self.succeeded or bool(self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The Service that users call."""

    uid: str
    resource_version: str | None
    selected: str
    """Short hash of the one revision it selects, in a pool of the one that the other makes way for; empty if someone
    broke the selector."""
    is_pool: bool = False
    """Whether it selects all of the resource's servers."""
    decision: int
    selected_at: float
    port: int
    selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of the pods that it leads users to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The PodDisruptionBudget of what serves."""

    uid: str
    selector: Mapping[str, str]
    max_unavailable: object
    """As it is stored: a number, unless somebody made it another's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A ConfigMap of ours that is no rollout record."""

    name: str
    uid: str
    part: str
    data: Mapping[str, str]


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
    servers: Mapping[str, Server]
    """By short hash of the revision; a measuring copy by ``workloads.copy_key`` of it."""
    front: Front | None
    """None before the first promotion."""
    budget: Budget | None = None
    inspections: Mapping[str, Work] = field(default_factory=dict)
    probes: Mapping[str, Work] = field(default_factory=dict)
    documents: Mapping[str, Document] = field(default_factory=dict)
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
    promised: tuple[forecast.Claim, ...] = ()
    """What comes before this resource's open rollout in the ledger; empty when none is open."""
    promised_own: tuple[forecast.Claim, ...] = ()
    """What that rollout was granted itself and has no pods for yet."""
    ledger_is_whole: bool = True
    """Whether all that comes before it can be seen; nothing is granted otherwise."""
    has_asked: bool = False
    """Whether the record, as it was seen, asks for anything there; nothing is granted otherwise."""
    damaged: tuple[str, ...] = ()
    """What is wrong with evidence that cannot be read; nothing is decided while there is any."""

    def server(self, digest: str) -> Server | None:
        """Return the Deployment of the revision with this digest."""
        return self.servers.get(names.short(digest)) if digest else None


def observe(view: views.View, manifest: plan.Manifest, *, stage_image: str) -> Observed:
    """Return what is known of one resource.

    Raises:
        pydantic.ValidationError: when the stored spec is none that this version understands.
    """
    resource = SpeculativeDeployment.model_validate({"spec": manifest["spec"]})
    owner = workloads.Owner(manifest=manifest, spec=resource.spec, stage_image=stage_image)
    meta = plan.metadata(manifest)
    pods = _pods_by_part(view, owner)
    stored, documents, damaged = _config_maps(view.owned(kinds.CONFIG_MAP, owner.uid))
    known, unknown = _revisions(view.owned(kinds.CONTROLLER_REVISION, owner.uid))
    jobs = view.owned(kinds.JOB, owner.uid)
    front = _front(view.get(kinds.SERVICE, owner.namespace, names.front(owner.name)), owner.uid)
    history = records.History(
        owner=owner.name, owner_uid=owner.uid, stored=stored, floor=front.decision if front else 0
    )
    servers = _servers(view.owned(kinds.DEPLOYMENT, owner.uid), pods, view)
    probes = _works(jobs, workloads.PROBE, pods.get(workloads.PROBE, ()))
    return Observed(
        owner=owner,
        generation=int(meta.get("generation", 0)),
        annotations=meta.get("annotations") or {},
        status=manifest.get("status") or {},
        revisions=known,
        history=history,
        servers=servers,
        front=front,
        budget=_budget(view.owned(kinds.POD_DISRUPTION_BUDGET, owner.uid)),
        inspections=_works(jobs, workloads.INSPECT, pods.get(workloads.INSPECT, ())),
        probes=probes,
        documents=documents,
        progress=_progress(view, probes.values()),
        scrapes=_scrapes(view, servers.get(names.short(history.stable))),
        candidate_scrapes=_scrapes(view, _sharing(servers, history)),
        draining_nodes=_draining([*pods.get(workloads.SERVER, ()), *pods.get(workloads.COPY, ())]),
        living=frozenset(_label(pod, names.LABEL_REVISION) for pod in pods.get(workloads.SERVER, ()) if _lives(pod)),
        devices=view.fleet(),
        **_ledger(view, history),
        damaged=(*damaged, *unknown),
    )


def _ledger(view: views.View, history: records.History) -> dict[str, Any]:
    """Return the fields that tell what comes before an open rollout."""
    world, opened = view.fleet(), history.open
    if world is None or opened is None or opened.uid is None or not opened.record.stable:
        return {}
    place = ledger.Place(record_uid=opened.uid, resource_version=opened.resource_version or "")
    return {
        "promised": tuple(ledger.promised(view, world, place)),
        "promised_own": tuple(ledger.own(view, world, place)),
        "ledger_is_whole": ledger.is_whole(view, place),
        "has_asked": ledger.has_asked(view, place),
    }


def _progress(view: views.View, works: Iterable[Work]) -> dict[str, stages.LiveProgress]:
    heard = {pod.uid: view.progress(pod.uid) for work in works for pod in work.pods}
    return {uid: progress for uid, progress in heard.items() if progress is not None}


def _sharing(servers: Mapping[str, Server], history: records.History) -> Server | None:
    """Return the candidate that has a share of users' traffic."""
    opened = history.open
    return servers.get(names.short(opened.record.candidate)) if opened and opened.record.weight else None


def _scrapes(view: views.View, server: Server | None) -> dict[str, tuple[tuple[float, str], ...]]:
    return {pod.uid: view.metrics_text(pod.uid) for pod in server.ready} if server else {}


def _pods_by_part(view: views.View, owner: workloads.Owner) -> dict[str, list[plan.Manifest]]:
    groups: dict[str, list[plan.Manifest]] = {}
    value = names.label_value(owner.name)
    for pod in view.labelled(kinds.POD, owner.namespace, names.LABEL_DEPLOYMENT, value):
        groups.setdefault(_label(pod, names.LABEL_PART), []).append(pod)
    return groups


def _config_maps(
    manifests: Iterable[plan.Manifest],
) -> tuple[tuple[records.Stored, ...], dict[str, Document], tuple[str, ...]]:
    """Return rollout records by number, other documents by name, and what is wrong with records that are unreadable."""
    stored: list[records.Stored] = []
    documents: dict[str, Document] = {}
    damaged: list[str] = []
    for manifest in manifests:
        meta = plan.metadata(manifest)
        if _label(manifest, names.LABEL_PART) != records.PART:
            documents[meta["name"]] = Document(
                name=meta["name"],
                uid=meta["uid"],
                part=_label(manifest, names.LABEL_PART),
                data=manifest.get("data") or {},
            )
            continue
        try:
            stored.append(records.read(manifest))
        except records.DamagedRecordError as error:
            damaged.append(str(error))
    return tuple(sorted(stored, key=lambda one: one.record.number)), documents, tuple(damaged)


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


def _servers(
    manifests: Iterable[plan.Manifest],
    pods_by_part: Mapping[str, Iterable[plan.Manifest]],
    view: views.View,
) -> dict[str, Server]:
    """Return Deployments by their key: a revision's own, and its measuring copy."""
    pods: dict[tuple[str, str], list[plan.Manifest]] = {}
    for part in (workloads.SERVER, workloads.COPY):
        for pod in pods_by_part.get(part, ()):
            pods.setdefault((part, _label(pod, names.LABEL_REVISION)), []).append(pod)
    found: dict[str, Server] = {}
    for one in manifests:
        part, short = _label(one, names.LABEL_PART), _label(one, names.LABEL_REVISION)
        key = workloads.copy_key(short) if part == workloads.COPY else short
        found[key] = _server(one, pods.get((part, short), ()), view)
    return found


def _server(manifest: plan.Manifest, pods: Iterable[plan.Manifest], view: views.View) -> Server:
    meta = plan.metadata(manifest)
    told = (manifest.get("status") or {}).get("conditions") or ()
    created = conditions.parse_timestamp(meta["creationTimestamp"])
    changes = [conditions.parse_timestamp(one["lastTransitionTime"]) for one in told if one.get("lastTransitionTime")]
    failure = next((one for one in told if one["type"] == "ReplicaFailure" and one["status"] == "True"), None)
    living = [pod for pod in pods if _lives(pod) and _made_by(pod, meta["name"])]
    return Server(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta.get("resourceVersion"),
        revision=_label(manifest, names.LABEL_REVISION),
        replicas=int(manifest["spec"].get("replicas", 1)),
        created_at=created,
        stirred_at=max([created, *changes]),
        trouble=str(failure.get("message", "")) if failure else "",
        pods=tuple(_pod(pod, container=engines.CONTAINER, view=view) for pod in living),
    )


def _draining(pods: Iterable[plan.Manifest]) -> frozenset[str]:
    ending = [pod for pod in pods if "deletionTimestamp" in plan.metadata(pod)]
    nodes = [str((pod.get("spec") or {}).get("nodeName") or "") for pod in ending]
    return frozenset(node for node in nodes if node)


def _lives(pod: plan.Manifest) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return "deletionTimestamp" not in plan.metadata(pod) and phase not in _GONE_PHASES


def _made_by(pod: plan.Manifest, deployment: str) -> bool:
    """Whether a ReplicaSet of this Deployment made the pod: a stray one with our labels is nobody's endpoint."""
    references = plan.metadata(pod).get("ownerReferences", ())
    return any(
        one.get("controller") and one["kind"] == "ReplicaSet" and one["name"].startswith(f"{deployment}-")
        for one in references
    )


def _works(jobs: Iterable[plan.Manifest], part: str, pods: Sequence[plan.Manifest]) -> dict[str, Work]:
    works = [_work(job, pods) for job in jobs if _label(job, names.LABEL_PART) == part]
    return {work.name: work for work in works}


def _work(job: plan.Manifest, pods: Sequence[plan.Manifest]) -> Work:
    meta = plan.metadata(job)
    told = {one["type"]: one for one in (job.get("status") or {}).get("conditions") or () if one["status"] == "True"}
    failure = told.get("Failed")
    own = [_pod(pod, container=workloads.MAIN) for pod in pods if plan.controller_uid(pod) == meta["uid"]]
    return Work(
        name=meta["name"],
        uid=meta["uid"],
        token=(meta.get("annotations") or {}).get(workloads.ANNOTATION_ROUND, ""),
        succeeded="Complete" in told,
        failed=f"{failure.get('reason', 'Failed')}: {failure.get('message', '')}" if failure else "",
        deleting="deletionTimestamp" in meta,
        pods=tuple(sorted(own, key=lambda pod: (pod.created_at, pod.name))),
    )


def _front(service: plan.Manifest | None, owner_uid: str) -> Front | None:
    """Return the front Service if it is ours; a foreign one is found out when ours is created."""
    if service is None or plan.controller_uid(service) != owner_uid:
        return None
    meta = plan.metadata(service)
    notes = meta.get("annotations") or {}
    selected_at = notes.get(workloads.ANNOTATION_SELECTED_AT) or meta["creationTimestamp"]
    spec, pool = service["spec"], notes.get(workloads.ANNOTATION_POOL, "")
    return Front(
        uid=meta["uid"],
        resource_version=meta.get("resourceVersion"),
        selected=(spec.get("selector") or {}).get(names.LABEL_REVISION, "") or pool,
        is_pool=bool(pool),
        decision=int(notes.get(workloads.ANNOTATION_DECISION, "0")),
        selected_at=conditions.parse_timestamp(selected_at),
        port=int(spec["ports"][0]["port"]) if spec.get("ports") else 0,
        selector=spec.get("selector") or {},
    )


def _budget(manifests: Sequence[plan.Manifest]) -> Budget | None:
    """Return the one budget that we make for a resource."""
    found = next(iter(manifests), None)
    if found is None:
        return None
    spec = found["spec"]
    return Budget(
        uid=plan.metadata(found)["uid"],
        selector=(spec.get("selector") or {}).get("matchLabels") or {},
        max_unavailable=spec.get("maxUnavailable"),
    )


def _pod(manifest: plan.Manifest, *, container: str, view: views.View | None = None) -> Pod:
    meta = plan.metadata(manifest)
    status = manifest.get("status") or {}
    told = {one["type"]: one for one in status.get("conditions") or ()}
    scheduled = told.get("PodScheduled", {})
    states = status.get("containerStatuses") or ()
    own: Mapping[str, Any] = next((one for one in states if one["name"] == container), {})
    state = own.get("state") or {}
    ended = endings.state(own)
    has_node = scheduled.get("status") == "True"
    readiness = told.get("Ready", {})
    changed = readiness.get("lastTransitionTime")
    ready = readiness.get("status") == "True"
    unready_since = conditions.parse_timestamp(changed) if changed and readiness.get("status") == "False" else None
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        created_at=conditions.parse_timestamp(meta["creationTimestamp"]),
        ip=status.get("podIP") or "",
        node=(manifest.get("spec") or {}).get("nodeName") or "",
        phase=status.get("phase") or "Pending",
        ready=ready,
        scheduled_at=conditions.parse_timestamp(scheduled["lastTransitionTime"]) if has_node else None,
        ready_at=conditions.parse_timestamp(changed) if changed and ready else None,
        priority=int((manifest.get("spec") or {}).get("priority") or 0),
        unschedulable="" if has_node else str(scheduled.get("message", "")),
        restarts=int(own.get("restartCount", 0)),
        waiting=(state.get("waiting") or {}).get("reason") or "",
        last_exit=endings.in_words(ended),
        message=(state.get("terminated") or {}).get("message") or "",
        waiting_message=(state.get("waiting") or {}).get("message") or "",
        ending=endings.read(own, pod_uid=meta["uid"], unready_since=unready_since, log=view.log if view else None),
        unready_since=unready_since,
        warnings=view.warnings(meta["uid"]) if view else (),
    )


def _label(manifest: plan.Manifest, label: str) -> str:
    return str((plan.metadata(manifest).get("labels") or {}).get(label, ""))
