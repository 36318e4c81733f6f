"""Renders a stage: an immutable ConfigMap with its configuration, and the Job that mounts it.

The ConfigMap is named by its content: a pod never reads another configuration than the one its Job was made with, and
one that was written just before a crash is found again, or left behind if the spec has changed since.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from paceline.api import names, sources, stages
from paceline.api.drafttrainingjob import Stage
from paceline.planning import kinds, plan
from paceline.training import attempts, configs, observe, results, shapes
from paceline.workloads import engines, pods

PART: Final = "stage"
CONFIG_PART: Final = "stage-config"
_CONFIG_KEY: Final = "stage.json"
# Rollouts count the devices of a Job whose pod is not there yet as promised.
_CLAIM: Final = {names.LABEL_CLAIM: "granted"}
_QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"

# In this order: what the user must change fails at once, what the cluster did is not charged, all else is a retry.
_FAILURE_POLICY: Final = {
    "rules": [
        {
            "action": "FailJob",
            "onExitCodes": {
                "containerName": attempts.CONTAINER,
                "operator": "In",
                "values": [stages.EXIT_PERMANENT],
            },
        },
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The objects of one stage."""

    config_map: dict[str, Any]
    job: dict[str, Any]

    @property
    def config_name(self) -> str:
        """Name of the ConfigMap."""
        return str(self.config_map["metadata"]["name"])


def render(seen: observe.Observed, record: results.Record, stage: Stage) -> Rendered:
    """Return the objects of ``stage``, given the results of those before it."""
    known = configs.known(seen, record)
    config_map = _config_map(seen, stage, configs.config(stage, known))
    return Rendered(config_map=config_map, job=_job(seen, stage, known, config_map["metadata"]["name"]))


def _labels(seen: observe.Observed, stage: Stage, part: str) -> dict[str, str]:
    return {
        names.LABEL_MANAGED_BY: names.FIELD_MANAGER,
        names.LABEL_PART: part,
        names.LABEL_STAGE: stage.lower(),
        names.LABEL_TRAINING_JOB: names.label_value(seen.name),
    }


def _metadata(seen: observe.Observed, name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": seen.namespace,
        "labels": labels,
        "ownerReferences": [plan.owner_reference(seen.resource)],
    }


def _config_map(seen: observe.Observed, stage: Stage, config: stages.StageConfig) -> dict[str, Any]:
    document = names.canonical(config.wire()).decode()
    name = names.child(seen.name, f"{stage.lower()}-config", names.digest({"uid": seen.uid, "config": document}))
    return {
        "apiVersion": kinds.CONFIG_MAP.api_version,
        "kind": kinds.CONFIG_MAP.kind,
        "metadata": _metadata(seen, name, _labels(seen, stage, CONFIG_PART)),
        "immutable": True,
        "data": {_CONFIG_KEY: document},
    }


def _job(seen: observe.Observed, stage: Stage, known: configs.Known, config_name: str) -> dict[str, Any]:
    labels = _labels(seen, stage, PART)
    queue = {_QUEUE_LABEL: seen.spec.queue.local_queue} if seen.spec.queue else {}
    queue |= _CLAIM
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "metadata": _metadata(seen, observe.job_name(seen.resource, stage, seen.inspect_digest), {**labels, **queue}),
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": seen.spec.stage_retries,
            # Two attempts never write to one workspace: the next pod waits until the last one is over.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": _FAILURE_POLICY,
            "template": _pod(stage, known, config_name=config_name, labels=labels),
        },
    }


def _pod(stage: Stage, known: configs.Known, *, config_name: str, labels: dict[str, str]) -> dict[str, Any]:
    trainer = known.spec.trainer
    request = shapes.engine_request(stage, known)
    shape = shapes.pod(trainer.pod_template, known.spec.engine.pod_template if request else None)
    ranks = request.tensor_parallel_size if request else 1
    shared = pods.join(pods.scratch_storage(pods.shared_memory(shape, ranks=ranks)), _claims(stage, known))
    own = pods.join(shared, _documents(stage, known, config_name))
    main = pods.container(
        name=attempts.CONTAINER,
        image=trainer.image,
        command=["python", "-m", "paceline.stages", stage.lower(), "--config", stages.CONFIG_PATH],
        template=shapes.trainer(stage, trainer.pod_template),
        storage=own,
    )
    main["ports"] = [{"name": "progress", "containerPort": stages.PROGRESS_PORT, "protocol": "TCP"}]
    sidecars: Sequence[dict[str, Any]] = ()
    if request is not None:
        sidecars = [
            engines.sidecar_container(
                engine=known.spec.engine,
                request=request,
                storage=shared,
                startup_budget_s=engines.startup_budget_s(configs.needed(known.record.inspection).weights_bytes),
            )
        ]
    return pods.pod_template(
        template=shape,
        labels=labels,
        annotations={},
        containers=[main],
        init_containers=sidecars,
        storage=own,
        restart_policy="Never",
    )


def _claims(stage: Stage, known: configs.Known) -> pods.Storage:
    """Return the volumes of ``stage``, each only where it is needed: the output in Publish, no workspace in Inspect."""
    folders = known.folders
    locations: list[sources.Location] = [folders.target]
    writable: set[str | None] = set()
    if stage is not Stage.INSPECT:
        locations.append(folders.workspace)
        writable.add(folders.workspace.claim)
    if stage in {Stage.INSPECT, Stage.TRAIN} and folders.start:
        locations.append(folders.start)
    if stage is Stage.PREPARE and folders.prompts:
        locations.append(folders.prompts)
    if stage is Stage.PUBLISH:
        locations.append(folders.output)
        writable.add(folders.output.claim)
    return pods.claim_storage(locations, writable_claims=frozenset(claim for claim in writable if claim))


def _documents(stage: Stage, known: configs.Known, config_name: str) -> pods.Storage:
    """Return the files that only the main container reads."""
    config = pods.config_map_storage(config_map=config_name, key=_CONFIG_KEY, path=stages.CONFIG_PATH)
    if stage is Stage.INSPECT:
        return _credentials(known, config)
    prompts = known.spec.data.prompts.config_map
    if stage is not Stage.PREPARE or prompts is None:
        return config
    return pods.join(
        config, pods.config_map_storage(config_map=prompts.name, key=prompts.key, path=configs.PROMPTS_FILE)
    )


def _credentials(known: configs.Known, storage: pods.Storage) -> pods.Storage:
    """Return ``storage`` with the Secrets of the sources that Inspect reads."""
    start = known.spec.draft.start_from
    wanted = {
        configs.TARGET_CREDENTIALS: known.spec.target.credentials_secret,
        configs.START_CREDENTIALS: start.credentials_secret if start else None,
    }
    for path, secret in wanted.items():
        if secret:
            storage = pods.join(storage, pods.secret_storage(secret=secret, path=path))
    return storage
