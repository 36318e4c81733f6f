"""A small model of a cluster: a store with preconditions, controllers that make pods, and servers with a known speed.

It knows nothing of the rollout room besides what stands in the objects. It keeps every state it went through, so that a
test can show a reconcile any older one.
"""

import copy
import itertools
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mergepatch
from paceline.api import names, report, stages
from paceline.api.measurement import BlockOutcome, Measurement, ProbeArm, ProbeConfig, ProbeReport
from paceline.planning import conditions, fleet, kinds, plan, view
from paceline.planning.plan import Amend, Apply, Create, Delete, Key, Plan
from paceline.rollout.documents import revisions
from paceline.rollout.room import Rollout
from rollout import builders

Store = dict[tuple[str, str], dict[str, Any]]
BASE_TOKENS_PER_SECOND = 100.0
DRAFTS = 400
QUIET_S = 150.0
WATCH_LAG_S = 50.0
_MOST_RESTARTS = 5  # a crash loop comes to rest, so that a test can see that nothing else moves


class ConflictError(Exception):
    """409: a precondition does not hold, or the name is another's."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A View of one state."""

    store: Mapping[tuple[str, str], dict[str, Any]]
    heard: Mapping[str, stages.LiveProgress] = field(default_factory=dict)
    scraped: Mapping[str, tuple[tuple[float, str], ...]] = field(default_factory=dict)
    devices: fleet.Fleet | None = None
    logs: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[kinds.Kind, int] = field(default_factory=dict)
    warned: Mapping[str, tuple[view.Warned, ...]] = field(default_factory=dict)
    routes: view.Sight = view.Sight.SEEN

    def get(self, kind, namespace, name):  # noqa: ARG002 - the model has one namespace
        """Return one object."""
        return self.store.get((kind.kind, name))

    def owned(self, kind, owner_uid):
        """Return objects by controller."""
        return [one for one in self.listed(kind, builders.NAMESPACE) if plan.controller_uid(one) == owner_uid]

    def labelled(self, kind, namespace, label, value):
        """Return objects by label."""
        return [
            one for one in self.listed(kind, namespace) if (one["metadata"].get("labels") or {}).get(label) == value
        ]

    def listed(self, kind, namespace):  # noqa: ARG002 - the model has one namespace
        """Return objects of a kind."""
        return [one for (found, _), one in sorted(self.store.items()) if found == kind.kind]

    def marked(self, kind, label, read):
        """Return what is read in objects that carry a label."""
        found = self.listed(kind, builders.NAMESPACE)
        return [read(one) for one in found if label in (one["metadata"].get("labels") or {})]

    def once(self, question, find):
        """Return what is found."""
        del question
        return find()

    def told_to(self, kind):
        """Return how far the slowest watch has told; None where one watch tells all."""
        return self.told.get(kind)

    def sight(self, kind):
        """Return whether foreign objects are seen."""
        del kind
        return self.routes

    def fleet(self):
        """Return the devices."""
        return self.devices

    def progress(self, pod_uid):
        """Return what a pod said."""
        return self.heard.get(pod_uid)

    def metrics_text(self, pod_uid):
        """Return scrapes."""
        return self.scraped.get(pod_uid, ())

    def warnings(self, pod_uid):
        """Return warning events."""
        return self.warned.get(pod_uid, ())

    def log(self, run):
        """Return the log of a run, by its pod."""
        return self.logs.get(run.partition("/")[0], "")


class Cluster:
    """The model; ``speeds`` and the sets below are the knobs of a test."""

    def __init__(self, resource: dict[str, Any] | None = None) -> None:
        self.now = builders.NOW
        self.store: Store = {}
        self.pictures: list[Store] = []
        self.taken_at: list[float] = []
        self.serials = itertools.count(1)
        self.room = Rollout(stage_image="paceline/stages:1")
        self.key = Key(kind=kinds.SPECULATIVE_DEPLOYMENT, namespace=builders.NAMESPACE, name=builders.NAME)
        self.speeds: dict[str, float] = {"None": 1.0}
        """Throughput by a revision's title, as a multiple of the baseline's."""
        self.acceptance: dict[str, float] = {}
        """Accepted tokens a draft by title, 1.2 unless told otherwise."""
        self.crashing: set[str] = set()
        """Titles whose engine does not start."""
        self.last_words = "ValueError: layer 78 weights missing"
        """What such an engine says at its end."""
        self.logs: dict[str, str] = {}
        """Logs of pods by UID, as far as the API server gives them."""
        self.warned: dict[str, tuple[view.Warned, ...]] = {}
        """Warning events by pod UID."""
        self.unschedulable: dict[str, str] = {}
        """Scheduler's message by title."""
        self.inspect: Callable[[stages.InspectConfig], stages.StageReport] = lambda _config: stages.StageReport(
            result=builders.inspected()
        )
        self.probe_error = ""
        self.users: builders.Users | None = None
        """Whose requests the serving pods count; None for no metrics at all."""
        self.writes: list[plan.Action] = []
        self._put(resource or builders.deployment())

    # -- the API server

    def _put(self, manifest: dict[str, Any]) -> None:
        manifest["metadata"]["resourceVersion"] = str(next(self.serials))
        self.store = {**self.store, (manifest["kind"], manifest["metadata"]["name"]): manifest}
        self.pictures.append(self.store)
        self.taken_at.append(self.now)

    def _drop(self, kind: str, name: str) -> None:
        self.store = {key: one for key, one in self.store.items() if key != (kind, name)}
        self.pictures.append(self.store)
        self.taken_at.append(self.now)

    def picture(self, age: int = 0) -> Picture:
        """Return what a reconcile may see: the newest state, or one ``age`` writes back."""
        return Picture(
            store=self.pictures[max(0, len(self.pictures) - 1 - age)],
            scraped=self._scraped(),
            logs=self.logs,
            warned=self.warned,
        )

    def torn_picture(self, ages: Mapping[str, int]) -> Picture:
        """Return a picture whose kinds are of different ages, as separate watches may be, but of the last moments."""
        newest = len(self.pictures) - 1
        chosen = {kind: self._recent(newest, age) for kind, age in ages.items()}
        known = {kind for kind, _ in self.store} | set(ages)
        store = {
            key: one for kind in known for key, one in self.pictures[chosen.get(kind, newest)].items() if key[0] == kind
        }
        return Picture(store=store, scraped=self._scraped(), logs=self.logs, warned=self.warned)

    def _recent(self, newest: int, age: int) -> int:
        """Return the number of the picture ``age`` writes back, or of the oldest that was still true a moment ago."""
        number = newest
        while number > max(0, newest - age) and self.now - self.taken_at[number] < WATCH_LAG_S:
            number -= 1
        return number

    def _scraped(self) -> dict[str, tuple[tuple[float, str], ...]]:
        """Return what the servers' pods counted in the last minutes."""
        if self.users is None:
            return {}
        times = [self.now - 15.0 * back for back in range(40, -1, -1) if self.now - 15.0 * back >= builders.NOW]
        series = tuple((at, builders.metrics(self.users, at)) for at in times)
        return {pod["metadata"]["uid"]: series for pod in self.objects(kinds.POD)}

    def execute(self, action: plan.Action) -> None:
        """Carry one action out as the API server would.

        Raises:
            ConflictError: a precondition does not hold.
        """
        match action:
            case Create(manifest=manifest):
                self._create(manifest)
            case Apply(manifest=manifest, uid=uid, resource_version=version):
                current = self._precondition(manifest["kind"], manifest["metadata"]["name"], uid, version)
                self._put(_applied(current, manifest))
            case Amend():
                self._amend(action)
            case Delete(kind=kind, name=name, uid=uid, resource_version=version):
                self._precondition(kind.kind, name, uid, version)
                self._drop(kind.kind, name)
        self.writes.append(action)

    def _create(self, manifest: Mapping[str, Any]) -> None:
        key = (manifest["kind"], manifest["metadata"]["name"])
        current = self.store.get(key)
        if current is not None:
            if plan.controller_uid(current) != plan.controller_uid(manifest):
                raise ConflictError(f"{key} is another's")
            return
        made = json.loads(json.dumps(manifest))
        made["metadata"]["uid"] = f"uid-{next(self.serials)}"
        made["metadata"]["creationTimestamp"] = conditions.timestamp(self.now)
        self._put(made)

    def _amend(self, action: Amend) -> None:
        current = self._precondition(action.kind.kind, action.name, action.uid, action.resource_version)
        made = mergepatch.merged(current, json.loads(json.dumps(action.patch)))
        if made.get("spec") != current.get("spec"):
            made["metadata"]["generation"] = current["metadata"].get("generation", 1) + 1
        self._put(made)

    def _precondition(self, kind: str, name: str, uid: str, version: str | None) -> dict[str, Any]:
        current = self.store.get((kind, name))
        if current is None or current["metadata"]["uid"] != uid:
            raise ConflictError(f"{kind} {name} is gone or another one")
        if version is not None and current["metadata"]["resourceVersion"] != version:
            raise ConflictError(f"{kind} {name} has changed")
        return current

    # -- the operator

    def plan(self, age: int = 0) -> Plan:
        """Return the plan for what is seen."""
        planned = self.room.reconcile(self.picture(age), self.key, self.now)
        assert planned is not None
        return planned

    def run(self, planned: Plan, *, crash_after: int | None = None) -> None:
        """Carry a plan out, up to a crash if one is given; a conflict drops the rest."""
        for done, action in enumerate(planned.actions):
            if done == crash_after:
                return
            try:
                self.execute(action)
            except ConflictError:
                return
        if crash_after is not None and crash_after <= len(planned.actions):
            return
        resource = self.resource
        if planned.status is not None and resource.get("status") != planned.status:
            self._put({**copy.deepcopy(resource), "status": json.loads(json.dumps(planned.status))})

    def operate(self) -> Plan:
        """Run one pass on the newest state."""
        planned = self.plan()
        self.run(planned)
        return planned

    # -- the controllers and kubelets

    def play(self, seconds: float = 30.0) -> None:
        """Let time pass, and everything that is not ours do its work."""
        self.now += seconds
        for deployment in self.objects(kinds.DEPLOYMENT):
            self._play_deployment(deployment)
        for job in self.objects(kinds.JOB):
            self._play_job(job)
        self._collect()

    def _play_deployment(self, deployment: dict[str, Any]) -> None:
        name, wanted = deployment["metadata"]["name"], deployment["spec"]["replicas"]
        own = [pod for pod in self.objects(kinds.POD) if _parent(pod) == ("ReplicaSet", f"{name}-rs")]
        # A ReplicaSet gives up pods without a node first, then those that are not ready.
        own.sort(key=lambda pod: (not pod["spec"].get("nodeName"), not _is_ready(pod)))
        for pod in own[wanted:]:
            self._drop("Pod", pod["metadata"]["name"])
        for _ in range(wanted - len(own)):
            self._make_pod(deployment["spec"]["template"], parent=("ReplicaSet", f"{name}-rs", f"rs-of-{name}"))
        for pod in own[:wanted]:
            self._play_server(pod)

    def _play_server(self, pod: dict[str, Any]) -> None:
        title = self.title(pod["metadata"]["labels"][names.LABEL_REVISION])
        status = self._server_status(title, pod)
        if pod.get("status") != status:
            self._put({**copy.deepcopy(pod), "status": status})

    def _server_status(self, title: str, pod: dict[str, Any]) -> dict[str, Any]:
        old = {one["type"]: one for one in (pod.get("status") or {}).get("conditions", ())}
        if title in self.unschedulable and old.get("PodScheduled", {}).get("status") != "True":
            told = {"type": "PodScheduled", "status": "False", "message": self.unschedulable[title]}
            return {"phase": "Pending", "conditions": [told]}
        crashing = title in self.crashing
        at = old.get("PodScheduled", {}).get("lastTransitionTime", conditions.timestamp(self.now))
        container: dict[str, Any] = {"name": "engine", "restartCount": 0}
        if crashing:
            before = ((pod.get("status") or {}).get("containerStatuses") or [{}])[0].get("restartCount", 0)
            now = self.now if before < _MOST_RESTARTS else builders.NOW
            times = {"startedAt": conditions.timestamp(now - 10), "finishedAt": conditions.timestamp(now)}
            ended = {"exitCode": 1, "reason": "Error", "message": self.last_words, **times}
            container |= {
                "restartCount": min(before + 1, _MOST_RESTARTS),
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": ended},
            }
        return {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": at},
                {"type": "Ready", "status": "False" if crashing else "True"},
            ],
            "containerStatuses": [container],
        }

    def _play_job(self, job: dict[str, Any]) -> None:
        if job.get("status"):
            return
        meta = job["metadata"]
        own = [pod for pod in self.objects(kinds.POD) if _parent(pod) == ("Job", meta["name"])]
        if not own:
            self._make_pod(job["spec"]["template"], parent=("Job", meta["name"], meta["uid"]))
            return
        message, succeeded = self._report(job)
        ended = {"exitCode": 0 if succeeded else 1, "reason": "Completed" if succeeded else "Error", "message": message}
        container = {"name": "main", "restartCount": 0, "state": {"terminated": ended}}
        self._put({**copy.deepcopy(own[0]), "status": {"phase": "Succeeded", "containerStatuses": [container]}})
        told = {"type": "Complete" if succeeded else "Failed", "status": "True", "reason": "Done", "message": ""}
        told["lastTransitionTime"] = conditions.timestamp(self.now)
        self._put({**copy.deepcopy(job), "status": {"conditions": [told]}})

    def _report(self, job: dict[str, Any]) -> tuple[str, bool]:
        name, part = job["metadata"]["name"], job["metadata"]["labels"][names.LABEL_PART]
        document = self.store.get(("ConfigMap", name))
        if document is None:
            return "", False
        text = document["data"]["stage.json"]
        if part == "inspect":
            told = self.inspect(stages.InspectConfig.model_validate_json(text))
            return report.encode(told), told.result is not None
        if self.probe_error:
            return report.encode(ProbeReport(error=self.probe_error)), False
        return report.encode(self.measure(ProbeConfig.model_validate_json(text))), True

    def measure(self, config: ProbeConfig) -> ProbeReport:
        """Return one round: A B B A or A B C C B A at every concurrency, with one percent of repeatable noise."""
        order = [*config.arms, *reversed(config.arms)]
        blocks = [
            self._block(arm, config=config, position=position, concurrency=concurrency)
            for concurrency in config.concurrencies
            for position, arm in enumerate(order)
        ]
        spoiled = sum(one.outcome is not BlockOutcome.OK for one in blocks)
        return ProbeReport(measurements=blocks, error=f"{spoiled} blocks are unusable" if spoiled else "")

    def _block(self, driven: ProbeArm, *, config: ProbeConfig, position: int, concurrency: int) -> Measurement:
        arm, pod_uid = driven.arm, driven.pod_uid
        title = self.title(arm)
        noise = zlib.crc32(f"{arm}/{config.round}/{position}/{concurrency}".encode()) % 200 / 10_000 - 0.01
        speed = BASE_TOKENS_PER_SECOND * self.speeds.get(title, 1.0) * (1 + noise) * concurrency
        drafts = 0 if title == "None" else DRAFTS
        return builders.block(
            arm,
            tokens_per_second=speed,
            round=config.round,
            position=position,
            concurrency=concurrency,
            drafts=drafts,
            accepted=int(drafts * self.acceptance.get(title, 1.2)),
            outcome=BlockOutcome.CONTAMINATED if self.users and self.is_served(pod_uid) else BlockOutcome.OK,
        ).model_copy(update={"arm": arm, "pod_uid": pod_uid})

    def is_served(self, pod_uid: str) -> bool:
        """Whether the front Service leads users to a pod."""
        service = self.store.get(("Service", builders.NAME))
        pod = next((one for one in self.objects(kinds.POD) if one["metadata"]["uid"] == pod_uid), None)
        if service is None or pod is None:
            return False
        return service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()

    def _make_pod(self, template: Mapping[str, Any], *, parent: tuple[str, str, str]) -> None:
        kind, name, uid = parent
        serial = next(self.serials)
        reference = {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": True}
        meta = {
            **copy.deepcopy(template["metadata"]),
            "name": f"{name}-{serial}",
            "namespace": builders.NAMESPACE,
            "uid": f"uid-{serial}",
            "creationTimestamp": conditions.timestamp(self.now),
            "ownerReferences": [reference],
        }
        self._put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": "node-1"}, "status": {}})

    def _collect(self) -> None:
        """Remove pods whose Deployment or Job is gone."""
        jobs = {one["metadata"]["name"] for one in self.objects(kinds.JOB)}
        sets = {f"{one['metadata']['name']}-rs" for one in self.objects(kinds.DEPLOYMENT)}
        for pod in self.objects(kinds.POD):
            if _parent(pod)[1] not in jobs | sets:
                self._drop("Pod", pod["metadata"]["name"])

    # -- for tests to look at and to turn

    @property
    def resource(self) -> dict[str, Any]:
        """The SpeculativeDeployment."""
        return self.store[("SpeculativeDeployment", builders.NAME)]

    def edit(self, **changes: Any) -> None:
        """Replace fields of the spec."""
        resource = copy.deepcopy(self.resource)
        resource["spec"] |= changes
        resource["metadata"]["generation"] += 1
        self._put(resource)

    def annotate(self, **annotations: str) -> None:
        """Set verb annotations, and remove all others."""
        resource = copy.deepcopy(self.resource)
        resource["metadata"]["annotations"] = {f"paceline.dev/{key}": one for key, one in annotations.items()}
        self._put(resource)

    def put(self, manifest: dict[str, Any]) -> None:
        """Store an object that is not ours."""
        self._put(copy.deepcopy(manifest))

    def remove(self, kind: kinds.Kind, name: str) -> None:
        """Delete an object by hand."""
        self._drop(kind.kind, name)

    def objects(self, kind: kinds.Kind) -> Sequence[dict[str, Any]]:
        """Return all objects of a kind."""
        return [one for (found, _), one in sorted(self.store.items()) if found == kind.kind]

    def revision(self, short: str) -> revisions.Revision | None:
        """Return a revision by its short hash."""
        known = [revisions.read(one) for one in self.objects(kinds.CONTROLLER_REVISION)]
        return next((one for one in known if one.short == short), None)

    def title(self, short: str) -> str:
        """Return what a revision drafts."""
        revision = self.revision(short)
        return revision.inputs.title if revision else "None"

    def serving(self) -> str:
        """Return the title of what the front Service selects; empty without one."""
        service = self.store.get(("Service", builders.NAME))
        return self.title(selected_by(service)) if service else ""

    def servers(self) -> list[str]:
        """Return the titles of all Deployments, sorted."""
        return sorted(
            self.title(one["metadata"]["labels"][names.LABEL_REVISION]) for one in self.objects(kinds.DEPLOYMENT)
        )

    def condition(self, kind: str) -> dict[str, Any]:
        """Return a condition of the stored status."""
        return next(one for one in self.resource["status"]["conditions"] if one["type"] == kind)

    def settle(self, *, passes: int = 400, seconds: float = 30.0, quiet_s: float = QUIET_S) -> None:
        """Run until neither the operator nor the cluster does anything for ``quiet_s``, by default longer than a drain.

        Raises:
            AssertionError: it never comes to rest.
        """
        quiet = 0
        for _ in range(passes):
            before = self.store
            self.operate()
            self.play(seconds)
            quiet = quiet + 1 if self.store is before else 0
            if quiet * seconds > quiet_s:
                return
        raise AssertionError(f"no rest after {passes} passes: {self.plan()}")

    def until(self, reached: Callable[[], bool], *, passes: int = 100, seconds: float = 30.0) -> None:
        """Run until ``reached``.

        Raises:
            AssertionError: it never is.
        """
        for _ in range(passes):
            if reached():
                return
            self.operate()
            self.play(seconds)
        raise AssertionError(f"never reached; status {self.resource.get('status')}")


def _is_ready(pod: Mapping[str, Any]) -> bool:
    told = {one["type"]: one["status"] for one in (pod.get("status") or {}).get("conditions", ())}
    return told.get("Ready") == "True"


def _parent(pod: Mapping[str, Any]) -> tuple[str, str]:
    reference = pod["metadata"]["ownerReferences"][0]
    return reference["kind"], reference["name"]


def _applied(current: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object after an apply by its only manager: our fields as given, what others set kept."""
    given = json.loads(json.dumps(manifest))
    kept = {key: current["metadata"][key] for key in ("uid", "creationTimestamp")}
    given["metadata"] |= kept
    if "status" in current:
        given["status"] = copy.deepcopy(current["status"])
    return given


def selected_by(service: Mapping[str, Any]) -> str:
    """Return the short hash that a front Service selects: in a pool that of stable."""
    pool = (service["metadata"].get("annotations") or {}).get("paceline.dev/pool", "")
    found: str = service["spec"]["selector"].get(names.LABEL_REVISION) or pool
    return found
