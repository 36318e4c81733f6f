"""Sorts what the cluster shows of one DraftTrainingJob, once, so that no policy filters Jobs or pods a second time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from paceline.api import names
from paceline.api.drafttrainingjob import DraftTrainingJob, DraftTrainingJobSpec, Stage
from paceline.capacity import ledger, precedence
from paceline.planning import conditions, fleet, kinds, plan
from paceline.planning import view as views
from paceline.training import attempts, results


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """The Job controller's last word on a Job."""

    at: float
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageJob:
    """The Job of one stage."""

    name: str
    uid: str
    stage: Stage
    deleting: bool
    """Its pods are being ended; it goes away after the last of them."""
    complete: JobEnd | None
    failed: JobEnd | None
    """At most one of the two is set; neither while the Job runs."""
    suspended: bool
    """Whether a queue holds it back; this operator never sets it."""
    started_at: str | None
    """When the Job controller took it up, as text."""
    failures: int
    """Pods that failed and were charged."""
    pods: tuple[attempts.Attempt, ...]
    """Those that are still to be seen, oldest first; may lack any that was collected."""

    @property
    def finished(self) -> bool:
        """Whether it will start no more pods."""
        return self.complete is not None or self.failed is not None

    @property
    def newest(self) -> attempts.Attempt | None:
        """The pod that counts now; None before the first."""
        return self.pods[-1] if self.pods else None

    @property
    def ended(self) -> attempts.Attempt | None:
        """The newest pod whose main container has ended; None when there is none."""
        over = [pod for pod in self.pods if pod.ending]
        return over[-1] if over else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One DraftTrainingJob and everything of it that exists."""

    resource: plan.Manifest
    job: DraftTrainingJob
    inspect_digest: str
    """Of what Inspect reads: an edit of it, legal until the run starts, asks for another inspection."""
    record: results.Record
    """What is remembered; empty at first."""
    record_object: plan.Manifest | None
    """The ConfigMap that holds it; None until something was worth remembering."""
    stage_jobs: Mapping[Stage, StageJob]
    """The Job of each stage, where there is one."""
    stale_jobs: tuple[plan.Manifest, ...]
    """Inspections of what the spec no longer says."""
    configs: Mapping[str, plan.Manifest]
    """Stage configurations by name, of any stage."""
    mounted_configs: frozenset[str]
    """Names of those that a Job, stale or not, still uses."""

    strays: tuple[str, ...]
    """Names of pods that may still run though their Job is gone: whoever deleted it did not wait for them."""
    devices: fleet.Fleet | None = None
    """Nodes and who holds their devices; None where nobody may see them."""
    standing: precedence.Standing = field(default_factory=precedence.Standing)
    """Where the claim of a run that asks for devices stands in the ledger."""

    @property
    def spec(self) -> DraftTrainingJobSpec:
        """The wanted run."""
        return self.job.spec

    @property
    def uid(self) -> str:
        """UID of the resource."""
        return str(plan.metadata(self.resource)["uid"])

    @property
    def name(self) -> str:
        """Name of the resource."""
        return str(plan.metadata(self.resource)["name"])

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(plan.metadata(self.resource)["namespace"])

    @property
    def start_time(self) -> str | None:
        """When the run started, from the status or, should that be lost, from the record; None before."""
        told = self.job.status.start_time if self.job.status else None
        return told or self.record.started_at


def inspect_digest(spec: DraftTrainingJobSpec) -> str:
    """Return the digest of all that decides what Inspect finds, and of the pod it runs in."""
    read = {
        "target": spec.target.wire(),
        "auxiliaryLayers": spec.draft.auxiliary_layers,
        "trainer": spec.trainer.wire(),
    }
    # Absent from the digest when unset: an upgrade must not inspect anything again.
    start = spec.draft.start_from
    return names.digest(read | ({"startFrom": start.wire()} if start else {}))


def job_name(resource: plan.Manifest, stage: Stage, digest: str) -> str:
    """Return the name of a stage's Job; only an inspection's depends on what is read, all else is fixed by then."""
    meta = plan.metadata(resource)
    token = f"{meta['uid']}/{stage}" + (f"/{digest}" if stage is Stage.INSPECT else "")
    return names.child(meta["name"], stage.lower(), token)


def observe(view: views.View, resource: plan.Manifest) -> Observed:
    """Return what is to be seen of ``resource``, looked up once a picture.

    Raises:
        ValueError: when the spec cannot be read, as one stored by another version may be.
    """
    question = f"{resource['kind']} {plan.metadata(resource)['uid']}"
    return view.once(question, lambda: _observe(view, resource))


def _observe(view: views.View, resource: plan.Manifest) -> Observed:
    job = DraftTrainingJob.model_validate(resource)
    uid = str(plan.metadata(resource)["uid"])
    digest = inspect_digest(job.spec)
    wanted = {job_name(resource, stage, digest): stage for stage in Stage}
    owned = view.owned(kinds.JOB, uid)
    configs = view.owned(kinds.CONFIG_MAP, uid)
    record_object = _record_object(configs, results.name(resource))
    return Observed(
        resource=resource,
        job=job,
        inspect_digest=digest,
        record=results.read(record_object),
        record_object=record_object,
        stage_jobs={
            wanted[name]: _stage_job(view, one, wanted[name])
            for one in owned
            if (name := plan.metadata(one)["name"]) in wanted
        },
        stale_jobs=tuple(one for one in owned if plan.metadata(one)["name"] not in wanted),
        configs={plan.metadata(one)["name"]: one for one in configs if one is not record_object},
        mounted_configs=_mounted(owned),
        strays=_strays(view, resource, owned),
        devices=view.fleet(),
        standing=_standing(view, record_object),
    )


def _standing(view: views.View, record_object: plan.Manifest | None) -> precedence.Standing:
    world = view.fleet()
    if world is None or record_object is None:
        return precedence.Standing()
    meta = plan.metadata(record_object)
    if (meta.get("labels") or {}).get(names.LABEL_CLAIM) != ledger.ASKED:
        return precedence.Standing()
    place = precedence.Place(record_uid=meta["uid"], resource_version=meta["resourceVersion"])
    return precedence.stand(view, world, place)


def _record_object(configs: Iterable[plan.Manifest], name: str) -> plan.Manifest | None:
    return next((one for one in configs if plan.metadata(one)["name"] == name), None)


def _strays(view: views.View, resource: plan.Manifest, owned: Iterable[plan.Manifest]) -> tuple[str, ...]:
    meta = plan.metadata(resource)
    label = names.label_value(meta["name"])
    pods = view.labelled(kinds.POD, meta["namespace"], names.LABEL_TRAINING_JOB, label)
    jobs = {plan.metadata(job)["uid"] for job in owned}
    return tuple(
        plan.metadata(pod)["name"]
        for pod in pods
        if plan.controller_uid(pod) not in jobs and not attempts.read(pod).over
    )


def _mounted(owned: Iterable[plan.Manifest]) -> frozenset[str]:
    volumes = [volume for job in owned for volume in job["spec"]["template"]["spec"].get("volumes", ())]
    return frozenset(volume["configMap"]["name"] for volume in volumes if "configMap" in volume)


def _stage_job(view: views.View, manifest: plan.Manifest, stage: Stage) -> StageJob:
    meta, status = plan.metadata(manifest), manifest.get("status", {})
    told = {one["type"]: one for one in status.get("conditions", ()) if one["status"] == "True"}
    own = sorted(
        view.owned(kinds.POD, meta["uid"]),
        key=lambda pod: (plan.metadata(pod).get("creationTimestamp", ""), plan.metadata(pod)["name"]),
    )
    return StageJob(
        name=meta["name"],
        uid=meta["uid"],
        stage=stage,
        deleting="deletionTimestamp" in meta,
        complete=_job_end(told.get("Complete")),
        failed=_job_end(told.get("Failed")),
        suspended="Suspended" in told or bool(manifest["spec"].get("suspend")),
        started_at=status.get("startTime"),
        failures=int(status.get("failed", 0)),
        pods=tuple(attempts.read(pod) for pod in own),
    )


def _job_end(condition: Mapping[str, str] | None) -> JobEnd | None:
    if condition is None:
        return None
    return JobEnd(
        at=conditions.parse_timestamp(condition["lastTransitionTime"]),
        reason=condition.get("reason", ""),
        message=condition.get("message", ""),
    )
