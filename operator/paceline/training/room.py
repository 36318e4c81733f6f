"""DraftTrainingJob as the controller drives it."""

from collections.abc import Sequence
from typing import Final

from paceline.api import stages
from paceline.planning import kinds, plan
from paceline.planning import view as views
from paceline.training import observe, reconcile


class Training:
    """The room of DraftTrainingJob; implements ``planning.view.Room``."""

    kind: Final = kinds.DRAFT_TRAINING_JOB

    def reconcile(self, view: views.View, key: plan.Key, now: float) -> plan.Plan | None:
        """Return the plan for ``key``; None when the resource is gone."""
        return reconcile.reconcile(view, key, now)

    def dependents(self, view: views.View, changed: plan.Manifest) -> Sequence[plan.Key]:
        """Return the owner of a pod's Job: what happens to a pod is told by the pod first, by its Job seconds later."""
        if changed.get("kind") != kinds.POD.kind:
            return ()
        meta = plan.metadata(changed)
        owners = [one for one in meta.get("ownerReferences", ()) if one["kind"] == kinds.JOB.kind]
        jobs = [view.get(kinds.JOB, meta["namespace"], one["name"]) for one in owners]
        references = [one for job in jobs if job for one in plan.metadata(job).get("ownerReferences", ())]
        return [
            plan.Key(kind=self.kind, namespace=meta["namespace"], name=one["name"])
            for one in references
            if one.get("controller") and one["kind"] == self.kind.kind
        ]

    def polled(self, view: views.View, key: plan.Key) -> Sequence[views.PodPoll]:
        """Return the pods whose stage runs now, to be asked for their progress."""
        resource = view.get(self.kind, key.namespace, key.name)
        if resource is None:
            return ()
        try:
            seen = observe.observe(view, resource)
        except ValueError:
            return ()
        running = [pod for job in seen.stage_jobs.values() for pod in job.pods if pod.running and pod.ip]
        return [
            views.PodPoll(pod_uid=pod.uid, url=f"http://{pod.ip}:{stages.PROGRESS_PORT}/progress", wants="progress")
            for pod in running
        ]
