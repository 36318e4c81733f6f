"""Target and head are read once, by a Job, and the answer outlives it."""

import pytest

from paceline.api import stages
from paceline.planning import kinds
from rollout import builders
from rollout.cluster import Cluster
from rollout.reading import history


def inspections(cluster: Cluster) -> list[str]:
    """Return the names of inspection Jobs."""
    jobs = cluster.objects(kinds.JOB)
    return [one["metadata"]["name"] for one in jobs if one["metadata"]["labels"]["paceline.dev/part"] == "inspect"]


def unreadable(*, permanent: bool) -> stages.StageReport:
    """Return a report of a source that cannot be read."""
    return stages.StageReport(error="config.json is missing", permanent=permanent)


def test_nothing_is_served_before_the_target_is_read() -> None:
    """The first pass makes a Job and no Deployment."""
    cluster = Cluster()
    cluster.operate()
    assert len(inspections(cluster)) == 1
    assert cluster.servers() == []
    assert cluster.condition("Accepted")["reason"] == "Inspecting"


def test_answer_outlives_the_job() -> None:
    """The Job goes when its answer is stored, and is not made again."""
    cluster = Cluster()
    cluster.settle()
    assert inspections(cluster) == []
    assert cluster.condition("Accepted")["reason"] == "Resolved"


def test_unreadable_source_is_told_and_not_asked_again() -> None:
    """A permanent error ends in a condition, without a retry storm."""
    cluster = Cluster()
    cluster.inspect = lambda _: unreadable(permanent=True)
    cluster.settle(quiet_s=4000, seconds=100)
    told = cluster.condition("Accepted")
    assert (told["status"], told["reason"], told["message"]) == ("False", "SourceUnreadable", "config.json is missing")
    assert inspections(cluster) == []


def test_edit_of_the_source_is_read_anew() -> None:
    """A fixed spec is all it takes."""
    cluster = Cluster()
    cluster.inspect = lambda config: (
        stages.StageReport(result=builders.inspected())
        if config.target.path.endswith("good")
        else unreadable(permanent=True)
    )
    cluster.settle()
    cluster.edit(target={"uri": "pvc://models/good"})
    cluster.settle()
    assert cluster.condition("Accepted")["status"] == "True"
    assert cluster.serving() == "None"


def test_transient_error_is_asked_again_after_a_pause() -> None:
    """A source that was out of reach is found when it is back."""
    cluster = Cluster()
    cluster.inspect = lambda _: unreadable(permanent=False)
    cluster.until(lambda: "status" in cluster.resource and cluster.condition("Accepted")["status"] == "False")
    cluster.inspect = lambda _: stages.StageReport(result=builders.inspected())
    cluster.play(300)
    cluster.operate()
    assert inspections(cluster) == []
    cluster.play(400)
    cluster.until(lambda: cluster.condition("Accepted")["status"] == "True")


@pytest.mark.parametrize("message", ["", "Killed", '{"result": {"stage": "Publish"}}'])
def test_pod_without_a_report_is_an_error(message: str) -> None:
    """What a tenant's pod says is not trusted, and silence is no answer."""
    cluster = Cluster()
    cluster._report = lambda _: (message, True)
    cluster.until(lambda: "status" in cluster.resource and cluster.condition("Accepted")["status"] == "False")
    assert cluster.servers() == []


def test_broken_edit_takes_nothing_out_of_service() -> None:
    """Stable serves on while the spec is wrong, and an open rollout ends."""
    cluster = Cluster(builders.deployment(speculation=builders.none()))
    cluster.settle()
    cluster.inspect = lambda _: unreadable(permanent=True)
    cluster.edit(target={"uri": "pvc://models/broken"})
    cluster.settle()
    assert cluster.serving() == "None"
    assert cluster.condition("Available")["status"] == "True"
    assert history(cluster).open is None
