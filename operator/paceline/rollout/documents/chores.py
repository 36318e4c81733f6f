"""Renders the Jobs of a SpeculativeDeployment: one reads files, the other measures; both are small and need no GPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from paceline.api import base, names, sources, stages
from paceline.api.measurement import BUNDLED_PROMPTS, ProbeConfig
from paceline.api.podparts import PodTemplate, Resources
from paceline.api.speculativedeployment import SpeculativeDeploymentSpec
from paceline.planning import kinds
from paceline.rollout.documents import workloads
from paceline.workloads import pods

_INSPECT_RETRIES: Final = 3
_INSPECT_DEADLINE_S: Final = 900  # reading headers takes seconds; a slow network file system takes minutes
_SMALL: Final = Resources(requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "1Gi"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Chore:
    """What an inspection or probe pod does."""

    part: str
    command: tuple[str, ...]
    storage: pods.Storage
    retries: int
    deadline_s: int


def inspect_job(
    owner: workloads.Owner, name: str, config: stages.InspectConfig, *, uris: list[str], secrets: Mapping[str, str]
) -> dict[str, Any]:
    """Return the Job that reads the files of target and head; ``secrets`` are those it mounts, by path."""
    storage = pods.join(
        pods.scratch_storage(None),
        pods.claim_storage([sources.locate(uri) for uri in uris]),
        pods.config_map_storage(config_map=name, key=workloads.CONFIG_KEY, path=stages.CONFIG_PATH),
        *(pods.secret_storage(secret=secret, path=path) for path, secret in secrets.items()),
    )
    command = ("python", "-m", "paceline.stages", config.stage.lower(), "--config", stages.CONFIG_PATH)
    chore = Chore(
        part=workloads.INSPECT,
        command=command,
        storage=storage,
        retries=_INSPECT_RETRIES,
        deadline_s=_INSPECT_DEADLINE_S,
    )
    return _job(owner, name, chore)


def probe_job(owner: workloads.Owner, name: str, config: ProbeConfig, *, record_number: int) -> dict[str, Any]:
    """Return the Job that measures one round; it is never retried in place, since half a round is no evidence."""
    storage = pods.join(
        pods.scratch_storage(None),
        _prompts(owner.spec),
        pods.config_map_storage(config_map=name, key=workloads.CONFIG_KEY, path=stages.CONFIG_PATH),
    )
    command = ("python", "-m", "paceline.probe", "--config", stages.CONFIG_PATH)
    deadline = base.parse_duration(owner.spec.rollout.deadlines.analysis).total_seconds()
    job = _job(
        owner, name, Chore(part=workloads.PROBE, command=command, storage=storage, retries=0, deadline_s=int(deadline))
    )
    job["metadata"]["annotations"] = {workloads.ANNOTATION_ROUND: f"{record_number}/{config.round}"}
    return job


def prompts_path(spec: SpeculativeDeploymentSpec) -> str:
    """Return where the probe's pod finds the prompts."""
    prompts = spec.rollout.analysis.prompts
    if prompts.config_map is not None:
        return f"{stages.PROMPTS_DIR}/{prompts.config_map.key}"
    if prompts.bundled is not None:
        return BUNDLED_PROMPTS
    return sources.locate(prompts.uri or "").path


def _prompts(spec: SpeculativeDeploymentSpec) -> pods.Storage:
    prompts = spec.rollout.analysis.prompts
    if prompts.config_map is not None:
        source = prompts.config_map
        return pods.config_map_storage(config_map=source.name, key=source.key, path=prompts_path(spec))
    if prompts.bundled is not None:
        return pods.Storage(volumes=(), mounts=())
    return pods.claim_storage([sources.locate(prompts.uri or "")])


def _small_template(template: PodTemplate) -> PodTemplate:
    """Return what inspection and probe pods take over from the engine's: where they may run and as whom, but no GPU.

    The environment stays, since a gated repository's token comes by it.
    """
    return PodTemplate(
        node_selector=template.node_selector,
        tolerations=template.tolerations,
        service_account_name=template.service_account_name,
        image_pull_secrets=template.image_pull_secrets,
        image_pull_policy=template.image_pull_policy,
        env=template.env,
        resources=_SMALL,
        run_as_user=template.run_as_user,
    )


def _job(owner: workloads.Owner, name: str, chore: Chore) -> dict[str, Any]:
    template = _small_template(owner.spec.engine.pod_template)
    container = pods.container(
        name=workloads.MAIN,
        image=owner.spec.prober_image or owner.stage_image,
        command=chore.command,
        template=template,
        storage=chore.storage,
    )
    container["ports"] = [{"name": "progress", "containerPort": stages.PROGRESS_PORT, "protocol": "TCP"}]
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "metadata": owner.metadata(name, part=chore.part),
        "spec": {
            "backoffLimit": chore.retries,
            "activeDeadlineSeconds": max(60, chore.deadline_s),
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": _failure_policy(),
            "template": pods.pod_template(
                template=template,
                labels={**owner.labels, names.LABEL_PART: chore.part},
                annotations={workloads.ANNOTATION_OWNER: owner.name},
                containers=[container],
                storage=chore.storage,
                restart_policy="Never",
            ),
        },
    }


def _failure_policy() -> dict[str, Any]:
    """Fail at once where a person must act, and charge no retry for a disruption by the node."""
    return {
        "rules": [
            {
                "action": "FailJob",
                "onExitCodes": {"containerName": workloads.MAIN, "operator": "In", "values": [stages.EXIT_PERMANENT]},
            },
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        ]
    }
