"""A small room with every kind of write, to prove the controller without training or serving anything.

A resource's Job runs once; its pod's last words are kept in a ConfigMap before the Service is flipped to its second
revision, and only then the Job goes. In the end there is exactly one of each, whatever was killed on the way.
"""

from collections.abc import Sequence
from typing import Any

from paceline.api import names
from paceline.planning import conditions, kinds, plan
from paceline.planning.plan import Apply, Create, Delete, Draft, Key, Manifest, Plan
from paceline.planning.view import PodPoll, View

LABEL_FINISHED = "batch.kubernetes.io/job-name"


class Relay:
    """Runs a Job, keeps its result, flips a Service."""

    kind = kinds.DRAFT_TRAINING_JOB

    def reconcile(self, view: View, key: Key, now: float) -> Plan | None:
        """Return the next steps."""
        resource = view.get(key.kind, key.namespace, key.name)
        if resource is None or "deletionTimestamp" in resource["metadata"]:
            return None
        draft = Draft()
        children = Children(view, resource)
        if children.result is None:
            children.run(draft)
        elif children.service is not None:
            children.finish(draft)
        if children.service is None:
            draft.actions.append(Create(manifest=children.front("one")))
        status, events = _status(resource, is_complete=children.is_flipped, now=now)
        draft.events.extend(events)
        return draft.plan(status)

    def dependents(self, view: View, changed: Manifest) -> Sequence[Key]:  # noqa: ARG002 - a Room's signature
        """Return nobody."""
        return ()

    def polled(self, view: View, key: Key) -> Sequence[PodPoll]:  # noqa: ARG002 - as above
        """Return nobody."""
        return ()


class Children:
    """What the resource has so far."""

    def __init__(self, view: View, resource: Manifest) -> None:
        self.resource = resource
        self.uid = resource["metadata"]["uid"]
        self.view = view
        self.result = self._only(kinds.CONFIG_MAP)
        self.job = self._only(kinds.JOB)
        self.service = self._only(kinds.SERVICE)

    @property
    def is_flipped(self) -> bool:
        """Whether the Service selects the second revision."""
        return self.service is not None and self.service["spec"]["selector"][names.LABEL_REVISION] == "two"

    def run(self, draft: Draft) -> None:
        """Run the Job, then keep what its pod said."""
        if self.job is None:
            draft.actions.append(Create(manifest=self._manifest(kinds.JOB, "step", spec=_job_spec(self._labels()))))
            return
        said = self._last_words()
        if said is not None:
            draft.actions.append(Create(manifest=self._manifest(kinds.CONFIG_MAP, "result", data={"said": said})))

    def finish(self, draft: Draft) -> None:
        """Flip the Service, then let the Job go."""
        if not self.is_flipped:
            meta = self.service["metadata"]
            draft.actions.append(
                Apply(manifest=self.front("two"), uid=meta["uid"], resource_version=meta["resourceVersion"])
            )
        elif self.job is not None and "deletionTimestamp" not in self.job["metadata"]:
            meta = self.job["metadata"]
            draft.actions.append(
                Delete(kind=kinds.JOB, namespace=meta["namespace"], name=meta["name"], uid=meta["uid"])
            )

    def front(self, revision: str) -> dict[str, Any]:
        """Return the Service that selects a revision."""
        selector = {names.LABEL_TRAINING_JOB: self.resource["metadata"]["name"], names.LABEL_REVISION: revision}
        # The annotation is there only in the first revision: an apply must be able to take it away again.
        extra = {"annotations": {"paceline.dev/first": "yes"}} if revision == "one" else {}
        spec = {"selector": selector, "ports": [{"port": 80, "name": "http"}]}
        return self._manifest(kinds.SERVICE, "front", spec=spec, meta=extra)

    def _only(self, kind: kinds.Kind) -> Manifest | None:
        found = self.view.owned(kind, self.uid)
        if len(found) > 1:
            raise AssertionError(f"{len(found)} {kind.plural} of one resource")
        return found[0] if found else None

    def _last_words(self) -> str | None:
        job = self.job
        if job is None or not (job.get("status") or {}).get("succeeded"):
            return None
        pods = self.view.labelled(kinds.POD, job["metadata"]["namespace"], LABEL_FINISHED, job["metadata"]["name"])
        for pod in pods:
            for container in pod["status"].get("containerStatuses") or ():
                ended = container["state"].get("terminated")
                if ended is not None:
                    return str(ended.get("message", ""))
        return None

    def _labels(self) -> dict[str, str]:
        return {
            names.LABEL_MANAGED_BY: names.FIELD_MANAGER,
            names.LABEL_TRAINING_JOB: self.resource["metadata"]["name"],
        }

    def _manifest(
        self, kind: kinds.Kind, part: str, *, meta: dict[str, Any] | None = None, **content: Any
    ) -> dict[str, Any]:
        owner = self.resource["metadata"]
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {
                "name": names.child(owner["name"], part, self.uid),
                "namespace": owner["namespace"],
                "labels": self._labels(),
                "ownerReferences": [plan.owner_reference(self.resource)],
                **(meta or {}),
            },
            **content,
        }


def _job_spec(labels: dict[str, str]) -> dict[str, Any]:
    return {
        "backoffLimit": 0,
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "restartPolicy": "Never",
                # Never scheduled: a test plays the kubelet also where there is a node.
                "nodeSelector": {"paceline.dev/nowhere": "true"},
                "containers": [{"name": "main", "image": "localhost/none:none", "command": ["true"]}],
            },
        },
    }


def _status(resource: Manifest, *, is_complete: bool, now: float) -> tuple[dict[str, Any], list[plan.Event]]:
    said = [
        conditions.Said(type="Accepted", status=True, reason="TargetRead", message="read"),
        conditions.Said(
            type="Complete",
            status=is_complete,
            reason="Published" if is_complete else "NotPublished",
            message="done" if is_complete else "running",
        ),
    ]
    stored = resource.get("status") or {}
    generation = resource["metadata"].get("generation", 0)
    merged, events = conditions.merge(stored.get("conditions") or (), said, generation=generation, now=now)
    phase = "Complete" if is_complete else "Running"
    return {"observedGeneration": generation, "phase": phase, "conditions": merged}, events
