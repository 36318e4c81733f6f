"""What a resource has made, as the cluster shows it: servers, Jobs, the front Service, its budget, documents."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from paceline.api import names
from paceline.planning import conditions, plan
from paceline.planning import view as views
from paceline.rollout.documents import records, workloads
from paceline.rollout.view import podview
from paceline.workloads import engines


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
    pods: tuple[podview.Pod, ...]
    """Neither terminating nor over."""

    @property
    def ready(self) -> Sequence[podview.Pod]:
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
    over_at: float
    """When it succeeded or failed; 0 before."""
    deleting: bool
    pods: tuple[podview.Pod, ...]

    @property
    def finished(self) -> bool:
        """Whether it is over; what its pod said may still be on its way."""
        return self.succeeded or bool(self.failed)

    def has_told(self, now: float) -> bool:
        """Whether nothing more will come: it is over, and its pod's end was seen, or is not to be seen any more."""
        ends = {"Succeeded"} if self.succeeded else {"Succeeded", "Failed"}
        seen = any(pod.phase in ends for pod in self.pods)
        return self.finished and (seen or now >= self.over_at + views.LOST_AFTER_S)


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
class Backend:
    """The Service of one revision alone."""

    name: str
    uid: str
    port: int


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


def config_maps(
    manifests: Iterable[plan.Manifest],
) -> tuple[tuple[records.Stored, ...], dict[str, Document], tuple[str, ...]]:
    """Return rollout records by number, other documents by name, and what is wrong with records that are unreadable."""
    stored: list[records.Stored] = []
    documents: dict[str, Document] = {}
    damaged: list[str] = []
    for manifest in manifests:
        meta = plan.metadata(manifest)
        if podview.label(manifest, names.LABEL_PART) != records.PART:
            documents[meta["name"]] = Document(
                name=meta["name"],
                uid=meta["uid"],
                part=podview.label(manifest, names.LABEL_PART),
                data=manifest.get("data") or {},
            )
            continue
        try:
            stored.append(records.read(manifest))
        except records.DamagedRecordError as error:
            damaged.append(str(error))
    return tuple(sorted(stored, key=lambda one: one.record.number)), documents, tuple(damaged)


def servers(
    manifests: Iterable[plan.Manifest],
    pods_by_part: Mapping[str, Iterable[plan.Manifest]],
    view: views.View,
) -> dict[str, Server]:
    """Return Deployments by their key: a revision's own, and its measuring copy."""
    pods: dict[tuple[str, str], list[plan.Manifest]] = {}
    for part in (workloads.SERVER, workloads.COPY):
        for pod in pods_by_part.get(part, ()):
            pods.setdefault((part, podview.label(pod, names.LABEL_REVISION)), []).append(pod)
    found: dict[str, Server] = {}
    for one in manifests:
        part, short = podview.label(one, names.LABEL_PART), podview.label(one, names.LABEL_REVISION)
        key = workloads.copy_key(short) if part == workloads.COPY else short
        found[key] = _server(one, pods.get((part, short), ()), view)
    return found


def _server(manifest: plan.Manifest, pods: Iterable[plan.Manifest], view: views.View) -> Server:
    meta = plan.metadata(manifest)
    told = (manifest.get("status") or {}).get("conditions") or ()
    created = conditions.parse_timestamp(meta["creationTimestamp"])
    changes = [conditions.parse_timestamp(one["lastTransitionTime"]) for one in told if one.get("lastTransitionTime")]
    failure = next((one for one in told if one["type"] == "ReplicaFailure" and one["status"] == "True"), None)
    living = [pod for pod in pods if podview.lives(pod) and podview.made_by(pod, meta["name"])]
    return Server(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta.get("resourceVersion"),
        revision=podview.label(manifest, names.LABEL_REVISION),
        replicas=int(manifest["spec"].get("replicas", 1)),
        created_at=created,
        stirred_at=max([created, *changes]),
        trouble=str(failure.get("message", "")) if failure else "",
        pods=tuple(podview.read(pod, container=engines.CONTAINER, view=view) for pod in living),
    )


def draining(pods: Iterable[plan.Manifest]) -> frozenset[str]:
    """Return the nodes on which one of the pods ends."""
    ending = [pod for pod in pods if "deletionTimestamp" in plan.metadata(pod)]
    nodes = [str((pod.get("spec") or {}).get("nodeName") or "") for pod in ending]
    return frozenset(node for node in nodes if node)


def works(jobs: Iterable[plan.Manifest], part: str, pods: Sequence[plan.Manifest]) -> dict[str, Work]:
    """Return the Jobs of a part by name, each with its pods among ``pods``."""
    found = [_work(job, pods) for job in jobs if podview.label(job, names.LABEL_PART) == part]
    return {work.name: work for work in found}


def _work(job: plan.Manifest, pods: Sequence[plan.Manifest]) -> Work:
    meta = plan.metadata(job)
    told = {one["type"]: one for one in (job.get("status") or {}).get("conditions") or () if one["status"] == "True"}
    failure, over = told.get("Failed"), told.get("Complete") or told.get("Failed") or {}
    own = [podview.read(pod, container=workloads.MAIN) for pod in pods if plan.controller_uid(pod) == meta["uid"]]
    return Work(
        name=meta["name"],
        uid=meta["uid"],
        token=(meta.get("annotations") or {}).get(workloads.ANNOTATION_ROUND, ""),
        succeeded="Complete" in told,
        failed=f"{failure.get('reason', 'Failed')}: {failure.get('message', '')}" if failure else "",
        over_at=conditions.parse_timestamp(over["lastTransitionTime"]) if over.get("lastTransitionTime") else 0.0,
        deleting="deletionTimestamp" in meta,
        pods=tuple(sorted(own, key=lambda pod: (pod.created_at, pod.name))),
    )


def front(service: plan.Manifest | None, owner_uid: str) -> Front | None:
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


def backends(manifests: Sequence[plan.Manifest]) -> dict[str, Backend]:
    """Return the Services of single revisions, by short hash."""
    found = [one for one in manifests if podview.label(one, names.LABEL_PART) == workloads.BACKEND]
    return {
        podview.label(one, names.LABEL_REVISION): Backend(
            name=plan.metadata(one)["name"],
            uid=plan.metadata(one)["uid"],
            port=int(one["spec"]["ports"][0]["port"]) if one["spec"].get("ports") else 0,
        )
        for one in found
    }


def budget(manifests: Sequence[plan.Manifest]) -> Budget | None:
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
