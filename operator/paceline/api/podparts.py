"""The parts of a pod that a resource may shape: an allow-list, since creating our resources equals creating pods.

Left out on purpose: host paths, host namespaces, security contexts, commands and init containers.
"""

from typing import Annotated, Any, ClassVar, Final

import pydantic

from paceline.api.base import ApiModel, Cel, Duration, ObjectName, list_field, text

_QUANTITY_PATTERN: Final = r"^[0-9]{1,18}(\.[0-9]{1,9})?([EPTGM]i?|Ki|k|m)?$"


def _quantity_text(value: object) -> object:
    """Return a whole number as text: people write ``nvidia.com/gpu: 8`` without quotes."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Quantity = Annotated[
    str,
    pydantic.BeforeValidator(_quantity_text),
    text(max_length=32, pattern=_QUANTITY_PATTERN),
    pydantic.WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": _QUANTITY_PATTERN,
            "minimum": 0,
            "maxLength": 32,
        }
    ),
]
_PRESERVE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
Opaque = Annotated[dict[str, Any], pydantic.WithJsonSchema(_PRESERVE)]


class Resources(ApiModel):
    """Requests and limits of the main container, as in a pod."""

    requests: Annotated[dict[str, Quantity], pydantic.Field(max_length=16)] = {}
    limits: Annotated[dict[str, Quantity], pydantic.Field(max_length=16)] = {}


class EnvVar(ApiModel):
    """An environment variable: a value, or a reference that Kubernetes resolves in the pod's own namespace."""

    name: Annotated[str, text(max_length=256, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")]
    value: Annotated[str, text(max_length=4096, min_length=0)] | None = None
    value_from: Opaque | None = None


class PodTemplate(ApiModel):
    """Scheduling, identity and environment of the pods the operator makes."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            # Services and the operator's own watch find pods by these: another value would hide or misroute them.
            rule="!has(self.labels) || "
            "!self.labels.exists(k, k.startsWith('paceline.dev/') || k == 'app.kubernetes.io/managed-by')",
            message="labels must not set paceline.dev/ keys or app.kubernetes.io/managed-by; "
            "they are the operator's own",
        ),
        Cel(
            rule="!has(self.sharedMemory) || !has(self.resources) || !has(self.resources.limits) || "
            "!('memory' in self.resources.limits) || quantity(string(self.sharedMemory))"
            ".isLessThan(quantity(string(self.resources.limits['memory'])))",
            message="sharedMemory counts in limits.memory and must be smaller; raise the limit by it",
        ),
    )

    labels: Annotated[dict[str, Annotated[str, text(max_length=63, min_length=0)]], pydantic.Field(max_length=32)] = {}
    annotations: Annotated[
        dict[str, Annotated[str, text(max_length=1024, min_length=0)]], pydantic.Field(max_length=32)
    ] = {}
    node_selector: Annotated[
        dict[str, Annotated[str, text(max_length=63, min_length=0)]], pydantic.Field(max_length=32)
    ] = {}
    tolerations: Annotated[list[Opaque], list_field(max_items=32)] = []
    affinity: Opaque | None = None
    service_account_name: ObjectName | None = None
    """Account of the pods in their own namespace; its token is never mounted."""
    priority_class_name: ObjectName | None = None
    runtime_class_name: ObjectName | None = None
    image_pull_secrets: Annotated[list[Opaque], list_field(max_items=8)] = []
    image_pull_policy: Annotated[str, text(max_length=16, pattern=r"^(Always|IfNotPresent|Never)$")] | None = None
    env: Annotated[list[EnvVar], list_field(max_items=64, keys=("name",))] = []
    resources: Resources = Resources()
    shared_memory: Quantity | None = None
    """Size of /dev/shm, a memory emptyDir that counts in the memory limit. NCCL needs far more than the runtime's
    64 MiB; left out, an engine with tensor parallelism gets 16Gi."""
    run_as_user: Annotated[int, pydantic.Field(ge=1, le=2**31 - 1)] | None = None
    """User id of the containers, for images that name none or root."""
    termination_grace_period: Duration | None = None
    """How long a server may drain its streams."""
