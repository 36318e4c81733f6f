"""The projection: what people read."""

import pytest

from paceline.api import stages
from paceline.api.drafttrainingjob import Stage
from paceline.planning import plan
from paceline.training import room
from training import builders


def status_of(*objects: plan.Manifest, live: dict[str, stages.LiveProgress] | None = None) -> plan.Plan:
    """Return the plan for these objects."""
    found = room.Training().reconcile(builders.FakeView(*objects, live=live), builders.KEY, builders.NOW)
    assert found is not None
    return found


def in_training(stored: dict[str, object] | None, said: stages.LiveProgress | None) -> dict[str, object] | None:
    """Return the progress that a run in Train tells, given what is stored and what its pod says."""
    job = builders.job(Stage.TRAIN)
    pod = builders.pod(of=job, main=builders.running())
    owner = builders.resource(status={"startTime": builders.at(-600), **({"progress": stored} if stored else {})})
    memory = builders.remembered(builders.record(*builders.before(Stage.TRAIN), started_at=builders.at(-600)))
    live = {pod["metadata"]["uid"]: said} if said else {}
    found = status_of(owner, memory, job, pod, live=live)
    assert found.status is not None
    return found.status.get("progress")  # type: ignore[no-any-return]


STORED = {"stage": "Train", "percent": 40, "eta": "10m", "message": "epoch 4 of 10"}


@pytest.mark.parametrize(
    ("percent", "eta_s", "written"),
    [(40, 590, False), (40, 500, False), (40, 400, True), (41, 600, True), (40, None, True)],
)
def test_progress_is_written_only_when_it_moves(percent: int, eta_s: int | None, *, written: bool) -> None:
    """Whole percents, and an estimate that is off by a fifth: less is not worth a write."""
    said = stages.LiveProgress(stage="Train", percent=percent, eta_s=eta_s, message="step 7 of 9")
    assert (in_training(STORED, said) != STORED) is written


def test_progress_is_kept_while_a_pod_says_nothing() -> None:
    """A poll that failed once does not set a run back to nothing."""
    assert in_training(STORED, None) == STORED


def test_progress_of_the_last_stage_is_dropped() -> None:
    """The next stage starts at its own beginning."""
    assert in_training({**STORED, "stage": "Extract"}, None) is None


def test_answer_of_another_stage_is_not_believed() -> None:
    """A pod's address may have passed to another pod between two polls."""
    assert in_training(None, stages.LiveProgress(stage="Extract", percent=99)) is None


def test_extract_says_what_it_will_need_before_it_runs() -> None:
    """Tokens times bytes a token, on which claim."""
    memory = builders.remembered(builders.record(Stage.INSPECT, Stage.PREPARE, started_at=builders.at(-600)))
    found = status_of(builders.started(), memory)
    assert found.status is not None
    extract = next(one for one in found.status["stages"] if one["name"] == "Extract")
    assert extract["message"] == "Hidden states take about 20.1 GB on claim work: 350000 tokens of 57344 bytes."


def test_retry_says_what_it_is_for() -> None:
    """The last failure is told while the next pod works."""
    job = builders.job(Stage.TRAIN, failed=1)
    first = builders.pod("pod-1", of=job, phase="Failed", main=builders.ended(1, message="boom"))
    second = builders.pod("pod-2", of=job, main=builders.running())
    memory = builders.remembered(builders.record(*builders.before(Stage.TRAIN), started_at=builders.at(-600)))
    found = status_of(builders.started(), memory, job, first, second)
    assert found.status is not None
    train = next(one for one in found.status["stages"] if one["name"] == "Train")
    assert (train["state"], train["attempts"]) == ("Running", 2)
    assert train["message"] == "Pod pod-1 failed: exit code 1; its log ends: boom"


def test_events_tell_transitions_and_no_greetings() -> None:
    """A new job says that it is being inspected; that it has not failed is no news."""
    assert {event.reason for event in status_of(builders.resource()).events} == {"Inspecting"}


def test_unreadable_spec_keeps_what_was_known() -> None:
    """The rest of the status stays for people to read."""
    broken = builders.resource(status={"phase": "Running", "conditions": []}, target={"uri": "ftp://x"})
    found = status_of(broken)
    assert found.status is not None
    assert found.status["phase"] == "Running"
