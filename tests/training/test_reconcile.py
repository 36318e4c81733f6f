"""Whole passes: what is asked for in each situation, in which order."""

from typing import Any

import pytest

from paceline.api import conditions, stages
from paceline.api.drafttrainingjob import Stage
from paceline.planning import plan
from paceline.planning import view as views
from paceline.training import observe, results, room
from training import builders

TRAINING = room.Training()


def planned(*objects: plan.Manifest, now: float = builders.NOW, **view: Any) -> plan.Plan:
    """Return the plan for what these objects show."""
    found = TRAINING.reconcile(builders.FakeView(*objects, **view), builders.KEY, now)
    assert found is not None
    return found


def kept(*done: Stage, **fields: Any) -> dict[str, Any]:
    """Return the ConfigMap of a started run with these stages done."""
    return builders.remembered(builders.record(*done, started_at=builders.at(-600), **fields))


def kinds_of(found: plan.Plan) -> list[tuple[str, str]]:
    """Return the writes of a plan as (verb, kind)."""
    return [
        (type(one).__name__, one.kind.kind if isinstance(one, plan.Delete) else one.manifest["kind"])
        for one in found.actions
    ]


def condition(found: plan.Plan, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition in a plan's status."""
    assert found.status is not None
    one = next(one for one in found.status["conditions"] if one["type"] == kind)
    return one["status"], one["reason"], one["message"]


def test_resource_that_is_gone_has_no_plan() -> None:
    """Nothing is left to decide."""
    assert TRAINING.reconcile(builders.FakeView(), builders.KEY, builders.NOW) is None


def test_resource_in_deletion_is_left_to_the_garbage_collector() -> None:
    """No finalizer, no writes: owner references take pods and GPUs back."""
    going = builders.started()
    going["metadata"]["deletionTimestamp"] = builders.at(0)
    assert planned(going, builders.job(Stage.TRAIN)) == plan.Plan()


def test_new_job_begins_with_an_inspection() -> None:
    """The configuration is there before the Job that mounts it; nothing has started."""
    found = planned(builders.resource())
    assert kinds_of(found) == [("Create", "ConfigMap"), ("Create", "Job")]
    assert condition(found, "Accepted")[:2] == ("Unknown", "Inspecting")
    assert found.status is not None
    assert found.status["phase"] == "Pending"
    assert "startTime" not in found.status


def test_start_is_claimed_in_a_pass_of_its_own() -> None:
    """An edit can still come until the API server refuses it, so nothing is spent in the same pass."""
    found = planned(builders.resource(), *builders.succeeded(Stage.INSPECT))
    assert kinds_of(found) == [("Create", "ConfigMap")]
    assert found.status is not None
    assert found.status["startTime"] == builders.at(0)
    assert condition(found, "Accepted")[:2] == ("True", "TargetRead")


def test_prepare_begins_once_the_start_is_seen() -> None:
    """The claimed start is kept as it was."""
    found = planned(builders.started(), builders.remembered(builders.record(Stage.INSPECT)))
    assert kinds_of(found)[-2:] == [("Create", "ConfigMap"), ("Create", "Job")]
    assert found.status is not None
    assert found.status["startTime"] == builders.at(-600)
    assert "-prepare-" in found.actions[-1].manifest["metadata"]["name"]  # type: ignore[union-attr]


def test_result_is_remembered_before_the_next_stage_begins() -> None:
    """A crash after any of the writes loses nothing and repeats nothing."""
    found = planned(builders.started(), kept(*builders.before(Stage.TRAIN)), *builders.succeeded(Stage.TRAIN))
    assert kinds_of(found) == [("Apply", "ConfigMap"), ("Create", "ConfigMap"), ("Create", "Job")]
    apply, _, create = found.actions
    assert isinstance(apply, plan.Apply)
    assert isinstance(create, plan.Create)
    assert results.read(apply.manifest).training == builders.RESULTS[Stage.TRAIN]
    assert create.manifest["metadata"]["labels"]["paceline.dev/stage"] == "evaluate"


def test_configuration_left_by_a_crash_is_used() -> None:
    """It is named by its content, so the one that is there is the right one."""
    memory = kept(*builders.before(Stage.TRAIN))
    first = planned(builders.started(), memory).actions[0]
    assert isinstance(first, plan.Create)
    left = builders.stored(first.manifest, uid="left")
    assert kinds_of(planned(builders.started(), memory, left)) == [("Create", "Job")]


def test_running_stage_asks_for_nothing() -> None:
    """A second pass over a running stage makes no write and looks again soon for its progress."""
    job = builders.job(Stage.TRAIN)
    objects = [kept(*builders.before(Stage.TRAIN)), job, builders.pod(of=job, main=builders.running())]
    first = planned(builders.started(), *objects)
    settled = planned({**builders.started(), "status": first.status}, *objects)
    assert first.actions == settled.actions == ()
    assert settled.status == first.status
    assert settled.events == ()
    assert settled.requeue_after_s == 35_900.0


def test_publication_completes_the_run() -> None:
    """The head's URI, its manifest and its acceptance are in status, and nothing is left to do."""
    found = planned(builders.started(), kept(*builders.before(Stage.PUBLISH)), *builders.succeeded(Stage.PUBLISH))
    assert kinds_of(found) == [("Apply", "ConfigMap")]
    assert found.status is not None
    assert found.status["phase"] == "Complete"
    assert found.status["output"] == {
        "uri": "pvc://heads/kimi/abababababab",
        "manifestDigest": builders.DIGEST,
        "acceptanceLength": "2.400",
        "acceptanceByPosition": ["0.620", "0.370", "0.220"],
    }
    assert condition(found, "Complete")[:2] == ("True", "Published")


def test_status_is_rebuilt_when_everything_but_the_record_is_gone() -> None:
    """Jobs and pods are collected, the status is emptied: the record knows."""
    done = [kept(*builders.before(Stage.PUBLISH)), *builders.succeeded(Stage.PUBLISH)]
    complete = planned(builders.started(), *done)
    apply = complete.actions[0]
    assert isinstance(apply, plan.Apply)
    rebuilt = planned(builders.resource(), builders.stored(apply.manifest, uid="record-uid"))
    assert rebuilt.actions == ()
    assert rebuilt.status is not None
    assert complete.status is not None
    wanted = ("phase", "startTime", "completionTime", "output", "target", "stages")
    assert {name: rebuilt.status[name] for name in wanted} == {name: complete.status[name] for name in wanted}


def test_unreadable_source_waits_for_an_edit() -> None:
    """No retry, no failure, and the spec is still free."""
    message = builders.reported(None, error="config.json is missing; name the model's folder.", permanent=True)
    job = builders.job(Stage.INSPECT, **builders.failed("PodFailurePolicy"))
    pod = builders.pod(of=job, phase="Failed", main=builders.ended(42, message=message))
    found = planned(builders.resource(), job, pod)
    assert found.actions == ()
    assert condition(found, "Accepted")[:2] == ("False", "SourceUnreadable")
    assert condition(found, "Failed")[0] == "False"
    assert found.status is not None
    assert "startTime" not in found.status


def test_edited_source_is_inspected_anew() -> None:
    """The inspection of what the spec no longer says goes, another begins."""
    old = builders.job(Stage.INSPECT, **builders.failed("PodFailurePolicy"))
    edited = builders.resource(target={"uri": "pvc://models/kimi-k2"})
    found = planned(edited, old)
    assert kinds_of(found) == [("Delete", "Job"), ("Create", "ConfigMap"), ("Create", "Job")]
    assert condition(found, "Accepted")[:2] == ("Unknown", "Inspecting")


def test_resumed_run_waits_for_the_old_pods() -> None:
    """Two pods never write to one workspace."""
    going = builders.job(Stage.TRAIN, deleting=True)
    found = planned(builders.started(), kept(*builders.before(Stage.TRAIN)), going)
    assert found.actions == ()
    assert condition(found, "Progressing")[:2] == ("False", "Ending")


def test_pod_of_a_job_deleted_by_hand_is_waited_for() -> None:
    """A Job deleted in the background is gone before its pods are."""
    stray = builders.pod(of=builders.job(Stage.TRAIN), main=builders.running(), deleting=True)
    found = planned(builders.started(), kept(*builders.before(Stage.TRAIN)), stray)
    assert found.actions == ()
    assert found.requeue_after_s is not None
    assert condition(found, "Progressing")[1] == "Ending"


def test_killed_pod_is_replaced_with_the_same_configuration() -> None:
    """Case 33: a pod is the same in every attempt, and finds what the last one left on the workspace."""
    first = planned(builders.started(), kept(*builders.before(Stage.TRAIN)))
    again = builders.record(*builders.before(Stage.TRAIN), started_at=builders.at(-600))
    again = again.with_stage(stage=Stage.TRAIN, attempts=1, retired=("old-job",), spent_s=900)
    second = planned(builders.started(), builders.remembered(again))
    assert second.actions == first.actions


@pytest.mark.parametrize("propagated", ["unscheduled", "preempted"])
def test_lost_node_is_told_apart_from_a_failure(propagated: str) -> None:
    """Cases 34 and 38: waiting for a node says so in the scheduler's words, and preemption is named."""
    job = builders.job(Stage.EXTRACT)
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    waiting = builders.pod("pod-2", of=job, phase="Pending", node="", told=[builders.unscheduled(words)])
    gone = builders.pod("pod-1", of=job, phase="Failed", main=builders.ended(143), told=[builders.preempted()])
    pods = [waiting] if propagated == "unscheduled" else [gone, waiting]
    found = planned(builders.started(), kept(*builders.before(Stage.EXTRACT)), job, *pods)
    status, reason, message = condition(found, "Progressing")
    assert status == "False"
    assert reason == ("Scheduling" if propagated == "unscheduled" else "Disrupted")
    assert words in message
    assert condition(found, "Failed")[0] == "False"


def test_suspended_run_ends_its_pods_and_charges_them() -> None:
    """The memory is written before the Job goes, and the Job stays visible until its pods are gone."""
    job = builders.job(Stage.TRAIN)
    pod = builders.pod(of=job, started_ago_s=100, main=builders.running())
    found = planned(builders.started(suspend=True), kept(*builders.before(Stage.TRAIN)), job, pod)
    assert kinds_of(found) == [("Apply", "ConfigMap"), ("Delete", "Job")]
    apply, delete = found.actions
    assert isinstance(delete, plan.Delete)
    assert delete.propagation == "Foreground"
    assert isinstance(apply, plan.Apply)
    assert results.read(apply.manifest).of(Stage.TRAIN).spent_s == 100
    assert condition(found, "Suspended")[:2] == ("True", "SuspendedByUser")


def test_suspended_run_keeps_a_result_that_just_came() -> None:
    """What is finished is remembered; only the next stage waits."""
    found = planned(
        builders.started(suspend=True), kept(*builders.before(Stage.TRAIN)), *builders.succeeded(Stage.TRAIN)
    )
    assert kinds_of(found) == [("Apply", "ConfigMap")]


def test_suspended_from_the_start_runs_nothing() -> None:
    """Not even the inspection."""
    assert planned(builders.resource(suspend=True)).actions == ()


def test_failed_run_holds_no_node() -> None:
    """The outcome is remembered before its Job is ended."""
    job = builders.job(Stage.TRAIN)
    pod = builders.pod(of=job, started_ago_s=36000, main=builders.running())
    found = planned(builders.started(), kept(*builders.before(Stage.TRAIN)), job, pod)
    assert kinds_of(found) == [("Apply", "ConfigMap"), ("Delete", "Job")]
    assert condition(found, "Failed")[:2] == ("True", "DeadlineExceeded")
    assert [event.reason for event in found.events if event.warning] == ["DeadlineExceeded"]


def finished(ago_s: float) -> dict[str, Any]:
    """Return the memory of a run that completed so long ago."""
    outcome = results.Outcome(reason=conditions.TrainingReason.PUBLISHED, message="done", at=builders.at(-ago_s))
    return kept(*Stage, outcome=outcome)


def test_time_to_live_deletes_exactly_this_job() -> None:
    """The delete carries the UID, so that a namesake made since is never touched."""
    found = planned(builders.started(ttlAfterFinished="1h"), finished(3600))
    assert [(one.name, one.uid) for one in found.actions if isinstance(one, plan.Delete)] == [
        (builders.NAME, builders.UID)
    ]


def test_time_to_live_is_waited_for() -> None:
    """The pass comes back when it is over."""
    found = planned(builders.started(ttlAfterFinished="1h"), finished(600))
    assert found.actions == ()
    assert found.requeue_after_s == 3000


def test_finished_run_stays_without_a_time_to_live() -> None:
    """Nothing is deleted unasked, nothing is looked at again."""
    found = planned(builders.started(), finished(10**7))
    assert (found.actions, found.requeue_after_s) == ((), None)


def test_lost_result_runs_the_stage_again() -> None:
    """The Job goes, and the next pass makes another that finds the work done."""
    job = builders.job(Stage.TRAIN, **builders.complete(ago_s=views.LOST_AFTER_S))
    found = planned(builders.started(), kept(*builders.before(Stage.TRAIN)), job)
    assert kinds_of(found) == [("Apply", "ConfigMap"), ("Delete", "Job")]


def test_unused_configurations_are_swept() -> None:
    """A configuration that no Job mounts goes once the stage's Job is there."""
    left = planned(builders.resource(), now=builders.NOW).actions[0]
    assert isinstance(left, plan.Create)
    job = builders.job(Stage.TRAIN)
    found = planned(
        builders.started(), kept(*builders.before(Stage.TRAIN)), builders.stored(left.manifest, uid="left"), job
    )
    assert [one.uid for one in found.actions if isinstance(one, plan.Delete)] == ["left"]


def test_spec_of_another_version_is_refused_not_crashed_on() -> None:
    """Case 83: one resource is told so, the others are not held up."""
    broken = builders.resource(target={"uri": "ftp://x"})
    found = planned(broken)
    assert found.actions == ()
    assert condition(found, "Accepted")[:2] == ("False", "InvalidSpec")


def test_foreign_job_with_our_name_is_not_ours() -> None:
    """It is neither counted nor deleted; the executor refuses to adopt it."""
    foreign = builders.job(Stage.INSPECT)
    foreign["metadata"]["ownerReferences"][0]["uid"] = "somebody"
    assert kinds_of(planned(builders.resource(), foreign)) == [("Create", "ConfigMap"), ("Create", "Job")]


def test_progress_of_the_running_pod_is_told() -> None:
    """Stage, percent, time left and a sentence."""
    job = builders.job(Stage.TRAIN)
    pod = builders.pod(of=job, main=builders.running())
    said = stages.LiveProgress(stage="Train", percent=41, eta_s=600, message="epoch 5 of 10")
    found = planned(
        builders.started(), kept(*builders.before(Stage.TRAIN)), job, pod, live={pod["metadata"]["uid"]: said}
    )
    assert found.status is not None
    assert found.status["progress"] == {"stage": "Train", "percent": 41, "eta": "10m", "message": "epoch 5 of 10"}


def test_names_of_jobs_differ_by_run_not_by_attempt() -> None:
    """A run made anew under the same name never meets the Jobs of the old one."""
    owner, other = builders.resource(), builders.resource()
    other["metadata"]["uid"] = "another"
    digest = "sha256:" + "0" * 64
    names = {observe.job_name(one, Stage.TRAIN, digest) for one in (owner, other, builders.started())}
    assert len(names) == 2
