"""What must hold of a SpeculativeDeployment after every write of the operator's, and when it has come to rest."""

from collections.abc import Callable, Mapping
from typing import Any

from machine import jobs
from machine.kubelet import is_ready
from machine.server import Server
from paceline.api import names
from paceline.api.measurement import Decision, Purpose, RolloutRecord
from paceline.api.speculativedeployment import SpeculativeDeploymentStatus
from paceline.capacity import reading
from paceline.planning import kinds, plan
from paceline.rollout.documents import records, workloads
from rollout import builders, gateway

_LONGEST_NAME = 63


class Rules:
    """Looks at the cluster."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.cut_off = False
        """Whether who acts lacks writes of our own, as a leader that was cut off may."""
        self.forgotten = False
        """Whether somebody has deleted records or revisions: nobody can know then what they said."""
        self.decisions: dict[int, RolloutRecord] = {}
        self.templates: dict[str, Any] = {}
        self._known: dict[tuple[str, str], Any] = {}
        self._selected: frozenset[str] = frozenset()

    # -- what is read out of the cluster

    def history(self) -> records.History:
        """Return the records as they lie in the cluster."""
        maps = [one for one in self.server.all(kinds.CONFIG_MAP) if records.KEY in one["data"]]
        stored = sorted((self._read(one, records.read) for one in maps), key=lambda one: one.record.number)
        return records.History(owner=builders.NAME, owner_uid=f"uid-of-{builders.NAME}", stored=tuple(stored))

    def _read(self, manifest: Mapping[str, Any], how: Callable[[Any], Any]) -> Any:
        """Return what an object says; a version is read once."""
        meta = manifest["metadata"]
        key = meta["name"], meta["resourceVersion"]
        if key not in self._known:
            self._known[key] = how(manifest)
        return self._known[key]

    def served(self) -> frozenset[str]:
        """Return the revisions that users' requests may reach through the front Service."""
        service = self.server.objects.get(("Service", builders.NAME))
        if service is None:
            return frozenset()
        selector = service["spec"]["selector"]
        found = {selector[names.LABEL_REVISION]} if names.LABEL_REVISION in selector else set()
        # A pod that ends is taken from the endpoints at once, whatever else it still does.
        living = [pod for pod in self.server.all(kinds.POD) if jobs.is_living(pod)]
        return frozenset(found | {_revision(pod) for pod in living if _matches(pod, selector)})

    def endpoints(self) -> int:
        """Return how many ready pods serve users, those of a Deployment that is gone or shrinks not counted."""
        service = self.server.objects.get(("Service", builders.NAME))
        if service is None:
            return 0
        wanted: dict[str, int] = {}
        for one in self._servers():
            short = _revision(one)
            wanted[short] = wanted.get(short, 0) + one["spec"]["replicas"]
        ready: dict[str, int] = {}
        for pod in self.server.all(kinds.POD):
            if is_ready(pod) and _matches(pod, service["spec"]["selector"]):
                ready[_revision(pod)] = ready.get(_revision(pod), 0) + 1
        return sum(min(count, wanted.get(short, 0)) for short, count in ready.items())

    # -- after every write

    def wrote(self, action: plan.Action, *, sees_all: bool) -> None:
        """Check everything that one write may break; ``sees_all`` when it was decided on things as they are.

        No write can be made conditional on pods, so only who sees them as they are can spare users an outage.
        """
        self.check_manifest(action)
        self.check_service()
        if sees_all:
            self.check_capacity(action)
            self.check_route(action)
            self.check_growth(action)
        self.check_candidates(action)
        self.check_records()
        self.check_templates()

    def check_manifest(self, action: plan.Action) -> None:
        """What is made is ours, can be seen by our own watches, and has a name that every label can hold."""
        if isinstance(action, plan.Delete | plan.Amend):
            return
        meta = action.manifest["metadata"]
        assert meta["labels"][names.LABEL_MANAGED_BY] == names.FIELD_MANAGER
        assert plan.controller_uid(action.manifest) == f"uid-of-{builders.NAME}"
        assert len(meta["name"]) <= _LONGEST_NAME

    def check_service(self) -> None:
        """Users reach stable, and beside it at most the open rollout's candidate; never what a record refuses."""
        served = self.served()
        if served == self._selected:
            return
        history = self.history()
        if served and not self.forgotten:
            allowed = {history.stable} | ({history.open.record.candidate} if history.open else set())
            allowed |= {history.last_change.stable} if history.last_change else set()  # it hands over
            changed = served - self._selected
            assert changed <= {names.short(one) for one in allowed if one}, f"users reach {sorted(served)}"
            refused = {names.short(one) for one in history.rejected}
            assert not changed & refused or self._asked_again(history), f"a rejected revision serves: {sorted(served)}"
        self._selected = served

    def _asked_again(self, history: records.History) -> bool:
        """Whether the open rollout was opened because a person asked for a refused revision again."""
        return bool(history.open and any(one.startswith("retry=") for one in history.open.record.handled))

    def check_route(self, action: plan.Action) -> None:
        """A weight goes to a revision with a ready pod only: to the one under way, or to one that has won."""
        if not isinstance(action, plan.Amend) or "spec" not in action.patch:
            return
        ready = {_revision(pod) for pod in self.server.all(kinds.POD) if is_ready(pod)}
        behind = {one["metadata"]["name"]: _revision(one) for one in self.server.all(kinds.SERVICE)}
        history = self.history()
        under_way = {history.stable, history.open.record.candidate if history.open else ""}
        for rule in action.patch["spec"]["rules"]:
            for one in rule["backendRefs"]:
                if one["weight"] and one["name"].startswith(f"{builders.NAME}-{workloads.BACKEND}-"):
                    assert behind[one["name"]] in ready, "a revision without an endpoint has a weight"
                    assert self.forgotten or behind[one["name"]] in {names.short(digest) for digest in under_way}

    def check_capacity(self, action: plan.Action) -> None:
        """No write of ours takes a ready endpoint from users, but for what the strategy and the spec allow."""
        resource = self.server.objects.get(("SpeculativeDeployment", builders.NAME))
        if resource is None:
            return
        before, now = self._before(), self.endpoints()
        kept = min(before, floor(resource["spec"]))
        assert now >= kept, f"{before} endpoints became {now} by {_told(action)}"

    def _before(self) -> int:
        """Return the endpoints before the newest write."""
        earlier = Rules(_At(self.server, len(self.server.states) - 2))
        return earlier.endpoints()

    def check_growth(self, action: plan.Action) -> None:
        """A candidate that takes devices gets no replica beyond its first that its record was not granted before."""
        opened = self.history().open
        if not isinstance(action, plan.Create | plan.Apply) or opened is None or self.forgotten:
            return
        record, spec = opened.record, action.manifest.get("spec") or {}
        grows = action.manifest["kind"] == "Deployment" and _revision(action.manifest) == names.short(record.candidate)
        if not grows or record.purpose is not Purpose.CANDIDATE or not reading.needs(spec["template"]["spec"]):
            return
        earlier = _At(self.server, len(self.server.states) - 2).objects.get(("Deployment", _name(action)))
        had = earlier["spec"]["replicas"] if earlier else 0
        assert spec["replicas"] <= max(1, had, record.granted_replicas), "it grows unasked"

    def check_candidates(self, action: plan.Action) -> None:
        """A Deployment is made only for stable, its rollout's arms, or what served before; there is one candidate."""
        if not isinstance(action, plan.Create) or action.manifest["kind"] != "Deployment" or self.forgotten:
            return
        history = self.history()
        # What served before may still drain, also when the record that brought it has gone with the history's limit.
        served = {names.short(digest) for one in history.decided for digest in (one.serving, one.stable) if digest}
        newest = history.stored[-1].record if history.stored else None
        arms = {names.short(one) for one in (newest.candidate, newest.control) if one} if newest else set()
        living = {_revision(one) for one in self._servers()}
        if not self.cut_off:
            assert living <= served | arms, f"arms of two rollouts at once: {sorted(living - served - arms)}"

    def check_records(self) -> None:
        """Only the newest rollout is undecided; what is decided stays so, and what is rejected is not to serve."""
        stored = [one.record for one in self.history().stored]
        assert all(one.decision is not None for one in stored[:-1])
        for one in stored:
            known = self.decisions.get(one.number)
            assert known is None or self.forgotten or (known.decision, known.serving) == (one.decision, one.serving)
            assert one.decision is not Decision.REJECTED or one.serving != one.candidate, "a rejected revision is kept"
            if one.decision is not None:
                self.decisions[one.number] = one

    def check_templates(self) -> None:
        """A revision is never rendered again, and its Deployment's pods are exactly those it holds."""
        known = {one["metadata"]["labels"][names.LABEL_REVISION]: one for one in self._revisions()}
        for short, one in known.items():
            assert self.forgotten or self.templates.setdefault(short, one["data"]) == one["data"]
        for one in self.server.all(kinds.DEPLOYMENT):
            revision = known.get(_revision(one))
            assert revision is None or _pods(revision["data"]["template"]) == _pods(one["spec"]["template"])

    def _servers(self) -> list[dict[str, Any]]:
        """Return the Deployments that may serve users: a copy that is only measured never does."""
        found = self.server.all(kinds.DEPLOYMENT)
        return [one for one in found if one["metadata"]["labels"][names.LABEL_PART] == workloads.SERVER]

    def _revisions(self) -> list[dict[str, Any]]:
        return self.server.all(kinds.CONTROLLER_REVISION)

    # -- at rest

    def check_rest(self, planned: plan.Plan, resource: Mapping[str, Any]) -> None:
        """Nothing is left to write, the status says what is, no wait goes on, and no GPU is held for nothing."""
        assert not planned.actions
        assert planned.status == resource["status"]
        SpeculativeDeploymentStatus.model_validate(planned.status)
        assert not self.server.all(kinds.JOB)
        told = {one["type"]: one for one in resource["status"]["conditions"]}
        if "Progressing" in told:
            assert told["Progressing"]["status"] == "False", f"it waits for ever: {told['Progressing']}"
        history = self.history()
        opened = history.open.record if history.open else None
        wanted = {history.stable} | ({opened.candidate, opened.control, opened.stable} if opened else set())
        left = {_revision(one) for one in self.server.all(kinds.DEPLOYMENT)}
        assert left <= {names.short(one) for one in wanted if one} | self.served()
        refused = {names.short(one) for one in history.rejected}
        assert self.forgotten or not self.served() & refused or self._asked_again(history), (
            "what was rejected serves on"
        )
        assert opened is None or opened.decision is not Decision.PROMOTED
        # One for which no node has room may be held for ever: it keeps nothing.
        over = opened is None or opened.decision is not None or opened.capacity_held
        assert over, f"it holds for ever: {told['Progressing']}"
        if opened is None:
            for route in self.server.all(kinds.HTTP_ROUTE):
                assert route["spec"] == gateway.route()["spec"], "a candidate is left in a user's route"
                assert route["metadata"]["annotations"] == gateway.route()["metadata"]["annotations"]


def floor(spec: Mapping[str, Any]) -> int:
    """Return how many endpoints the operator may never go below of its own will, with all of them up."""
    replicas: int = spec["replicas"]
    rollout = spec["rollout"]
    if rollout.get("strategy", "Auto") == "Surge":
        return replicas
    may_stop = (rollout.get("replace") or {}).get("allowDowntime", False)
    return max(0, replicas - 1) if replicas > 1 or may_stop else replicas


class _At(Server):
    """The server as it was, to be looked at only."""

    def __init__(self, server: Server, number: int) -> None:
        self.states = server.states[: max(1, number + 1)][-1:]


def _matches(pod: Mapping[str, Any], selector: Mapping[str, str]) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, value in selector.items())


def _revision(manifest: Mapping[str, Any]) -> str:
    return str((manifest["metadata"].get("labels") or {}).get(names.LABEL_REVISION, ""))


def _pods(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod template without the label that tells a server from its measured copy."""
    meta = template["metadata"]
    labels = {name: value for name, value in meta["labels"].items() if name != names.LABEL_PART}
    return {**template, "metadata": {**meta, "labels": labels}}


def _name(action: plan.Create | plan.Apply) -> str:
    return str(action.manifest["metadata"]["name"])


def _told(action: plan.Action) -> str:
    if isinstance(action, plan.Delete | plan.Amend):
        verb = "deleting" if isinstance(action, plan.Delete) else "amending"
        return f"{verb} {action.kind.kind} {action.name}"
    return f"writing {action.manifest['kind']} {action.manifest['metadata']['name']}"
