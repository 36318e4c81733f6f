"""Reads nodes and pods down to what a forecast needs; an object without devices comes to nothing."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from paceline.api import names
from paceline.planning import fleet, plan

LABEL_JOB: Final = "batch.kubernetes.io/job-name"
_OF_DEPLOYMENT: Final = (names.LABEL_DEPLOYMENT, names.LABEL_PART, names.LABEL_REVISION)
_OVER: Final = frozenset({"Succeeded", "Failed"})
_HARD: Final = frozenset({"NoSchedule", "NoExecute"})
_PLACING: Final = ("nodeSelector", "tolerations", "affinity")
_SUFFIXES: Final = {"k": 10**3, "M": 10**6, "G": 10**9}


def node(manifest: plan.Manifest) -> fleet.Node | None:
    """Return a node; None when it has no devices."""
    meta, spec, status = plan.metadata(manifest), manifest.get("spec") or {}, manifest.get("status") or {}
    allocatable = devices(status.get("allocatable") or {})
    if not allocatable:
        return None
    told = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    return fleet.Node(
        name=meta["name"],
        labels=dict(meta.get("labels") or {}),
        taints=tuple(
            fleet.Taint(key=one["key"], value=one.get("value") or "", effect=one["effect"])
            for one in spec.get("taints") or ()
            if one["effect"] in _HARD
        ),
        usable=not spec.get("unschedulable") and told.get("Ready", "True") == "True",
        allocatable=allocatable,
    )


def holding(manifest: plan.Manifest) -> fleet.Holding | None:
    """Return a pod; None when it asks for no devices, or is over."""
    meta, spec = plan.metadata(manifest), manifest.get("spec") or {}
    requests = needs(spec)
    if not requests or (manifest.get("status") or {}).get("phase") in _OVER:
        return None
    bound = spec.get("nodeName") or ""
    return fleet.Holding(
        uid=meta["uid"],
        namespace=meta.get("namespace", ""),
        node=bound,
        requests=requests,
        priority=int(spec.get("priority") or 0),
        maker=maker(meta.get("namespace", ""), meta.get("labels") or {}),
        template={} if bound else placing(spec),
    )


def maker(namespace: str, labels: Mapping[str, str]) -> fleet.Maker:
    """Return who makes the pods with these labels: a Job, or a Deployment of ours."""
    if LABEL_JOB in labels:
        return namespace, labels[LABEL_JOB]
    values = [labels.get(one, "") for one in _OF_DEPLOYMENT]
    return (namespace, *values) if any(values) else ()


def node_part(manifest: plan.Manifest) -> dict[str, Any]:
    """Return the part of a node's manifest that ``node`` reads: a list of them is held until it is whole."""
    meta, spec, status = plan.metadata(manifest), manifest.get("spec") or {}, manifest.get("status") or {}
    ready = [one for one in status.get("conditions") or () if one["type"] == "Ready"]
    return {
        "metadata": _only(meta, "name", "uid", "resourceVersion", "labels"),
        "spec": _only(spec, "taints", "unschedulable"),
        "status": {**_only(status, "allocatable"), "conditions": ready},
    }


def pod_part(manifest: plan.Manifest) -> dict[str, Any]:
    """Return the part of a pod's manifest that ``holding`` reads."""
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    return {
        "metadata": _only(plan.metadata(manifest), "name", "namespace", "uid", "resourceVersion", "labels"),
        "spec": {**_only(spec, "nodeName", "priority"), **template_part(spec)},
        "status": _only(status, "phase"),
    }


def alone(manifest: plan.Manifest) -> str:
    """Return the access mode of a volume claim that only one node or pod can have; empty when more can.

    What the bound volume allows counts, and before it is bound what was asked for.
    """
    status, spec = manifest.get("status") or {}, manifest.get("spec") or {}
    modes = set(status.get("accessModes") or spec.get("accessModes") or ())
    if modes & {"ReadOnlyMany", "ReadWriteMany"}:
        return ""
    return next((one for one in (fleet.ONE_NODE, fleet.ONE_POD) if one in modes), "")


def claim_part(manifest: plan.Manifest) -> dict[str, Any]:
    """Return the part of a volume claim's manifest that ``alone`` reads."""
    meta = _only(plan.metadata(manifest), "name", "namespace", "uid", "resourceVersion")
    parts = {field: _only(manifest.get(field) or {}, "accessModes") for field in ("spec", "status")}
    return {"metadata": meta, **parts}


def template_part(pod_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod's spec that ``needs`` and ``placing`` read."""
    asking = {
        field: [_only(one, "resources", "restartPolicy") for one in pod_spec[field]]
        for field in ("initContainers", "containers")
        if pod_spec.get(field)
    }
    return {**_only(pod_spec, *_PLACING), **asking}


def _only(value: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    return {field: value[field] for field in fields if field in value}


def placing(pod_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a pod's spec says where it may run."""
    return {field: pod_spec[field] for field in _PLACING if pod_spec.get(field)}


def needs(pod_spec: Mapping[str, Any]) -> dict[str, int]:
    """Return the devices a pod asks for: those of its containers and sidecars together, or of its largest init step.

    Source: Kubernetes' resource accounting of sidecar containers (KEP-753): an init container that restarts always runs
    on beside all that come after it.
    """
    beside: dict[str, int] = {}
    peak: dict[str, int] = {}
    for one in pod_spec.get("initContainers") or ():
        asked = _asked(one)
        if one.get("restartPolicy") == "Always":
            beside = _plus(beside, asked)
            peak = _most(peak, beside)
        else:
            peak = _most(peak, _plus(beside, asked))
    for one in pod_spec.get("containers") or ():
        beside = _plus(beside, _asked(one))
    return _most(peak, beside)


def devices(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Return the extended resources among ``amounts``: those with a domain that is not Kubernetes' own."""
    return {
        name: count
        for name, amount in amounts.items()
        if "/" in name and not name.partition("/")[0].endswith("kubernetes.io") and (count := _count(amount)) > 0
    }


def _asked(container: Mapping[str, Any]) -> dict[str, int]:
    # Extended resources cannot be overcommitted: a limit alone is the request too.
    resources = container.get("resources") or {}
    return devices({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _count(amount: object) -> int:
    text = str(amount)
    factor = _SUFFIXES.get(text[-1:], 1)
    digits = text[:-1] if factor > 1 else text
    return int(digits) * factor if digits.isdigit() else 0


def _plus(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {*one, *other}}


def total(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of several requests."""
    found: dict[str, int] = {}
    for one in several:
        found = _plus(found, one)
    return found
