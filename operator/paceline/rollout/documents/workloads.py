"""Renders what a SpeculativeDeployment wants in the cluster to serve: servers, the front Service, documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paceline.api import base, names, sources, stages
from paceline.api.speculation import ScheduleStep
from paceline.api.speculativedeployment import SpeculativeDeploymentSpec
from paceline.engines import methods
from paceline.engines.base import ServeRequest, Speculation
from paceline.planning import conditions, kinds, plan
from paceline.rollout.documents import revisions
from paceline.workloads import endings, engines, pods

SERVER: Final = "server"
# A measuring copy's pods: no Service selects this part, nor does the Deployment of the revision that is copied.
COPY: Final = "copy"
_COPY_MARK: Final = f"/{COPY}"
# A Service of one revision alone, while a route may lead to it.
BACKEND: Final = "backend"
PROBE: Final = "probe"
INSPECT: Final = "inspect"
MAIN: Final = "main"
CONFIG_KEY: Final = "stage.json"
# On pods and the front Service, beside the labels that are shortened for long names.
ANNOTATION_OWNER: Final = "paceline.dev/owner"
# On the front Service: number of the decision that its selector follows, and when it was made to.
ANNOTATION_DECISION: Final = "paceline.dev/decision"
ANNOTATION_SELECTED_AT: Final = "paceline.dev/selected-at"
# On a front Service that selects two revisions: the short hash of the one that the other makes way for.
ANNOTATION_POOL: Final = "paceline.dev/pool"
# On a probe's Job: the rollout and the round it measures.
ANNOTATION_ROUND: Final = "paceline.dev/round"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The resource that everything rendered here belongs to."""

    manifest: plan.Manifest
    spec: SpeculativeDeploymentSpec
    stage_image: str

    @property
    def name(self) -> str:
        """Name of the resource."""
        return str(plan.metadata(self.manifest)["name"])

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(plan.metadata(self.manifest)["namespace"])

    @property
    def uid(self) -> str:
        """Its UID."""
        return str(plan.metadata(self.manifest)["uid"])

    @property
    def labels(self) -> dict[str, str]:
        """Labels of everything of ours."""
        return {
            names.LABEL_MANAGED_BY: "paceline",
            names.LABEL_NAME: "paceline",
            names.LABEL_DEPLOYMENT: names.label_value(self.name),
        }

    def metadata(
        self, name: str, *, part: str, revision: str = "", annotations: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return a child's metadata."""
        labels = {**self.labels, names.LABEL_PART: part}
        if revision:
            labels[names.LABEL_REVISION] = revision
        made: dict[str, Any] = {
            "name": name,
            "namespace": self.namespace,
            "labels": labels,
            "ownerReferences": [plan.owner_reference(self.manifest)],
        }
        if annotations:
            made["annotations"] = dict(annotations)
        return made


def server_name(owner: Owner, digest: str) -> str:
    """Return the name of a revision's Deployment."""
    return names.child(owner.name, SERVER, digest)


def copy_key(short: str) -> str:
    """Return the key, among Deployments by short hash, of a revision's measuring copy."""
    return short + _COPY_MARK


def is_copy(key: str) -> bool:
    """Whether a key is a measuring copy's."""
    return key.endswith(_COPY_MARK)


def revision_of(key: str) -> str:
    """Return the short hash of a Deployment's revision, be it a copy's or its own."""
    return key.removesuffix(_COPY_MARK)


def selector(owner: Owner, digest: str) -> dict[str, str]:
    """Return the labels that exactly this revision's serving pods carry."""
    return {
        names.LABEL_DEPLOYMENT: names.label_value(owner.name),
        names.LABEL_PART: SERVER,
        names.LABEL_REVISION: names.short(digest),
    }


def server_template(owner: Owner, inputs: revisions.Inputs, weights_bytes: int) -> dict[str, Any]:
    """Return the pod template of a revision; called once in a revision's life.

    Args:
        owner: the resource.
        inputs: what the revision is made of.
        weights_bytes: size of the target's weights. A kubelet gives a load of this size its time, whatever the
            rollout's own deadline: a server that is killed while it loads begins from nothing.
    """
    template = inputs.engine.pod_template
    target = sources.locate(inputs.target.uri)
    draft = sources.locate(inputs.draft.uri) if inputs.draft else None
    storage = pods.join(
        pods.scratch_storage(pods.shared_memory(template, ranks=inputs.engine.tensor_parallel_size)),
        pods.claim_storage([location for location in (target, draft) if location]),
    )
    loading = base.parse_duration(owner.spec.rollout.deadlines.loading)
    container = engines.server_container(
        engine=inputs.engine,
        request=_request(inputs, target=target, draft=draft),
        storage=storage,
        startup_budget_s=max(loading.total_seconds(), engines.startup_budget_s(weights_bytes)),
    )
    return pods.pod_template(
        template=template,
        labels={**owner.labels, **selector(owner, inputs.digest)},
        annotations={ANNOTATION_OWNER: owner.name},
        containers=[container],
        storage=storage,
    )


def _request(inputs: revisions.Inputs, *, target: sources.Location, draft: sources.Location | None) -> ServeRequest:
    return ServeRequest(
        model=target.path,
        revision=inputs.target.revision,
        trust_remote_code=inputs.target.trust_remote_code,
        tensor_parallel_size=inputs.engine.tensor_parallel_size,
        port=stages.ENGINE_PORT,
        args=inputs.engine.args,
        speculation=_speculation(inputs, draft),
        version=inputs.engine_version,
        drain_s=endings.of(inputs.engine.pod_template).drain_s,
    )


def _speculation(inputs: revisions.Inputs, draft: sources.Location | None) -> Speculation | None:
    if not inputs.speculates:
        return None
    return Speculation(
        method=methods.word(inputs.method),
        num_speculative_tokens=inputs.num_speculative_tokens,
        draft_path=draft.path if draft else None,
        draft_revision=inputs.draft.revision if inputs.draft else None,
        ngram_min=inputs.ngram.min_tokens if inputs.ngram else None,
        ngram_max=inputs.ngram.max_tokens if inputs.ngram else None,
        suffix=inputs.suffix,
        schedule=_ranges(inputs.schedule or []),
        draft_tensor_parallel_size=inputs.draft_tensor_parallel_size,
    )


def _ranges(steps: Sequence[ScheduleStep]) -> list[tuple[int, int, int]]:
    """Return ascending steps as ranges that follow one another from 1."""
    starts = [1, *(step.up_to_concurrency + 1 for step in steps)]
    return [(start, step.up_to_concurrency, step.tokens) for start, step in zip(starts, steps, strict=False)]


def deployment(owner: Owner, revision: revisions.Revision, *, replicas: int) -> dict[str, Any]:
    """Return the Deployment of a revision: only its number of replicas ever changes.

    Recreate, because a default surge waits for GPUs that the old pod holds.
    """
    return {
        "apiVersion": kinds.DEPLOYMENT.api_version,
        "kind": kinds.DEPLOYMENT.kind,
        "metadata": owner.metadata(server_name(owner, revision.digest), part=SERVER, revision=revision.short),
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 0,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": selector(owner, revision.digest)},
            "template": dict(revision.template),
        },
    }


def measuring_copy(owner: Owner, revision: revisions.Revision) -> dict[str, Any]:
    """Return the Deployment of a measuring copy: the revision's own template, but for the part in its labels."""
    manifest = deployment(owner, revision, replicas=1)
    manifest["metadata"] = owner.metadata(
        names.child(owner.name, COPY, revision.digest), part=COPY, revision=revision.short
    )
    spec, template = manifest["spec"], manifest["spec"]["template"]
    spec["selector"] = {"matchLabels": {**spec["selector"]["matchLabels"], names.LABEL_PART: COPY}}
    labels = {**template["metadata"]["labels"], names.LABEL_PART: COPY}
    spec["template"] = {**template, "metadata": {**template["metadata"], "labels": labels}}
    return manifest


def front(owner: Owner, digest: str, *, decision: int, now: float, pool: bool = False) -> dict[str, Any]:
    """Return the Service that users call: it selects one revision, or in a handover all of the resource's servers."""
    selected = selector(owner, digest)
    annotations = {
        ANNOTATION_OWNER: owner.name,
        ANNOTATION_DECISION: str(decision),
        ANNOTATION_SELECTED_AT: conditions.timestamp(now),
    }
    if pool:
        annotations[ANNOTATION_POOL] = selected.pop(names.LABEL_REVISION)
    return {
        "apiVersion": kinds.SERVICE.api_version,
        "kind": kinds.SERVICE.kind,
        "metadata": owner.metadata(names.front(owner.name), part="front", annotations=annotations),
        "spec": {
            "selector": selected,
            "ports": [
                {"name": "http", "port": owner.spec.traffic.port, "targetPort": "http", "protocol": "TCP"},
            ],
        },
    }


def backend_name(owner: Owner, short: str) -> str:
    """Return the name of the Service of one revision, by its short hash."""
    return names.child(owner.name, BACKEND, short)


def backend(owner: Owner, digest: str) -> dict[str, Any]:
    """Return the Service of one revision, for routes that lead to it beside the front Service."""
    short = names.short(digest)
    return {
        "apiVersion": kinds.SERVICE.api_version,
        "kind": kinds.SERVICE.kind,
        "metadata": owner.metadata(backend_name(owner, short), part=BACKEND, revision=short),
        "spec": {
            "selector": selector(owner, digest),
            "ports": [
                {"name": "http", "port": owner.spec.traffic.port, "targetPort": "http", "protocol": "TCP"},
            ],
        },
    }


def config_map(owner: Owner, name: str, *, part: str, data: Mapping[str, str]) -> dict[str, Any]:
    """Return a ConfigMap of ours."""
    return {
        "apiVersion": kinds.CONFIG_MAP.api_version,
        "kind": kinds.CONFIG_MAP.kind,
        "metadata": owner.metadata(name, part=part),
        "data": dict(data),
    }


def delete(owner: Owner, kind: kinds.Kind, *, name: str, uid: str, resource_version: str | None = None) -> plan.Delete:
    """Return the deletion of exactly one child."""
    return plan.Delete(kind=kind, namespace=owner.namespace, name=name, uid=uid, resource_version=resource_version)
