"""Where a model, a head or data lies, and how a pod reaches it.

Sources are named by URI from an allow-list of schemes. Local paths and plain URLs are not among them: a resource must
not be able to read the node's files or a metadata address through the operator's pods.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final

import pydantic

from paceline.api.base import ApiModel, Cel, Digest, Name, ObjectName, text

MOUNT_ROOT: Final = "/mnt/paceline"
URI_PATTERN: Final = r"^(pvc|hf|s3)://[A-Za-z0-9][A-Za-z0-9._/-]{0,510}$"
SourceUri = Annotated[str, text(max_length=512, pattern=URI_PATTERN)]


class ModelSource(ApiModel):
    """A target or a draft head."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            rule="!self.uri.contains('..')",
            message="uri must not contain '..'; name the folder inside the volume or repository itself",
        ),
        Cel(
            rule="!self.uri.startsWith('pvc://') || self.uri.matches('^pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/.*)?$')",
            message="a pvc:// uri is pvc://CLAIM/PATH, with CLAIM a PersistentVolumeClaim in this namespace",
        ),
        Cel(
            rule="!self.uri.startsWith('hf://') || self.uri.matches('^hf://[^/]+/[^/]+$')",
            message="an hf:// uri is hf://ORGANISATION/NAME; put the commit into revision",
        ),
        Cel(
            rule="!self.trustRemoteCode || !self.uri.startsWith('hf://') || "
            "(has(self.revision) && self.revision.matches('^[0-9a-f]{40}$'))",
            message="trustRemoteCode runs the repository's code: pin revision to a full commit of 40 hex digits",
        ),
    )

    uri: SourceUri
    """``pvc://CLAIM/PATH``, ``hf://ORGANISATION/NAME`` or ``s3://BUCKET/KEY``."""
    revision: Name | None = None
    """Commit of an hf:// repository."""
    trust_remote_code: bool = False
    """Whether code from the model's repository may run in the pods. Needs a pinned commit."""
    credentials_secret: ObjectName | None = None
    """Secret in this namespace that is mounted into the inspection's pod, and no other: key ``token`` for a hub;
    ``accessKeyId``, ``secretAccessKey`` and, where needed, ``sessionToken``, ``region`` and ``endpointUrl`` for a
    bucket. Engines get theirs by ``engine.podTemplate.env``."""


class DraftSource(ModelSource):
    """A published draft head; with a digest, what is served is checked against it."""

    manifest_digest: Digest | None = None
    """Digest of the head's manifest, as the DraftTrainingJob that made it reports in ``status.output``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A source as a pod sees it."""

    claim: str | None
    """PersistentVolumeClaim to mount under MOUNT_ROOT; None when the engine fetches the model itself."""
    path: str
    """What an engine or a stage is given: a folder below MOUNT_ROOT, an ``organisation/name``, or an s3:// URI."""

    @property
    def mount_path(self) -> str:
        """Folder at which the claim is mounted; empty without a claim."""
        return f"{MOUNT_ROOT}/{self.claim}" if self.claim else ""


def locate(uri: str) -> Location:
    """Return where a pod finds ``uri``.

    Raises:
        ValueError: when the URI is of no accepted scheme, or climbs out of its volume.
    """
    if not re.fullmatch(URI_PATTERN, uri) or ".." in uri:
        raise ValueError(
            f"source {uri!r} is not accepted; use pvc://CLAIM/PATH, hf://ORGANISATION/NAME or s3://BUCKET/KEY"
        )
    scheme, rest = uri.split("://", 1)
    if scheme == "pvc":
        claim, _, path = rest.partition("/")
        return Location(claim=claim, path=f"{MOUNT_ROOT}/{claim}/{path}".rstrip("/"))
    return Location(claim=None, path=rest if scheme == "hf" else uri)


class ConfigMapKey(ApiModel):
    """One key of a ConfigMap in the resource's own namespace."""

    name: Annotated[str, text(max_length=253)]
    key: Annotated[str, text(max_length=253)] = "prompts.jsonl"


class PromptSource(ApiModel):
    """Prompts as JSON lines: ``{"prompt": "..."}``, or ``{"messages": [{"role": ..., "content": ...}]}``."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            rule="has(self.configMap) != has(self.uri)",
            message="set exactly one of configMap and uri",
        ),
        Cel(
            rule="!has(self.uri) || self.uri.matches('^pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?/.+$')",
            message="uri of prompts must be pvc://CLAIM/FILE.jsonl, with CLAIM a PersistentVolumeClaim here",
        ),
        Cel(
            rule="!has(self.uri) || !self.uri.contains('..')",
            message="uri must not contain '..'; name the file inside the volume itself",
        ),
    )

    config_map: ConfigMapKey | None = None
    """A ConfigMap's key: up to 1 MiB of prompts."""
    uri: SourceUri | None = None
    """A file on a volume, for more."""
    max_samples: Annotated[int, pydantic.Field(ge=1, le=10_000_000)] | None = None
    """Take at most so many, chosen by a stable hash."""


class BundledPrompts(StrEnum):
    """Prompts that the probe brings along."""

    MIX = "Mix"  # short questions, pages, long documents and conversations, in English


class ProbePromptSource(PromptSource):
    """What candidates are measured on: your own prompts, or the bundled ones while you have none."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            rule="[has(self.configMap), has(self.uri), has(self.bundled)].filter(one, one).size() == 1",
            message="set exactly one of configMap, uri and bundled",
        ),
        *PromptSource.cel[1:],
    )

    bundled: BundledPrompts | None = None
    """``Mix`` stands in for prompts of your own traffic, which tell more: what a draft gains depends on them."""
