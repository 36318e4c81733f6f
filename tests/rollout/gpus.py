"""The model cluster with devices: nodes of so many GPUs, a scheduler that counts them, and engines that take time."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paceline.api import names
from paceline.api.measurement import ProbeConfig, ProbeReport
from paceline.capacity import ledger, reading
from paceline.planning import conditions, fleet, kinds
from rollout import builders
from rollout.cluster import Cluster, Picture

GPU = "nvidia.com/gpu"
FIRST = {"priorityClassName": "first"}
PRIORITIES = {"first": 1000}
ANOTHER = "record-of-another"
NO_ROOM = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def engine(gpus: int = 8, **template: Any) -> dict[str, Any]:
    """Return an engine whose servers take so many GPUs each."""
    return {
        "image": "vllm/vllm-openai:v0.33.0",
        "podTemplate": {"resources": {"limits": {GPU: str(gpus)}}, **template},
    }


def resource(*, gpus: int = 8, template: Mapping[str, Any] = FIRST, **spec: Any) -> dict[str, Any]:
    """Return a SpeculativeDeployment of such servers; ``rollout`` fields beside the analysis by ``policy``."""
    policy = spec.pop("policy", {})
    rollout = {**builders.rollout(), **policy}
    return builders.deployment(engine=engine(gpus, **template), rollout=rollout, **spec)


class GpuCluster(Cluster):
    """``nodes`` holds the GPUs of each node; what other people's pods hold of them is in ``others``."""

    def __init__(self, resource: dict[str, Any], nodes: Mapping[str, int], *, visible: bool = True) -> None:
        super().__init__(resource)
        self.nodes = dict(nodes)
        self.others: dict[str, int] = {}
        self.claims: dict[tuple[str, str], str] = {}
        """Access modes of volume claims that one node or pod has alone, by namespace and name."""
        self.told: dict[kinds.Kind, int] = {}
        """How far the slowest of several watches has told; a kind that one watch tells is missing."""
        self.visible = visible
        """Whether the operator may see nodes."""
        self.thief = False
        """Whether the next free node goes to somebody else."""
        self.load_s = 60.0
        self.least_ready: int | None = None
        """The fewest ready pods behind the front Service, once there was one."""

    # -- what others were promised

    def promise(self, count: int = 1, *, gpus: int = 8) -> None:
        """Let another resource hold a granted claim, of which no pod exists yet."""
        spec = {"containers": [{"name": "engine", "resources": {"limits": {GPU: str(gpus)}}}]}
        claim = ledger.document({builders.sha("another"): ledger.Wish(count=count, pod_spec=spec)})
        meta = {"name": ANOTHER, "namespace": builders.NAMESPACE, "uid": ANOTHER}
        meta |= {"labels": ledger.labels(claim), "annotations": ledger.annotations(claim)}
        self._put({"kind": "ConfigMap", "metadata": meta, "data": {}})

    def withdraw(self) -> None:
        """Let that claim go."""
        self._drop("ConfigMap", ANOTHER)

    # -- what the operator sees

    def picture(self, age: int = 0) -> Picture:
        """Return what a reconcile may see, devices among it."""
        return self._with_devices(super().picture(age))

    def torn_picture(self, ages: Mapping[str, int]) -> Picture:
        """Return parts of different ages."""
        return self._with_devices(super().torn_picture(ages))

    def _with_devices(self, seen: Picture) -> Picture:
        if not self.visible:
            return seen
        nodes = [reading.node(self._node(name)) for name in self.nodes]
        held = [reading.holding(pod) for pod in seen.listed(kinds.POD, builders.NAMESPACE)]
        held += [reading.holding(self._other(name, count)) for name, count in self.others.items()]
        world = fleet.Fleet(
            nodes={one.name: one for one in nodes if one},
            holdings={one.uid: one for one in held if one},
            claims=self.claims,
        )
        return replace(seen, devices=world, told=self.told)

    def _node(self, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "status": {"allocatable": {GPU: str(self.nodes[name])}}}

    def _other(self, node: str, count: int) -> dict[str, Any]:
        container = {"name": "main", "resources": {"limits": {GPU: str(count)}}}
        meta = {"name": f"other-{node}", "namespace": "elsewhere", "uid": f"other-{node}"}
        return {"metadata": meta, "spec": {"nodeName": node, "containers": [container]}}

    # -- scheduler and kubelet

    def _make_pod(self, template: Mapping[str, Any], *, parent: tuple[str, str, str]) -> None:
        super()._make_pod(template, parent=parent)
        made = max(self.objects(kinds.POD), key=lambda pod: int(pod["metadata"]["resourceVersion"]))
        spec = copy.deepcopy(dict(template["spec"]))
        priority = PRIORITIES.get(spec.get("priorityClassName", ""), 0)
        node = "" if reading.needs(spec) else "node-1"
        self._put({**copy.deepcopy(made), "spec": {**spec, "nodeName": node, "priority": priority}})

    def _play_deployment(self, deployment: dict[str, Any]) -> None:
        super()._play_deployment(deployment)
        self._note_capacity()

    def _play_server(self, pod: dict[str, Any]) -> None:
        if not pod["spec"]["nodeName"]:
            node = self._node_for(pod)
            if node:
                pod = copy.deepcopy(pod)
                pod["spec"]["nodeName"] = node
                self._put(pod)
        super()._play_server(pod)

    def _node_for(self, pod: dict[str, Any]) -> str:
        waiting = [one for one in self.objects(kinds.POD) if not one["spec"].get("nodeName", "x")]
        first = max(waiting, key=lambda one: one["spec"].get("priority", 0))
        if first["spec"].get("priority", 0) > pod["spec"].get("priority", 0):
            return ""
        wanted = reading.needs(pod["spec"]).get(GPU, 0)
        node = next((name for name in sorted(self.nodes) if self.free(name) >= wanted), "")
        if node and self.thief:
            self.thief, self.others[node] = False, self.free(node)
            return ""
        return node

    def free(self, node: str) -> int:
        """Return the GPUs of a node that nobody holds."""
        held = sum(
            reading.needs(pod["spec"]).get(GPU, 0)
            for pod in self.objects(kinds.POD)
            if pod["spec"].get("nodeName") == node
        )
        return self.nodes[node] - self.others.get(node, 0) - held

    def _server_status(self, title: str, pod: dict[str, Any]) -> dict[str, Any]:
        if not pod["spec"]["nodeName"]:
            told = {"type": "PodScheduled", "status": "False", "message": NO_ROOM}
            return {"phase": "Pending", "conditions": [told]}
        status = super()._server_status(title, pod)
        at = next(one for one in status["conditions"] if one["type"] == "PodScheduled")["lastTransitionTime"]
        ready = next(one for one in status["conditions"] if one["type"] == "Ready")
        loaded_at = conditions.parse_timestamp(at) + self.load_s
        if self.now < loaded_at:
            ready["status"] = "False"
        ready["lastTransitionTime"] = conditions.timestamp(max(loaded_at, conditions.parse_timestamp(at)))
        return status

    # -- what users have

    def _note_capacity(self) -> None:
        service = self.store.get(("Service", builders.NAME))
        if service is None:
            return
        ready = len(self.endpoints(service))
        self.least_ready = ready if self.least_ready is None else min(self.least_ready, ready)

    def endpoints(self, service: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the ready pods that a Service selects."""
        return [
            pod
            for pod in self.objects(kinds.POD)
            if service["spec"]["selector"].items() <= pod["metadata"]["labels"].items() and is_ready(pod)
        ]

    def measure(self, config: ProbeConfig) -> ProbeReport:
        """Return one round whose blocks name the load they come from."""
        arms = {arm.arm: arm for arm in config.arms}
        return ProbeReport(
            measurements=[
                one.model_copy(
                    update={"node": arms[one.arm].node, "pod_uid": arms[one.arm].pod_uid, "load": arms[one.arm].load}
                )
                for one in super().measure(config).measurements
            ]
        )


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod passes its readiness probe."""
    told = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
    return told.get("Ready") == "True"


def sizes(cluster: Cluster) -> dict[str, int]:
    """Return the wanted replicas by title."""
    return {
        cluster.title(one["metadata"]["labels"][names.LABEL_REVISION]): one["spec"]["replicas"]
        for one in cluster.objects(kinds.DEPLOYMENT)
    }
