"""The API server of the model: objects with preconditions, every state it went through, and calls that may fail.

It answers as the executor would hear it, in the controller's own errors, and knows nothing of what it stores.
"""

import copy
import enum
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mergepatch
from paceline.controller import errors
from paceline.planning import conditions, kinds, plan

Objects = Mapping[tuple[str, str], dict[str, Any]]
"""By kind and name: the model has one namespace."""


class Fault(enum.StrEnum):
    """How a call may fail."""

    CONFLICT = "409"
    REFUSED = "422"
    THROTTLED = "429"
    BROKEN = "500"
    TIMEOUT = "no answer, and nothing done"
    LOST_ANSWER = "no answer, though it was done"


_STATUS = {Fault.CONFLICT: 409, Fault.REFUSED: 422, Fault.THROTTLED: 429, Fault.BROKEN: 500}


@dataclass(frozen=True, slots=True)
class State:
    """All objects, and since when they are so."""

    at: float
    objects: Objects


class Server:
    """One namespace, and the time that its controllers stamp on things."""

    def __init__(self, *, now: float) -> None:
        self.now = now
        self.states: list[State] = [State(now, {})]
        self.written: list[plan.Action] = []
        """What the operator did, in order."""
        self.own: dict[str, int] = {}
        """By kind, the number of the state that its newest write made."""
        self.pruned: frozenset[str] = frozenset()
        """Fields of a status that the schema drops."""
        self._serials = itertools.count(1)

    # -- what everybody may ask

    @property
    def objects(self) -> Objects:
        """Everything, as it is."""
        return self.states[-1].objects

    def get(self, kind: kinds.Kind, name: str) -> dict[str, Any] | None:
        """Return an object."""
        return self.objects.get((kind.kind, name))

    def all(self, kind: kinds.Kind) -> list[dict[str, Any]]:
        """Return the objects of a kind, by name."""
        return [one for (found, _), one in sorted(self.objects.items()) if found == kind.kind]

    def serial(self) -> int:
        """Return a number that was never given before."""
        return next(self._serials)

    # -- what controllers, kubelets and people do: it always works

    def put(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Store an object; return it as stored."""
        made = copy.deepcopy(dict(manifest))
        made["metadata"]["resourceVersion"] = str(self.serial())
        made["metadata"].setdefault("uid", f"uid-{made['metadata']['resourceVersion']}")
        made["metadata"].setdefault("creationTimestamp", conditions.timestamp(self.now))
        self._become({**self.objects, (made["kind"], made["metadata"]["name"]): made})
        return made

    def drop(self, kind: str, name: str) -> None:
        """Let an object vanish."""
        self._become({key: one for key, one in self.objects.items() if key != (kind, name)})

    def _become(self, objects: Objects) -> None:
        self.states.append(State(self.now, objects))

    # -- what the operator asks for

    def carry_out(self, action: plan.Action, fault: Fault | None = None) -> None:
        """Do one action.

        Raises:
            ControllerError: it could not be done, or nobody knows whether it was.
        """
        _fail_before(fault)
        before = len(self.states)
        match action:
            case plan.Create(manifest=manifest):
                self._create(manifest)
            case plan.Apply():
                self._apply(action)
            case plan.Delete():
                self._delete(action)
            case plan.Amend():
                self._amend(action)
        self.written.append(action)
        if len(self.states) > before:
            named = isinstance(action, plan.Delete | plan.Amend)
            kind = action.kind.kind if named else action.manifest["kind"]
            self.own[kind] = len(self.states) - 1
        _fail_after(fault)

    def patch_status(self, seen: Mapping[str, Any], patch: Mapping[str, Any], fault: Fault | None = None) -> None:
        """Merge a patch into the status of a resource as it was seen.

        Raises:
            ControllerError: as for an action.
        """
        _fail_before(fault)
        meta = seen["metadata"]
        current = self._checked(seen["kind"], meta["name"], meta["uid"], meta["resourceVersion"])
        merged = mergepatch.merged(current.get("status") or {}, json.loads(json.dumps(patch)))
        self.put({**current, "status": {name: one for name, one in merged.items() if name not in self.pruned}})
        self.own[seen["kind"]] = len(self.states) - 1
        _fail_after(fault)

    def _create(self, manifest: plan.Manifest) -> None:
        found = self.objects.get((manifest["kind"], manifest["metadata"]["name"]))
        if found is None:
            self.put(json.loads(json.dumps(manifest)))
        elif plan.controller_uid(found) != plan.controller_uid(manifest):
            raise errors.ForeignObjectError(f"{manifest['kind']} {manifest['metadata']['name']} is another's")
        elif "deletionTimestamp" in found["metadata"]:
            raise errors.ConflictError("it is still being deleted")

    def _apply(self, action: plan.Apply) -> None:
        given = json.loads(json.dumps(action.manifest))
        name = given["metadata"]["name"]
        current = self._checked(given["kind"], name, action.uid, action.resource_version)
        if _fixed(current) != _fixed({**current, **given}):
            raise errors.RefusedError(f"{given['kind']} {name}: field is immutable")
        kept = ("uid", "creationTimestamp", "deletionTimestamp")
        given["metadata"] |= {key: current["metadata"][key] for key in kept if key in current["metadata"]}
        self.put({**given, **({"status": current["status"]} if "status" in current else {})})

    def _amend(self, action: plan.Amend) -> None:
        current = self._checked(action.kind.kind, action.name, action.uid, action.resource_version)
        self.put(mergepatch.merged(current, json.loads(json.dumps(action.patch))))

    def _delete(self, action: plan.Delete) -> None:
        if (action.kind.kind, action.name) not in self.objects:
            return  # gone already, which is what was asked for
        current = self._checked(action.kind.kind, action.name, action.uid, action.resource_version)
        if action.propagation == "Foreground" and controlled(self.objects, current["metadata"]["uid"]):
            meta = {**current["metadata"], "deletionTimestamp": conditions.timestamp(self.now)}
            self.put({**current, "metadata": meta})
        else:
            self.drop(action.kind.kind, action.name)

    def _checked(self, kind: str, name: str, uid: str, version: str | None) -> dict[str, Any]:
        current = self.objects.get((kind, name))
        if current is None:
            raise errors.NotFoundError(f"{kind} {name} is gone")
        if current["metadata"]["uid"] != uid or version not in {None, current["metadata"]["resourceVersion"]}:
            raise errors.ConflictError(f"{kind} {name} is not what was seen")
        return current


def controlled(objects: Objects, uid: str) -> Sequence[dict[str, Any]]:
    """Return what an object controls, by name."""
    found: Iterable[dict[str, Any]] = (one for _, one in sorted(objects.items()))
    return [one for one in found if plan.controller_uid(one) == uid]


def _fixed(manifest: Mapping[str, Any]) -> object:
    """Return what the API server lets nobody change."""
    spec = manifest.get("spec") or {}
    match manifest["kind"]:
        case "Deployment":
            return spec.get("selector")
        case "Job":
            return spec.get("template")
        case "ControllerRevision":
            return manifest.get("data")
        case "ConfigMap":
            return manifest.get("data") if manifest.get("immutable") else None
        case _:
            return None


def _fail_before(fault: Fault | None) -> None:
    if fault in _STATUS:
        raise errors.from_status(_STATUS[fault], {"reason": "Drawn", "message": "a fault that was drawn"})
    if fault is Fault.TIMEOUT:
        raise errors.UnavailableError("time-out")


def _fail_after(fault: Fault | None) -> None:
    if fault is Fault.LOST_ANSWER:
        raise errors.UnavailableError("time-out")
