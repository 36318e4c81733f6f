"""Objects as the cluster holds them: a DraftTrainingJob, its Jobs and pods, and a view of a set of them."""

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from paceline.api import report, stages
from paceline.api.drafttrainingjob import Stage
from paceline.planning import conditions, fleet, kinds, plan
from paceline.planning.view import FoundT, Warned
from paceline.training import observe, results

NOW = conditions.parse_timestamp("2026-01-01T12:00:00Z")
NAMESPACE = "team"
NAME = "kimi-head"
UID = "11111111-2222-3333-4444-555555555555"
KEY = plan.Key(kind=kinds.DRAFT_TRAINING_JOB, namespace=NAMESPACE, name=NAME)
WORKSPACE = f"/mnt/paceline/work/runs/{UID}"
DIGEST = "sha256:" + "ab" * 32

SPEC: Mapping[str, Any] = {
    "target": {"uri": "pvc://models/kimi"},
    "engine": {
        "image": "registry.example/vllm:0.33.0",
        "tensorParallelSize": 8,
        "args": ["--max-model-len=32768"],
        "podTemplate": {
            "nodeSelector": {"gpu": "h200"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "sharedMemory": "16Gi",
            "resources": {"limits": {"nvidia.com/gpu": "8", "memory": "800Gi"}},
        },
    },
    "trainer": {
        "image": "registry.example/stage:1",
        "podTemplate": {"resources": {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}}},
    },
    "data": {"prompts": {"configMap": {"name": "prompts", "key": "all.jsonl"}}},
    "evaluation": {"minAcceptanceLength": "1.5"},
    "workspace": {"claimName": "work", "subPath": "runs"},
    "output": {"uri": "pvc://heads/kimi"},
    "activeDeadline": "10h",
    "stageRetries": 2,
}

RESULTS: Mapping[Stage, stages.AnyStageResult] = {
    Stage.INSPECT: stages.InspectResult(
        digest=DIGEST,
        tokenizer_digest=DIGEST,
        architecture="DeepseekV3ForCausalLM",
        hidden_size=7168,
        layers=61,
        vocabulary_size=163840,
        weights_bytes=595_000_000_000,
        auxiliary_layers=[2, 30, 58],
        hidden_state_bytes_per_token=57344,
    ),
    Stage.PREPARE: stages.PrepareResult(
        data_digest=DIGEST, train_samples=900, holdout_samples=100, train_tokens=350_000
    ),
    Stage.EXTRACT: stages.ExtractResult(
        samples=900, tokens=350_000, hidden_bytes=20_000_000_000, agreement_percent=99.5
    ),
    Stage.TRAIN: stages.TrainResult(checkpoint=f"{WORKSPACE}/heads/10", epochs=10, loss=1.25),
    Stage.EVALUATE: stages.EvaluateResult(
        acceptance_length=2.4,
        acceptance_by_position=[0.62, 0.37, 0.22],
        drafts=1000,
        accepted_tokens=1400,
        prompts=100,
        speculative_tokens=3,
    ),
    Stage.PUBLISH: stages.PublishResult(path="/mnt/paceline/heads/kimi/abababababab", manifest_digest=DIGEST),
}


def at(offset_s: float) -> str:
    """Return NOW and so many seconds as the API writes it."""
    return conditions.timestamp(NOW + offset_s)


def spec(**changes: Any) -> dict[str, Any]:
    """Return a spec with top-level fields replaced."""
    return {**copy.deepcopy(dict(SPEC)), **changes}


def resource(*, status: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a DraftTrainingJob; keyword arguments replace fields of its spec."""
    made: dict[str, Any] = {
        "apiVersion": kinds.DRAFT_TRAINING_JOB.api_version,
        "kind": kinds.DRAFT_TRAINING_JOB.kind,
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "uid": UID,
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": at(-3600),
        },
        "spec": spec(**changes),
    }
    if status is not None:
        made["status"] = dict(status)
    return made


def started(**changes: Any) -> dict[str, Any]:
    """Return a DraftTrainingJob whose run has started."""
    return resource(status={"startTime": at(-600)}, **changes)


def record(*done: Stage, **fields: Any) -> results.Record:
    """Return a record in which the named stages have succeeded."""
    digest = observe.inspect_digest(observe.DraftTrainingJobSpec.model_validate(SPEC))
    made = results.Record(**fields)
    for stage in done:
        made = made.with_stage(
            stage=stage,
            result=RESULTS[stage],
            input_digest=digest if stage is Stage.INSPECT else None,
            attempts=1,
            started_at=at(-500),
            finished_at=at(-400),
        )
    return made


def before(stage: Stage) -> list[Stage]:
    """Return the stages that come before ``stage``."""
    order = list(Stage)
    return order[: order.index(stage)]


def remembered(
    kept: results.Record, owner: plan.Manifest | None = None, *, claim: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the ConfigMap that holds a record, and what it claims in the ledger of devices."""
    action = results.write(owner or resource(), None, kept, claim or {})
    assert isinstance(action, plan.Create)
    return stored(action.manifest, uid="record-uid")


def stored(manifest: plan.Manifest, *, uid: str) -> dict[str, Any]:
    """Return a manifest as the API server gives it back."""
    made = json.loads(json.dumps(manifest))
    made["metadata"] |= {"uid": uid, "resourceVersion": "7", "creationTimestamp": at(-500)}
    return dict(made)


def job(
    stage: Stage,
    *,
    owner: plan.Manifest | None = None,
    uid: str = "job-uid",
    deleting: bool = False,
    conditions: Sequence[Mapping[str, Any]] = (),
    **status: Any,
) -> dict[str, Any]:
    """Return the Job of a stage; keyword arguments are fields of its status."""
    of = owner or resource()
    digest = observe.inspect_digest(observe.DraftTrainingJobSpec.model_validate(of["spec"]))
    made: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": observe.job_name(of, stage, digest),
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": "3",
            "creationTimestamp": at(-300),
            "ownerReferences": [plan.owner_reference(of)],
        },
        "spec": {"template": {"spec": {}}},
        "status": {"startTime": at(-300), "conditions": list(conditions), **status},
    }
    if deleting:
        made["metadata"]["deletionTimestamp"] = at(-1)
    return made


def complete(*, ago_s: float = 1, **more: Any) -> dict[str, Any]:
    """Return the status fields of a Job that succeeded."""
    return {"conditions": [_condition("Complete", ago_s=ago_s)], "succeeded": 1, **more}


def failed(reason: str = "BackoffLimitExceeded", *, ago_s: float = 1, failures: int = 1) -> dict[str, Any]:
    """Return the status fields of a Job that failed."""
    told = _condition("Failed", ago_s=ago_s, reason=reason, message="Job has reached the specified backoff limit")
    return {"conditions": [told], "failed": failures}


def _condition(kind: str, *, ago_s: float, **more: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": at(-ago_s), **more}


def pod(
    name: str = "pod-1",
    *,
    of: plan.Manifest | None = None,
    phase: str = "Running",
    node: str = "node-1",
    started_ago_s: float | None = 100,
    main: Mapping[str, Any] | None = None,
    engine: Mapping[str, Any] | None = None,
    told: Iterable[Mapping[str, Any]] = (),
    deleting: bool = False,
) -> dict[str, Any]:
    """Return a pod of a stage's Job; ``main`` and ``engine`` are fields of the containers' statuses."""
    owner = of or job(Stage.TRAIN)
    status: dict[str, Any] = {"phase": phase, "conditions": list(told), "podIP": "10.0.0.7" if node else ""}
    if started_ago_s is not None and node:
        status["startTime"] = at(-started_ago_s)
    if main is not None:
        status["containerStatuses"] = [{"name": "stage", **main}]
    if engine is not None:
        status["initContainerStatuses"] = [{"name": "engine", **engine}]
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-of-{name}",
            "resourceVersion": "5",
            "creationTimestamp": at(-200),
            "labels": {"paceline.dev/training-job": NAME},
            "ownerReferences": [plan.owner_reference(owner)],
        },
        "spec": {"nodeName": node} if node else {},
        "status": status,
    }
    if deleting:
        made["metadata"]["deletionTimestamp"] = at(-1)
    return made


def running() -> dict[str, Any]:
    """Return the main container's status while it runs."""
    return {"state": {"running": {"startedAt": at(-90)}}}


def ended(code: int, *, message: str = "", reason: str = "Error", ago_s: float = 5) -> dict[str, Any]:
    """Return a container's status after it ended."""
    said = {"exitCode": code, "reason": reason, "message": message, "finishedAt": at(-ago_s)}
    return {"state": {"terminated": said}}


def reported(result: stages.AnyStageResult | None, **fields: Any) -> str:
    """Return a stage's termination message."""
    return report.encode(stages.StageReport(result=result, **fields))


def succeeded(stage: Stage, *, owner: plan.Manifest | None = None) -> list[dict[str, Any]]:
    """Return the Job of a stage that succeeded, and its pod."""
    done = job(stage, owner=owner, **complete())
    said = ended(0, message=reported(RESULTS[stage]), reason="Completed")
    return [done, pod(of=done, phase="Succeeded", main=said)]


def unscheduled(message: str) -> dict[str, Any]:
    """Return the condition of a pod that fits no node."""
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}


def preempted() -> dict[str, Any]:
    """Return the condition of a pod that made room for another."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "preempted to accommodate a higher priority pod",
    }


class FakeView:
    """A view of exactly these objects."""

    def __init__(
        self,
        *objects: plan.Manifest,
        live: Mapping[str, stages.LiveProgress] | None = None,
        devices: fleet.Fleet | None = None,
    ) -> None:
        """Hold ``objects``; ``live`` is what pods said of their progress, by UID, and ``devices`` what nodes have."""
        self._devices = devices
        self._objects = objects
        self._live = live or {}

    def get(self, kind: kinds.Kind, namespace: str, name: str) -> plan.Manifest | None:
        """Return one object."""
        found = [one for one in self.listed(kind, namespace) if one["metadata"]["name"] == name]
        return found[0] if found else None

    def owned(self, kind: kinds.Kind, owner_uid: str) -> Sequence[plan.Manifest]:
        """Return what ``owner_uid`` controls."""
        return [one for one in self._of(kind) if plan.controller_uid(one) == owner_uid]

    def labelled(self, kind: kinds.Kind, namespace: str, label: str, value: str) -> Sequence[plan.Manifest]:
        """Return what carries the label."""
        found = self.listed(kind, namespace)
        return [one for one in found if one["metadata"].get("labels", {}).get(label) == value]

    def listed(self, kind: kinds.Kind, namespace: str) -> Sequence[plan.Manifest]:
        """Return everything of a kind in a namespace."""
        return [one for one in self._of(kind) if one["metadata"]["namespace"] == namespace]

    def marked(self, kind: kinds.Kind, label: str, read: Callable[[plan.Manifest], FoundT]) -> Sequence[FoundT]:
        """Return what is read in all that carries the label, whatever its value."""
        return [read(one) for one in self._of(kind) if label in one["metadata"].get("labels", {})]

    def once(self, question: str, find: Callable[[], FoundT]) -> FoundT:  # noqa: ARG002 - no cost to save
        """Return what is found."""
        return find()

    def told_to(self, kind: kinds.Kind) -> None:  # noqa: ARG002 - one watch
        """Return that one watch tells all."""
        return

    def fleet(self) -> fleet.Fleet | None:
        """Return the devices; None where nodes cannot be seen."""
        return self._devices

    def progress(self, pod_uid: str) -> stages.LiveProgress | None:
        """Return what a pod said."""
        return self._live.get(pod_uid)

    def warnings(self, pod_uid: str) -> tuple[Warned, ...]:
        """Refuse: no policy of training reads events."""
        raise AssertionError(f"training asked for the events of {pod_uid}")

    def log(self, run: str) -> str:
        """Refuse: no policy of training reads logs."""
        raise AssertionError(f"training asked for the log of {run}")

    def metrics_text(self, pod_uid: str) -> tuple[tuple[float, str], ...]:
        """Refuse: no policy of training reads metrics."""
        raise AssertionError(f"training asked for the metrics of {pod_uid}")

    def _of(self, kind: kinds.Kind) -> list[plan.Manifest]:
        found = [one for one in self._objects if one["kind"] == kind.kind]
        return sorted(found, key=lambda one: str(one["metadata"]["name"]))
