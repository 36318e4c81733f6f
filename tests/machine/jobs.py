"""The Job controller of the model: retries, the pod failure policy, deadlines, and one pod at a time."""

import copy
from collections.abc import Mapping
from typing import Any

from machine.server import Server, controlled
from paceline.planning import conditions, kinds

_FINAL = frozenset({"Succeeded", "Failed"})


def sync(server: Server) -> None:
    """Look at every Job."""
    for job in server.all(kinds.JOB):
        _sync(server, job)


def job_of(server: Server, pod: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the Job that a pod works for; None for a server's pod, and when the Job is gone."""
    reference = pod["metadata"]["ownerReferences"][0]
    return server.objects.get(("Job", reference["name"])) if is_of_job(pod) else None


def document(server: Server, pod: Mapping[str, Any]) -> str | None:
    """Return the configuration that is mounted into a pod; None while there is none, and the kubelet waits for it."""
    for volume in pod["spec"].get("volumes") or ():
        source = volume.get("configMap") or {}
        stored = server.objects.get(("ConfigMap", source.get("name", "")))
        if stored is not None and "stage.json" in stored["data"]:
            return str(stored["data"]["stage.json"])
    return None


def is_of_job(pod: Mapping[str, Any]) -> bool:
    """Whether a pod was made by a Job, even if that is gone."""
    return bool(pod["metadata"]["ownerReferences"][0]["kind"] == "Job")


def is_living(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is neither over nor ending."""
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in _FINAL


def is_over(job: Mapping[str, Any]) -> bool:
    """Whether a Job has ended."""
    return bool((job.get("status") or {}).get("conditions"))


def make_pod(
    server: Server, template: Mapping[str, Any], *, owner: Mapping[str, Any], namespace: str
) -> dict[str, Any]:
    """Make a pod from a template."""
    return server.put(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **copy.deepcopy(template["metadata"]),
                "name": f"{owner['name']}-{server.serial()}",
                "namespace": namespace,
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": copy.deepcopy(template["spec"]),
            "status": {"phase": "Pending"},
        }
    )


def ended(pod: Mapping[str, Any], *, code: int, message: str, reason: str, now: float) -> dict[str, Any]:
    """Return a pod whose main container has ended."""
    made = copy.deepcopy(dict(pod))
    told = {"exitCode": code, "reason": reason, "message": message, "finishedAt": conditions.timestamp(now)}
    name = pod["spec"]["containers"][0]["name"]
    made["status"] |= {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": name, "restartCount": 0, "state": {"terminated": told}}],
    }
    return made


def _sync(server: Server, job: dict[str, Any]) -> None:
    meta = job["metadata"]
    pods = controlled(server.objects, meta["uid"])
    if "deletionTimestamp" in meta:
        for pod in pods:
            _end(server, pod)
        if not pods:
            server.drop("Job", meta["name"])
        return
    if is_over(job):
        return
    failed = [pod for pod in pods if pod["status"].get("phase") == "Failed" and not _is_disrupted(pod)]
    status = {"startTime": conditions.timestamp(server.now), **(job.get("status") or {}), "failed": len(failed)}
    verdict = _verdict(job, pods, failed=failed, since=status["startTime"], now=server.now)
    if verdict is not None:
        kind, reason = verdict
        at = conditions.timestamp(server.now)
        said = {"type": kind, "status": "True", "reason": reason, "message": reason, "lastTransitionTime": at}
        status["conditions"] = [said]
        for pod in pods:
            if is_living(pod):
                _end(server, pod)
    if status != job.get("status"):
        server.put({**job, "status": status})
    # podReplacementPolicy: Failed - the next pod waits until the last one is over.
    if verdict is None and all(pod["status"].get("phase") in _FINAL for pod in pods):
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
        make_pod(server, job["spec"]["template"], owner=owner, namespace=meta["namespace"])


def _verdict(
    job: Mapping[str, Any],
    pods: list[dict[str, Any]],
    *,
    failed: list[dict[str, Any]],
    since: str,
    now: float,
) -> tuple[str, str] | None:
    """Return type and reason of the condition that ends a Job; None while it goes on."""
    if any(pod["status"].get("phase") == "Succeeded" for pod in pods):
        return "Complete", "CompletionsReached"
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    permanent = {code for one in rules if one["action"] == "FailJob" for code in one["onExitCodes"]["values"]}
    if permanent & {_code(pod) for pod in failed}:
        return "Failed", "PodFailurePolicy"
    if len(failed) > job["spec"]["backoffLimit"]:
        return "Failed", "BackoffLimitExceeded"
    limit = job["spec"].get("activeDeadlineSeconds")
    if limit is not None and now - conditions.parse_timestamp(since) >= limit:
        return "Failed", "DeadlineExceeded"
    return None


def _end(server: Server, pod: Mapping[str, Any]) -> None:
    if "deletionTimestamp" not in pod["metadata"]:
        gone = copy.deepcopy(dict(pod))
        gone["metadata"]["deletionTimestamp"] = conditions.timestamp(server.now)
        server.put(gone)


def _code(pod: Mapping[str, Any]) -> int:
    states = pod["status"].get("containerStatuses") or [{}]
    return int(((states[0].get("state") or {}).get("terminated") or {}).get("exitCode", 0))


def disrupt(server: Server, pod: Mapping[str, Any]) -> None:
    """Take a pod away as a preemption does: it fails, is charged to nobody, and ends."""
    gone = ended(pod, code=143, message="", reason="Error", now=server.now)
    said = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}
    gone["status"]["conditions"] = [*(gone["status"].get("conditions") or ()), said]
    gone["metadata"]["deletionTimestamp"] = conditions.timestamp(server.now)
    server.put(gone)


def _is_disrupted(pod: Mapping[str, Any]) -> bool:
    return any(one["type"] == "DisruptionTarget" for one in pod["status"].get("conditions") or ())


def deadlines(server: Server) -> list[float]:
    """Return when Jobs that run now will have run for too long."""
    running = [one for one in server.all(kinds.JOB) if not is_over(one) and "startTime" in (one.get("status") or {})]
    return [
        conditions.parse_timestamp(one["status"]["startTime"]) + one["spec"]["activeDeadlineSeconds"]
        for one in running
        if "activeDeadlineSeconds" in one["spec"]
    ]
