"""Render pod templates from the allow-listed parts, fit for a namespace that enforces the restricted pod security."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paceline.api import base, names
from paceline.api.podparts import EnvVar, PodTemplate
from paceline.api.sources import Location

# Images that name no user, or root, are run as this one; nothing may rely on it being in /etc/passwd.
DEFAULT_USER: Final = 65532
SCRATCH: Final = "/scratch"
DEFAULT_GRACE_S: Final = 60
# NCCL's segments of several ranks do not fit the runtime's 64 MiB; only what is used counts in the memory limit.
DEFAULT_SHARED_MEMORY: Final = "16Gi"

# An arbitrary user has no home, and every library caches somewhere below it; without these they write to /.
_SCRATCH_ENV: Final[tuple[dict[str, str], ...]] = (
    {"name": "HOME", "value": SCRATCH},
    {"name": "USER", "value": "paceline"},
    {"name": "XDG_CACHE_HOME", "value": f"{SCRATCH}/cache"},
    {"name": "XDG_CONFIG_HOME", "value": f"{SCRATCH}/config"},
    {"name": "HF_HOME", "value": f"{SCRATCH}/hf"},
    {"name": "VLLM_CACHE_ROOT", "value": f"{SCRATCH}/vllm"},
    {"name": "TRITON_CACHE_DIR", "value": f"{SCRATCH}/triton"},
    {"name": "TORCHINDUCTOR_CACHE_DIR", "value": f"{SCRATCH}/inductor"},
    {"name": "TMPDIR", "value": SCRATCH},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Volumes of a pod and where its containers see them."""

    volumes: tuple[Mapping[str, Any], ...]
    mounts: tuple[Mapping[str, Any], ...]


def scratch_storage(shared_memory: str | None) -> Storage:
    """Return the writable scratch folder every pod has, and /dev/shm when a size is asked for."""
    volumes: list[Mapping[str, Any]] = [{"name": "scratch", "emptyDir": {}}]
    mounts: list[Mapping[str, Any]] = [{"name": "scratch", "mountPath": SCRATCH}]
    if shared_memory:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shared_memory}})
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - the pod's own
    return Storage(volumes=tuple(volumes), mounts=tuple(mounts))


def shared_memory(template: PodTemplate, *, ranks: int) -> str | None:
    """Return the size of /dev/shm: the template's, else a default for several ranks, which talk through it."""
    return template.shared_memory or (DEFAULT_SHARED_MEMORY if ranks > 1 else None)


def claim_storage(locations: Sequence[Location], *, writable_claims: frozenset[str] = frozenset()) -> Storage:
    """Return the claims that ``locations`` lie on, each mounted once; read-only unless named in ``writable_claims``."""
    claims = sorted({location.claim for location in locations if location.claim})
    mounts = {location.claim: location.mount_path for location in locations if location.claim}
    return Storage(
        volumes=tuple({"name": volume_name(claim), "persistentVolumeClaim": {"claimName": claim}} for claim in claims),
        mounts=tuple(
            {"name": volume_name(claim), "mountPath": mounts[claim], "readOnly": claim not in writable_claims}
            for claim in claims
        ),
    )


def secret_storage(*, secret: str, path: str) -> Storage:
    """Return a Secret as a folder with a file a key; a pod starts without it too, and then says what is missing."""
    volume = volume_name(f"{secret}-secret")
    return Storage(
        volumes=({"name": volume, "secret": {"secretName": secret, "optional": True}},),
        mounts=({"name": volume, "mountPath": path, "readOnly": True},),
    )


def config_map_storage(*, config_map: str, key: str, path: str) -> Storage:
    """Return one key of a ConfigMap as the file ``path``."""
    folder, _, name = path.rpartition("/")
    volume = volume_name(f"{config_map}-{name}")
    return Storage(
        volumes=({"name": volume, "configMap": {"name": config_map, "items": [{"key": key, "path": name}]}},),
        mounts=({"name": volume, "mountPath": folder, "readOnly": True},),
    )


def join(*parts: Storage) -> Storage:
    """Return several storages as one; a volume named twice is kept once."""
    volumes = {volume["name"]: volume for part in parts for volume in part.volumes}
    mounts = {mount["mountPath"]: mount for part in parts for mount in part.mounts}
    return Storage(volumes=tuple(volumes.values()), mounts=tuple(mounts.values()))


def volume_name(text: str) -> str:
    """Return a volume name (a DNS label) for a claim or ConfigMap, whose names may hold dots and be long."""
    return names.child(text, "vol", text)


def container(
    *, name: str, image: str, command: Sequence[str], template: PodTemplate, storage: Storage
) -> dict[str, Any]:
    """Return a container with restricted security, scratch environment, and the template's env and resources."""
    rendered: dict[str, Any] = {
        "name": name,
        "image": image,
        "command": list(command),
        "env": [*_SCRATCH_ENV, *(_env(variable) for variable in template.env)],
        "resources": template.resources.wire(),
        "volumeMounts": [dict(mount) for mount in storage.mounts],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if template.image_pull_policy:
        rendered["imagePullPolicy"] = template.image_pull_policy
    return rendered


def pod_template(  # noqa: PLR0913 - the parts of a pod, by keyword
    *,
    template: PodTemplate,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    containers: Sequence[Mapping[str, Any]],
    init_containers: Sequence[Mapping[str, Any]] = (),
    storage: Storage,
    restart_policy: str = "Always",
) -> dict[str, Any]:
    """Return a PodTemplateSpec; our labels win over the user's, and no token is mounted."""
    spec: dict[str, Any] = {
        "restartPolicy": restart_policy,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_s(template),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": template.run_as_user or DEFAULT_USER,
            "fsGroup": template.run_as_user or DEFAULT_USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [dict(one) for one in containers],
        "volumes": [dict(volume) for volume in storage.volumes],
        **_scheduling(template),
    }
    if init_containers:
        spec["initContainers"] = [dict(one) for one in init_containers]
    metadata: dict[str, Any] = {"labels": {**template.labels, **labels}}
    if template.annotations or annotations:
        metadata["annotations"] = {**template.annotations, **annotations}
    return {"metadata": metadata, "spec": spec}


def _env(variable: EnvVar) -> dict[str, Any]:
    return variable.wire()


def grace_s(template: PodTemplate) -> int:
    """Return the seconds between a pod's deletion and its kill."""
    if template.termination_grace_period is None:
        return DEFAULT_GRACE_S
    return int(base.parse_duration(template.termination_grace_period).total_seconds())


def _scheduling(template: PodTemplate) -> dict[str, Any]:
    """Return the template's scheduling and identity fields that are set."""
    wire = template.wire()
    wanted = (
        "nodeSelector",
        "tolerations",
        "affinity",
        "serviceAccountName",
        "priorityClassName",
        "runtimeClassName",
        "imagePullSecrets",
    )
    return {field: wire[field] for field in wanted if wire.get(field)}
