"""The rest of the cluster: Deployment and Job controllers, scheduler, kubelets and the garbage collector.

Everything happens at a time that is known beforehand, so that a test can go from one happening to the next. What the
programs inside the pods do, and how long they take, is told by ``Programs``.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from machine import jobs
from machine.server import Server, controlled
from machine.watches import Scrapes
from paceline.planning import conditions, kinds, plan

GRACE_S: Final = 30.0
# So long a pod outlives its Node object, until the pod garbage collector sees that it has no node.
LOST_S: Final = 60.0
CRASH_EVERY_S: Final = 40.0
_MOST_RESTARTS: Final = 6
_GPU: Final = "nvidia.com/gpu"
NODES: Final = {"node-a": 8, "node-b": 8, "node-c": 8, "node-d": 8}
"""GPUs by node; a server of this model takes a whole node."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """What an engine does once its pod has a node."""

    loads_s: float = 60.0
    crashes: str = ""
    """Its last words; empty when it comes up."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How the main container of a Job's pod ends."""

    code: int
    message: str
    after_s: float = 20.0
    reason: str = ""


class Programs(Protocol):
    """What runs inside the pods."""

    def serve(self, pod: Mapping[str, Any]) -> Serving:
        """Return what a server's pod does."""
        ...

    def run(self, pod: Mapping[str, Any], document: str | None) -> Ending | None:
        """Return how a Job's pod ends, given the configuration mounted into it; None while it goes on."""
        ...

    def scraped(self) -> Mapping[str, Scrapes]:
        """Return what engines' metrics said lately, by pod UID."""
        ...


class Kubelet:
    """Plays everything that is not the operator."""

    def __init__(self, server: Server, programs: Programs, *, nodes: Mapping[str, int] = NODES) -> None:
        self.server, self.programs = server, programs
        self.nodes = dict(nodes)
        """GPUs that pods may have, by node; a test takes them away and gives them back."""
        self._mounted: dict[str, str | None] = {}
        self._due: dict[str, float] = {}
        """By a pod's UID, when something will happen to it."""
        self._lost: set[str] = set()
        """UIDs of pods whose node is gone."""

    def step(self) -> None:
        """Do everything that is due."""
        self._collect()
        for deployment in self.server.all(kinds.DEPLOYMENT):
            self._scale(deployment)
        jobs.sync(self.server)
        for pod in sorted(self.server.all(kinds.POD), key=_urgency):
            self._play(pod)
        jobs.sync(self.server)

    def next_time(self) -> float | None:
        """Return when something will happen by itself; None when nothing will."""
        living = {one["metadata"]["uid"] for one in self.server.all(kinds.POD)}
        self._due = {uid: at for uid, at in self._due.items() if uid in living}
        due = [*self._due.values(), *jobs.deadlines(self.server)]
        return min((at for at in due if at > self.server.now), default=None)

    # -- controllers

    def _collect(self) -> None:
        """End what has lost its owner."""
        uids = {one["metadata"]["uid"] for one in self.server.objects.values()}
        for (kind, name), one in list(self.server.objects.items()):
            owner = plan.controller_uid(one)
            if owner is None or owner in uids or owner.removeprefix("rs-of-") in uids:
                continue
            if kind == kinds.POD.kind:
                self.end(one)
            else:
                self.server.drop(kind, name)

    def _scale(self, deployment: dict[str, Any]) -> None:
        meta = deployment["metadata"]
        own = [one for one in controlled(self.server.objects, f"rs-of-{meta['uid']}") if jobs.is_living(one)]
        wanted = deployment["spec"]["replicas"]
        # As the ReplicaSet controller: those that are not ready go first.
        for pod in sorted(own, key=is_ready)[: max(0, len(own) - wanted)]:
            self.end(pod)
        for _ in range(wanted - len(own)):
            owner = {"kind": "ReplicaSet", "name": f"{meta['name']}-rs", "uid": f"rs-of-{meta['uid']}"}
            template = deployment["spec"]["template"]
            jobs.make_pod(self.server, template, owner={"apiVersion": "apps/v1", **owner}, namespace=meta["namespace"])

    def end(self, pod: Mapping[str, Any]) -> None:
        """Ask a pod to end: it stops being an endpoint, and keeps its node for its grace."""
        if "deletionTimestamp" in pod["metadata"]:
            return
        gone = copy.deepcopy(dict(pod))
        gone["metadata"]["deletionTimestamp"] = conditions.timestamp(self.server.now)
        _set(gone, "Ready", "False")
        self.server.put(gone)
        if pod["metadata"]["uid"] not in self._lost:
            self._due[pod["metadata"]["uid"]] = self.server.now + GRACE_S

    def evict(self, pod: Mapping[str, Any]) -> None:
        """Have a pod leave its node: a Job's is failed and charged to nobody, a server's ends in its grace."""
        if jobs.is_of_job(pod):
            jobs.disrupt(self.server, pod)
        else:
            self.end(pod)

    def lose(self, node: str) -> None:
        """Take a node away for good; its pods stop answering at once, and are gone some time later."""
        self.nodes.pop(node, None)
        for pod in self.server.all(kinds.POD):
            if pod["spec"].get("nodeName") != node or pod["metadata"]["uid"] in self._lost:
                continue
            self._lost.add(pod["metadata"]["uid"])
            self._due[pod["metadata"]["uid"]] = self.server.now + LOST_S
            silent = copy.deepcopy(pod)
            _set(silent, "Ready", "False")
            self.server.put(silent)

    # -- kubelets

    def _play(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._lost:
            if self.server.now >= self._due[uid]:
                self.server.drop("Pod", pod["metadata"]["name"])
        elif "deletionTimestamp" in pod["metadata"]:
            if self.server.now >= self._due.setdefault(uid, self.server.now + GRACE_S):
                self.server.drop("Pod", pod["metadata"]["name"])
        elif not pod["spec"].get("nodeName"):
            self._schedule(pod)
        elif pod["status"].get("phase") == "Running" and self.server.now >= self._due.get(uid, 0.0):
            self._go_on(pod)

    def _schedule(self, pod: dict[str, Any]) -> None:
        wanted = gpus(pod)
        fits = next((name for name, free in sorted(self._free().items()) if wanted <= free), None)
        if fits is None:
            message = f"0/{len(self.nodes)} nodes are available: {len(self.nodes)} Insufficient {_GPU}."
            told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            if pod["status"].get("conditions") != [told]:
                self.server.put({**pod, "status": {"phase": "Pending", "conditions": [told]}})
            return
        placed = copy.deepcopy(pod)
        at = conditions.timestamp(self.server.now)
        placed["spec"]["nodeName"] = fits
        placed["status"] = {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "startTime": at,
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": at},
                {"type": "Ready", "status": "False", "lastTransitionTime": at},
            ],
            "containerStatuses": [_running(pod, restarts=0)],
        }
        self._due[pod["metadata"]["uid"]] = self.server.now + self._takes_s(placed)
        self.server.put(placed)

    def _free(self) -> dict[str, int]:
        free = dict(self.nodes)
        for pod in self.server.all(kinds.POD):
            node = pod["spec"].get("nodeName")
            if node in free and pod["status"].get("phase") not in {"Succeeded", "Failed"}:
                free[node] -= gpus(pod)
        return free

    def _takes_s(self, pod: Mapping[str, Any]) -> float:
        if jobs.job_of(self.server, pod) is None:
            serving = self.programs.serve(pod)
            return CRASH_EVERY_S if serving.crashes else serving.loads_s
        ending = self._ending(pod)
        return 0.0 if ending is None else ending.after_s

    def _ending(self, pod: Mapping[str, Any]) -> Ending | None:
        uid = pod["metadata"]["uid"]
        if self._mounted.get(uid) is None:  # what was mounted once stays, whatever becomes of its source
            self._mounted[uid] = jobs.document(self.server, pod)
        return self.programs.run(pod, self._mounted[uid])

    def _go_on(self, pod: dict[str, Any]) -> None:
        if jobs.job_of(self.server, pod) is None:
            self._serve(pod)
            return
        ending = self._ending(pod)
        if ending is not None:
            reason = ending.reason or ("Error" if ending.code else "Completed")
            self.server.put(
                jobs.ended(pod, code=ending.code, message=ending.message, reason=reason, now=self.server.now)
            )

    def _serve(self, pod: dict[str, Any]) -> None:
        serving = self.programs.serve(pod)
        restarts = pod["status"]["containerStatuses"][0]["restartCount"] + 1
        if restarts > _MOST_RESTARTS if serving.crashes else is_ready(pod):
            return
        served = copy.deepcopy(pod)
        container = served["status"]["containerStatuses"][0]
        if serving.crashes:
            began, ended = self.server.now - CRASH_EVERY_S, self.server.now
            times = {"startedAt": conditions.timestamp(began), "finishedAt": conditions.timestamp(ended)}
            container |= {
                "restartCount": restarts,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": serving.crashes, **times}},
            }
            _set(served, "Ready", "False")
            self._due[pod["metadata"]["uid"]] = self.server.now + CRASH_EVERY_S
        else:
            container["state"] = {"running": {"startedAt": conditions.timestamp(self.server.now)}}
            _set(served, "Ready", "True")
        self.server.put(served)

    def stir(self) -> None:
        """Have every kubelet look again: what its programs do has changed."""
        for pod in self.server.all(kinds.POD):
            waits = pod["metadata"]["uid"] in self._lost or "deletionTimestamp" in pod["metadata"]
            if pod["spec"].get("nodeName") and not waits:
                self._due[pod["metadata"]["uid"]] = min(
                    self._due.get(pod["metadata"]["uid"], self.server.now), self.server.now + 1.0
                )


def gpus(pod: Mapping[str, Any]) -> int:
    """Return how many GPUs a pod asks for."""
    containers = [*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())]
    limits = [((one.get("resources") or {}).get("limits") or {}).get(_GPU, 0) for one in containers]
    return max((int(one) for one in limits), default=0)


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is an endpoint."""
    told = {one["type"]: one["status"] for one in pod["status"].get("conditions") or ()}
    return told.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def _urgency(pod: Mapping[str, Any]) -> tuple[bool, str, int]:
    """Return the scheduler's order: what has a priority class first, then the oldest."""
    meta = pod["metadata"]
    return not pod["spec"].get("priorityClassName"), meta["creationTimestamp"], int(meta["name"].rpartition("-")[2])


def _running(pod: Mapping[str, Any], *, restarts: int) -> dict[str, Any]:
    name = pod["spec"]["containers"][0]["name"]
    return {"name": name, "restartCount": restarts, "state": {"running": {}}}


def _set(pod: dict[str, Any], kind: str, status: str) -> None:
    for one in pod["status"].get("conditions") or ():
        if one["type"] == kind:
            one["status"] = status
