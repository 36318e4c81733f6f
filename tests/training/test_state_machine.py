"""Any order of events, old pictures and crashes: the same end, never two pods of a run at once, and then silence."""

import copy
from typing import Any

import hypothesis
import pytest
from hypothesis import stateful
from hypothesis import strategies as st

from paceline.api import stages
from paceline.api.drafttrainingjob import Stage
from paceline.planning import conditions, plan
from paceline.training import results, room
from training import builders
from training.cluster import Cluster, RefusedError, exit_code, is_over, stage_of

TRAINING = room.Training()
FINISHED = {"Complete", "Failed"}


class Run(stateful.RuleBasedStateMachine):
    """One DraftTrainingJob in a cluster where everything may happen at any time."""

    def __init__(self) -> None:
        """Start with a resource and nothing else."""
        super().__init__()
        self.cluster = Cluster(builders.resource(ttlAfterFinished=None))
        self.older: dict[tuple[str, str], dict[str, Any]] = copy.deepcopy(self.cluster.store)
        self.faults = False
        self.claimed = False
        self.started_at: str | None = None

    @stateful.rule(rounds=st.integers(min_value=1, max_value=6))
    def everything_goes_well(self, rounds: int) -> None:
        """For a while nothing is in the way, so that faults are met in late stages too; then a pod runs."""
        for number in range(rounds):
            self.cluster.now += 1
            self._pass(self.cluster.view(), crash_after=None)
            self._cluster_moves(succeeds=number < rounds - 1)

    # the operator

    @stateful.rule()
    def operator_passes(self) -> None:
        """One whole pass on a fresh picture."""
        self._pass(self.cluster.view(), crash_after=None)

    @stateful.rule(writes=st.integers(min_value=0, max_value=4))
    def operator_crashes(self, writes: int) -> None:
        """A pass that dies after some of its writes, before its status."""
        self._pass(self.cluster.view(), crash_after=writes)

    @stateful.rule()
    def operator_sees_old_pods_and_jobs(self) -> None:
        """A pass whose pods and Jobs are older than the rest, as separate watches make it; no own write is missed."""
        mixed = {key: one for key, one in self.cluster.store.items() if key[0] != "Pod" or key in self.older}
        for key, old in self.older.items():
            now = mixed.get(key)
            if now is not None and key[0] in {"Pod", "Job"} and now["metadata"]["uid"] == old["metadata"]["uid"]:
                mixed[key] = old
        self._pass(builders.FakeView(*copy.deepcopy(list(mixed.values()))), crash_after=None)

    @stateful.rule()
    def picture_ages(self) -> None:
        """What is now is what an old picture will show."""
        self.older = copy.deepcopy(self.cluster.store)

    def _pass(self, view: builders.FakeView, *, crash_after: int | None) -> None:
        decided = TRAINING.reconcile(view, builders.KEY, self.cluster.now)
        if decided is None:
            return
        for done, action in enumerate(decided.actions):
            if done == crash_after:
                return
            try:
                self._carry_out(action)
            except RefusedError:
                return
        if crash_after is None and decided.status is not None:
            self.cluster.write_status(decided.status)
            self.claimed = self.claimed or "startTime" in decided.status
            if any(stage is not Stage.INSPECT for stage, _ in self.cluster.runs):
                self.started_at = self.started_at or decided.status["startTime"]
                assert decided.status["startTime"] == self.started_at, "the start of a run moved"

    def _carry_out(self, action: plan.Action) -> None:
        """Do one write; a Job that it makes must be of the stage that the memory, as stored, says is next."""
        runs = len(self.cluster.runs)
        self.cluster.carry_out(action)
        for stage, _ in self.cluster.runs[runs:]:
            kept = [one for (_, name), one in self.cluster.store.items() if "-results-" in name]
            assert stage is Stage.INSPECT or results.read(kept[0]).current is stage

    # the cluster

    @stateful.rule(seconds=st.integers(min_value=1, max_value=600))
    def time_passes(self, seconds: int) -> None:
        """Time passes."""
        self.cluster.now += seconds

    @stateful.rule()
    def jobs_are_synced(self) -> None:
        """The Job controller looks at everything."""
        for job in list(self.cluster.jobs()):
            self.cluster.sync_job(job)

    @stateful.rule()
    def garbage_is_collected(self) -> None:
        """Pods that were asked to end have ended."""
        self.cluster.collect_garbage()

    @stateful.rule()
    def pods_get_nodes(self) -> None:
        """Everything pending starts."""
        for pod in self._pods("Pending"):
            self.cluster.run_pod(pod)

    @stateful.rule()
    def pods_succeed(self) -> None:
        """Everything that runs succeeds."""
        self._succeed()

    @stateful.rule(code=st.sampled_from([1, 137, 42]), reason=st.sampled_from(["Error", "OOMKilled"]))
    def pods_fail(self, code: int, reason: str) -> None:
        """Everything that runs fails."""
        said = stages.StageReport(error="Set spec.draft.layers to 1.", permanent=True) if code == 42 else None
        for pod in self._pods("Running"):
            self.faults = True
            self.cluster.end_pod(pod, code, said, reason=reason)

    @stateful.rule()
    def pods_are_preempted(self) -> None:
        """Everything that runs is taken away."""
        for pod in self._pods("Running"):
            self.cluster.disrupt_pod(pod)

    @stateful.rule()
    def status_is_lost(self) -> None:
        """Somebody empties the status."""
        if self.cluster.resource is not None:
            self.cluster.resource.pop("status", None)

    # people

    @stateful.rule(suspend=st.booleans())
    def user_suspends(self, *, suspend: bool) -> None:
        """Suspend or resume."""
        self._edit("suspend", value=suspend)

    @stateful.rule(deadline=st.sampled_from(["20m", "10h"]))
    def user_changes_the_deadline(self, deadline: str) -> None:
        """Shorten or lengthen the deadline."""
        self._edit("activeDeadline", value=deadline)

    @stateful.rule(folder=st.sampled_from(["kimi", "kimi-k2"]))
    def user_edits_the_target(self, folder: str) -> None:
        """Name another target, which the API server allows until the start time is written."""
        status = self.cluster.resource.get("status", {}) if self.cluster.resource else {}
        begun = any(stage is not Stage.INSPECT for stage, _ in self.cluster.runs)
        if "startTime" not in status and not begun:
            self._edit("target", value={"uri": f"pvc://models/{folder}"})

    @stateful.rule()
    def user_deletes_a_job(self) -> None:
        """Delete the newest Job."""
        for job in list(self.cluster.jobs())[-1:]:
            for pod in self.cluster.pods_of(job):
                pod["metadata"]["deletionTimestamp"] = conditions.timestamp(self.cluster.now)
            del self.cluster.store["Job", job["metadata"]["name"]]

    # what always holds

    @stateful.invariant()
    def one_job_of_a_stage(self) -> None:
        """No two Jobs of one stage that could both start a pod."""
        live = [stage_of(job) for job in self.cluster.jobs() if "deletionTimestamp" not in job["metadata"]]
        started = [stage for stage in live if stage is not Stage.INSPECT]
        assert len(started) == len(set(started))

    @stateful.invariant()
    def one_pod_works_on_the_workspace(self) -> None:
        """Never two pods of stages that write to the workspace, of whatever Job, running at once."""
        writers = [
            pod
            for (kind, _), pod in self.cluster.store.items()
            if kind == "Pod" and pod["status"]["phase"] == "Running" and "-inspect-" not in pod["metadata"]["name"]
        ]
        assert len(writers) <= 1

    @stateful.invariant()
    def spec_is_frozen_before_anything_is_spent(self) -> None:
        """Nothing after Inspect runs before the start was written, since until then an edit is legal."""
        assert self.claimed or all(stage is Stage.INSPECT for stage, _ in self.cluster.runs)

    def teardown(self) -> None:
        """Let the world behave: the run ends, nothing more is written, and without faults it ends well."""
        self._edit("suspend", value=False)
        self._edit("activeDeadline", value="1000h")
        for _ in range(60):
            self.cluster.now += 61
            self._pass(self.cluster.view(), crash_after=None)
            self._cluster_moves(succeeds=True)
        self._check_end()

    def _check_end(self) -> None:
        assert self.cluster.resource is not None
        status = self.cluster.resource["status"]
        refused = any(one["reason"] == "SourceUnreadable" for one in status["conditions"])
        assert status["phase"] in FINISHED or refused, status
        if not self.faults:
            assert status["phase"] == "Complete", status
            assert status["output"]["uri"] == "pvc://heads/kimi/abababababab"
        settled = TRAINING.reconcile(self.cluster.view(), builders.KEY, self.cluster.now)
        assert settled is not None
        assert settled.actions == ()
        assert settled.status == status
        assert settled.events == ()
        assert not [job for job in self.cluster.jobs() if not is_over(job)], "a run that has ended holds a node"

    # helpers

    def _cluster_moves(self, *, succeeds: bool) -> None:
        self.cluster.collect_garbage()
        for job in list(self.cluster.jobs()):
            self.cluster.sync_job(job)
        for pod in self._pods("Pending"):
            self.cluster.run_pod(pod)
        if succeeds:
            self._succeed()

    def _pods(self, phase: str) -> list[dict[str, Any]]:
        pods = [one for (kind, _), one in self.cluster.store.items() if kind == "Pod"]
        return [pod for pod in pods if pod["status"]["phase"] == phase and "deletionTimestamp" not in pod["metadata"]]

    def _succeed(self) -> None:
        by_uid = {job["metadata"]["uid"]: job for job in self.cluster.jobs()}
        for pod in self._pods("Running"):
            owner = pod["metadata"]["ownerReferences"][0]["uid"]
            if owner in by_uid:
                said = stages.StageReport(result=builders.RESULTS[stage_of(by_uid[owner])])
                self.cluster.end_pod(pod, 0, said, reason="Completed")
                assert exit_code(pod) == 0

    def _edit(self, field: str, *, value: Any) -> None:
        resource = self.cluster.resource
        if resource is not None and resource["spec"].get(field) != value:
            resource["spec"][field] = value
            resource["metadata"]["generation"] += 1


TestRun = pytest.mark.timeout(600)(Run.TestCase)  # a minute on a quiet machine, and shrinking a failure takes longer
TestRun.settings = hypothesis.settings(max_examples=40, stateful_step_count=50, deadline=None)
