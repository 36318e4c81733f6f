"""What must hold of a DraftTrainingJob after every single write of the operator's, and when it has come to rest."""

from collections.abc import Mapping
from typing import Any

from machine import jobs
from machine.server import Server
from machine.stage_programs import stage_of
from paceline.api import names
from paceline.api.drafttrainingjob import DraftTrainingJobStatus, Stage
from paceline.planning import kinds, plan
from paceline.training import results
from training import builders

_LONGEST_NAME = 63
_ENDS = frozenset({"Complete", "Failed", "Skipped"})


class Rules:
    """Looks at the cluster."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.forgotten = False
        """Whether somebody has deleted the record: finished stages may then be run again."""
        self.started_at: str | None = None
        self.runs: list[Stage] = []
        """Stages whose Jobs were made, in order."""

    def record(self) -> results.Record:
        """Return the run's memory, as stored."""
        kept = [one for one in self.server.all(kinds.CONFIG_MAP) if results.KEY in one["data"]]
        return results.read(kept[0] if kept else None)

    def wrote(self, action: plan.Action) -> None:
        """Check everything that one write may break."""
        if isinstance(action, plan.Delete):
            return
        meta = action.manifest["metadata"]
        assert meta["labels"][names.LABEL_MANAGED_BY] == names.FIELD_MANAGER
        assert plan.controller_uid(action.manifest) == builders.UID
        assert len(meta["name"]) <= _LONGEST_NAME
        if isinstance(action, plan.Create) and action.manifest["kind"] == kinds.JOB.kind:
            self.check_job(stage_of(action.manifest))

    def check_job(self, stage: Stage) -> None:
        """A Job is made for the stage that memory says is next, once the spec is frozen, and beside no other."""
        self.runs.append(stage)
        living = [stage_of(one) for one in self.server.all(kinds.JOB) if not jobs.is_over(one)]
        assert len(living) == len(set(living)), f"two Jobs of one stage: {living}"
        if stage is Stage.INSPECT:
            return
        assert self.forgotten or self.record().current is stage, f"{stage} runs again"
        resource = self.server.objects[kinds.DRAFT_TRAINING_JOB.kind, builders.NAME]
        known = (resource.get("status") or {}).get("startTime") or self.record().started_at
        assert known is not None or self.forgotten, "something was spent before the spec was frozen"
        assert self.started_at in {None, known} or self.forgotten, "the start of a run moved"
        self.started_at = known or self.started_at

    def check_workspace(self) -> None:
        """Never two pods that write to the workspace, of whatever Job; one that is ending still writes."""
        pods = [one for one in self.server.all(kinds.POD) if one["status"].get("phase") == "Running"]
        writers = [one["metadata"]["name"] for one in pods if stage_of(one) is not Stage.INSPECT]
        assert len(writers) <= 1, f"two at work on one workspace: {writers}"

    def check_rest(self, planned: plan.Plan, resource: Mapping[str, Any]) -> None:
        """Nothing is left to write, the status says what is, and a run that has ended holds no node."""
        status = resource["status"]
        assert not planned.actions
        assert not planned.events
        assert planned.status == status
        DraftTrainingJobStatus.model_validate(status)
        told = {one["type"]: one for one in status["conditions"]}
        refused = told["Accepted"]["status"] == "False"
        assert status["phase"] in _ENDS or refused, f"it waits for ever: {told}"
        assert not [one for one in self.server.all(kinds.JOB) if not jobs.is_over(one)]
        assert not [one for one in self.server.all(kinds.POD) if jobs.is_living(one)]
