"""What of an object the cache keeps: what rooms read of it, in as little memory as that takes.

There may be thousands of pods, each with 10 kB of specification that no room looks at, and the same names, labels and
UIDs in all that belongs to one resource. A room that begins to read another field of a pod adds it here; the models of
``tests/machine`` show rooms no more than this.
"""

import sys
from collections.abc import Mapping
from typing import Any, Final

from paceline.capacity import reading
from paceline.planning import kinds
from paceline.planning.kinds import Kind

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_POD_SPEC: Final = ("nodeName", "priority")
_POD_STATUS: Final = ("phase", "reason", "message", "podIP", "startTime", "conditions")
_CONTAINERS: Final = ("initContainerStatuses", "containerStatuses")
_CONTAINER: Final = ("name", "ready", "started", "restartCount", "state", "lastState")
# Longer texts are documents and messages, which hardly repeat.
_SHORT: Final = 100


def slim(kind: Kind, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of an object of ``kind``; the object itself is no longer to be used."""
    meta = manifest["metadata"]
    meta.pop("managedFields", None)
    annotations = meta.get("annotations")
    if annotations:
        annotations.pop(_LAST_APPLIED, None)
    if kind == kinds.POD:
        manifest = _pod(manifest)
    elif kind == kinds.DEPLOYMENT:
        manifest = _deployment(manifest)
    shared: dict[str, Any] = _shared(manifest)
    return shared


def _pod(manifest: Mapping[str, Any]) -> dict[str, Any]:
    status = manifest.get("status") or {}
    told = _only(status, _POD_STATUS)
    for containers in _CONTAINERS:
        if status.get(containers):
            told[containers] = [_only(one, _CONTAINER) for one in status[containers]]
    return {**manifest, "spec": _only(manifest.get("spec") or {}, _POD_SPEC), "status": told}


def _deployment(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Deployment with that of its template which a forecast reads: the whole stands in its revision."""
    spec = manifest["spec"]
    template = {"spec": reading.template_part((spec.get("template") or {}).get("spec") or {})}
    return {**manifest, "spec": {**spec, "template": template}}


def _only(value: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {field: value[field] for field in fields if field in value}


def _shared(value: Any) -> Any:
    """Return ``value`` with one copy of each name and short text for the whole process: a parser makes new ones."""
    if isinstance(value, dict):
        return {sys.intern(name): _shared(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_shared(one) for one in value]
    if type(value) is str and len(value) <= _SHORT:
        return sys.intern(value)
    return value
