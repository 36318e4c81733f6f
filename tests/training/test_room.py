"""The room as the controller drives it."""

from paceline.api.drafttrainingjob import Stage
from paceline.planning import view
from paceline.training import room
from training import builders

TRAINING: view.Room = room.Training()


def test_pod_leads_to_its_training_job() -> None:
    """A pod's controller is a Job, and that one's is ours."""
    job = builders.job(Stage.TRAIN)
    assert TRAINING.dependents(builders.FakeView(job), builders.pod(of=job)) == [builders.KEY]


def test_pod_of_somebody_else_leads_nowhere() -> None:
    """Other pods, and pods whose Job is gone, concern nobody."""
    foreign = builders.job(Stage.TRAIN)
    foreign["metadata"]["ownerReferences"][0]["kind"] = "CronJob"
    assert list(TRAINING.dependents(builders.FakeView(foreign), builders.pod(of=foreign))) == []
    assert list(TRAINING.dependents(builders.FakeView(), builders.pod())) == []
    assert list(TRAINING.dependents(builders.FakeView(), foreign)) == []


def test_running_pod_is_asked_for_its_progress() -> None:
    """Only a pod whose main container runs can answer."""
    job = builders.job(Stage.TRAIN)
    waiting = builders.pod("pod-1", of=job, phase="Pending", node="")
    runs = builders.pod("pod-2", of=job, main=builders.running())
    polls = TRAINING.polled(builders.FakeView(builders.started(), job, waiting, runs), builders.KEY)
    assert list(polls) == [view.PodPoll(pod_uid="uid-of-pod-2", url="http://10.0.0.7:8765/progress", wants="progress")]


def test_nobody_is_asked_for_a_job_that_is_gone_or_unreadable() -> None:
    """Polling decides nothing and raises nothing."""
    assert list(TRAINING.polled(builders.FakeView(), builders.KEY)) == []
    broken = builders.resource(target={"uri": "ftp://x"})
    assert list(TRAINING.polled(builders.FakeView(broken), builders.KEY)) == []
