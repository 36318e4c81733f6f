"""A small model of a cluster: an object store with preconditions, and what Job controller and kubelet do to it.

It knows nothing of the operator's rules. Tests drive it move by move, in any order, and show the operator old pictures.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from paceline.api import report, stages
from paceline.api.drafttrainingjob import Stage
from paceline.planning import conditions, kinds, plan
from training import builders

StoreKey = tuple[str, str]
Store = dict[StoreKey, dict[str, Any]]


class RefusedError(Exception):
    """The API server turned a write down: exists already, is gone, or is not what the writer had seen."""


class Cluster:
    """One namespace."""

    def __init__(self, resource: dict[str, Any]) -> None:
        """Hold one DraftTrainingJob."""
        self.now = builders.NOW
        self.store: Store = {("DraftTrainingJob", resource["metadata"]["name"]): resource}
        self.runs: list[tuple[Stage, str]] = []
        """Stages whose Jobs were ever created, with the Job's UID."""
        self._counter = 100

    def view(self) -> builders.FakeView:
        """Return a picture of now."""
        return builders.FakeView(*copy.deepcopy(list(self.store.values())))

    @property
    def resource(self) -> dict[str, Any] | None:
        """The DraftTrainingJob; None once it is deleted."""
        return self.store.get(("DraftTrainingJob", builders.NAME))

    def jobs(self) -> Iterator[dict[str, Any]]:
        """Yield the Jobs."""
        yield from [one for (kind, _), one in self.store.items() if kind == "Job"]

    def pods_of(self, job: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return a Job's pods, oldest first."""
        uid = job["metadata"]["uid"]
        pods = [one for (kind, _), one in self.store.items() if kind == "Pod"]
        return [pod for pod in pods if plan.controller_uid(pod) == uid]

    # what the operator does

    def carry_out(self, action: plan.Action) -> None:
        """Do what the executor would."""
        if isinstance(action, plan.Create):
            self._create(action.manifest)
        elif isinstance(action, plan.Apply):
            self._apply(action)
        else:
            self._delete(action)

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Store the status."""
        if self.resource is not None:
            self.resource["status"] = dict(copy.deepcopy(status))
            self._touch(self.resource)

    def _create(self, manifest: plan.Manifest) -> None:
        key = (manifest["kind"], manifest["metadata"]["name"])
        if key in self.store:
            return  # ours: adopted
        made = copy.deepcopy(dict(manifest))
        self._counter += 1
        made["metadata"] |= {
            "uid": f"{manifest['kind'].lower()}-{self._counter}",
            "creationTimestamp": conditions.timestamp(self.now),
        }
        self._touch(made)
        self.store[key] = made
        if made["kind"] == "Job":
            made["status"] = {"startTime": conditions.timestamp(self.now)}
            self.runs.append((stage_of(made), made["metadata"]["uid"]))

    def _apply(self, action: plan.Apply) -> None:
        key = (action.manifest["kind"], action.manifest["metadata"]["name"])
        old = self._checked(key, uid=action.uid, version=action.resource_version)
        merged = {**old, **copy.deepcopy(dict(action.manifest))}
        merged["metadata"] = {**old["metadata"], **action.manifest["metadata"]}
        self._touch(merged)
        self.store[key] = merged

    def _delete(self, action: plan.Delete) -> None:
        key = (action.kind.kind, action.name)
        old = self._checked(key, uid=action.uid, version=action.resource_version)
        if action.kind is kinds.JOB:
            self._end_pods(old)
            if action.propagation == "Foreground" and self.pods_of(old):
                old["metadata"]["deletionTimestamp"] = conditions.timestamp(self.now)
                self._touch(old)
                return
        del self.store[key]

    def _checked(self, key: StoreKey, *, uid: str, version: str | None) -> dict[str, Any]:
        old = self.store.get(key)
        if old is None or old["metadata"]["uid"] != uid:
            raise RefusedError(f"{key} is gone")
        if version is not None and old["metadata"]["resourceVersion"] != version:
            raise RefusedError(f"{key} has changed")
        return old

    def _touch(self, one: dict[str, Any]) -> None:
        self._counter += 1
        one["metadata"]["resourceVersion"] = str(self._counter)

    def _end_pods(self, job: Mapping[str, Any]) -> None:
        for pod in self.pods_of(job):
            pod["metadata"]["deletionTimestamp"] = conditions.timestamp(self.now)
            self._touch(pod)

    # what the cluster does

    def collect_garbage(self) -> None:
        """Remove pods that are being deleted, then Jobs that waited for them, then pods without a Job."""
        for key, one in list(self.store.items()):
            if key[0] == "Pod" and "deletionTimestamp" in one["metadata"]:
                del self.store[key]
        for job in list(self.jobs()):
            if "deletionTimestamp" in job["metadata"] and not self.pods_of(job):
                del self.store["Job", job["metadata"]["name"]]
        uids = {job["metadata"]["uid"] for job in self.jobs()}
        for key, one in list(self.store.items()):
            if key[0] == "Pod" and plan.controller_uid(one) not in uids:
                del self.store[key]

    def sync_job(self, job: dict[str, Any]) -> None:
        """Do what the Job controller does: count, finish, or make the next pod."""
        if is_over(job) or "deletionTimestamp" in job["metadata"]:
            return
        pods = self.pods_of(job)
        if any(pod["status"]["phase"] == "Succeeded" for pod in pods):
            self._finish(job, "Complete")
            return
        codes = [exit_code(pod) for pod in pods if pod["status"]["phase"] == "Failed" and not is_disrupted(pod)]
        job["status"]["failed"] = len(codes)
        self._touch(job)
        if stages.EXIT_PERMANENT in codes or len(codes) > job["spec"]["backoffLimit"]:
            self._finish(job, "Failed")
        elif all(pod["status"]["phase"] == "Failed" for pod in pods):
            self._start_pod(job)

    def _finish(self, job: dict[str, Any], kind: str) -> None:
        said = {"type": kind, "status": "True", "lastTransitionTime": conditions.timestamp(self.now)}
        job["status"]["conditions"] = [said]
        self._touch(job)

    def _start_pod(self, job: dict[str, Any]) -> None:
        self._counter += 1
        pod = builders.pod(f"{job['metadata']['name']}-{self._counter}", of=job, phase="Pending", node="")
        pod["metadata"]["creationTimestamp"] = conditions.timestamp(self.now)
        self._touch(pod)
        self.store["Pod", pod["metadata"]["name"]] = pod

    def run_pod(self, pod: dict[str, Any]) -> None:
        """Give a pod a node and start it."""
        pod["spec"]["nodeName"] = "node-1"
        pod["status"] |= {
            "phase": "Running",
            "startTime": conditions.timestamp(self.now),
            "containerStatuses": [{"name": "stage", "state": {"running": {}}}],
        }
        self._touch(pod)

    def end_pod(
        self, pod: dict[str, Any], code: int, said: stages.StageReport | None, *, reason: str = "Error"
    ) -> None:
        """End a pod's main container."""
        ended = {
            "exitCode": code,
            "reason": reason,
            "message": report.encode(said) if said else "Traceback ... boom",
            "finishedAt": conditions.timestamp(self.now),
        }
        pod["status"] |= {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [{"name": "stage", "state": {"terminated": ended}}],
        }
        self._touch(pod)

    def disrupt_pod(self, pod: dict[str, Any]) -> None:
        """Preempt a pod."""
        pod["status"]["conditions"] = [builders.preempted()]
        self.end_pod(pod, 143, None)
        pod["metadata"]["deletionTimestamp"] = conditions.timestamp(self.now)


def stage_of(job: Mapping[str, Any]) -> Stage:
    """Return which stage a Job is of."""
    label = job["metadata"]["labels"]["paceline.dev/stage"]
    return next(stage for stage in Stage if stage.lower() == label)


def is_over(job: Mapping[str, Any]) -> bool:
    """Whether a Job has ended."""
    return bool(job["status"].get("conditions"))


def is_disrupted(pod: Mapping[str, Any]) -> bool:
    """Whether a pod was taken away."""
    return any(one["type"] == "DisruptionTarget" for one in pod["status"].get("conditions", ()))


def exit_code(pod: Mapping[str, Any]) -> int:
    """Return how a pod's main container ended."""
    return int(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"])
