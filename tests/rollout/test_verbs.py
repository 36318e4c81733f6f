"""What people ask for by annotation."""

from paceline.api.measurement import Decision, Purpose
from paceline.planning import kinds
from rollout import builders
from rollout.cluster import Cluster
from rollout.reading import history, selected


def measuring(**speeds: float) -> Cluster:
    """Return a cluster in which a candidate's Deployment has just been made."""
    cluster = Cluster()
    cluster.speeds |= {"EAGLE3 k=3": 1.5, **speeds}
    cluster.until(lambda: "EAGLE3 k=3" in cluster.servers())
    return cluster


def candidate(cluster: Cluster) -> str:
    """Return the short hash of the newest rollout's candidate."""
    return history(cluster).stored[-1].record.candidate[7:15]


def test_promote_skips_the_measuring() -> None:
    """A person may decide; the record says who."""
    cluster = measuring(**{"EAGLE3 k=3": 0.8})
    cluster.annotate(promote=candidate(cluster))
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"
    assert history(cluster).stored[-1].record.handled == [f"promote={candidate(cluster)}"]


def test_promote_of_another_revision_does_nothing() -> None:
    """An annotation that a GitOps tool applies again never acts on the next candidate."""
    cluster = measuring(**{"EAGLE3 k=3": 0.8})
    cluster.annotate(promote="00000000")
    cluster.settle()
    assert cluster.serving() == "None"


def test_abort_ends_the_rollout_for_good() -> None:
    """A candidate that was called off is not tried again by itself."""
    cluster = measuring()
    cluster.annotate(abort=candidate(cluster))
    cluster.settle()
    assert history(cluster).stored[-1].record.decision is Decision.ABORTED
    assert cluster.servers() == ["None"]
    assert cluster.condition("Progressing")["reason"] == "Aborted"


def test_retry_measures_once_more() -> None:
    """A rejected revision gets one more try for one annotation, however often that is applied."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 0.8
    cluster.settle()
    cluster.annotate(retry=candidate(cluster))
    cluster.settle()
    assert [one.record.decision for one in history(cluster).stored[1:]] == [Decision.REJECTED] * 2
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.annotate(retry=f"{candidate(cluster)}-2")
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"


def test_undo_brings_back_what_served_before() -> None:
    """The earlier revision is ready before it serves, and the undone one is remembered."""
    cluster = measuring()
    cluster.settle()
    cluster.annotate(undo=selected(cluster))
    cluster.until(lambda: "None" in cluster.servers())
    assert cluster.serving() == "EAGLE3 k=3"
    cluster.settle()
    assert cluster.servers() == ["None"]
    assert history(cluster).stored[-1].record.decision is Decision.REJECTED


def test_undo_that_is_still_annotated_is_never_done_twice() -> None:
    """Not even when the history's limit has taken the record of the undo, and what was undone serves once more."""
    cluster = measuring()
    cluster.edit(revisionHistoryLimit=1)
    cluster.settle()
    short = selected(cluster)
    cluster.annotate(undo=short)
    cluster.settle()
    assert cluster.servers() == ["None"]
    cluster.annotate(undo=short, retry=short)
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"
    assert [one.record.purpose for one in history(cluster).stored] == [Purpose.CANDIDATE]


def test_pause_measures_nothing_and_goes_on_later() -> None:
    """A paused rollout keeps its arms, runs no probe, and its deadlines begin anew."""
    cluster = measuring()
    cluster.annotate(pause=candidate(cluster))
    cluster.settle(seconds=600, quiet_s=20_000)
    assert cluster.condition("Progressing")["reason"] == "Paused"
    assert cluster.servers() == ["EAGLE3 k=3", "None"]
    assert cluster.objects(kinds.JOB) == []
    cluster.annotate()
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"


def test_pause_that_nobody_ends_gives_its_gpus_back() -> None:
    """Past deadlines.held the candidate is rolled back; the annotation that is still there asks for nothing more."""
    cluster = measuring()
    cluster.annotate(pause=candidate(cluster))
    cluster.settle(seconds=3600, quiet_s=30 * 3600)
    ended = history(cluster).stored[-1].record
    assert (ended.decision, ended.reason) == (Decision.REJECTED, "HeldDeadlineExceeded")
    assert cluster.servers() == ["None"]
    cluster.annotate(retry=candidate(cluster))
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"


def test_first_serve_cannot_be_called_off() -> None:
    """There is nothing to go back to."""
    cluster = Cluster(builders.deployment(speculation=builders.none()))
    cluster.until(lambda: bool(cluster.servers()))
    cluster.annotate(abort=candidate(cluster))
    cluster.settle()
    assert cluster.serving() == "None"


def told(cluster: Cluster, **annotations: str) -> str:
    """Return condition Progressing's message once annotations were set and nothing moves."""
    cluster.annotate(**annotations)
    cluster.settle()
    return cluster.condition("Progressing")["message"]


def test_request_that_cannot_be_met_is_told() -> None:
    """Silence would look like success."""
    cluster = Cluster(builders.deployment(speculation=builders.none()))
    cluster.settle()
    stable = selected(cluster)
    assert "nothing served before" in told(cluster, undo=stable)
    assert f"names no revision that serves, which is {stable}" in told(cluster, undo="00000000")
    assert "was not rejected" in told(cluster, retry=stable)
    assert f"does not name the revision that the spec asks for, {stable}" in told(cluster, retry="00000000-2")
    assert "does nothing" not in told(cluster)


def test_request_that_was_met_is_told_no_more() -> None:
    """An annotation may stay where a GitOps tool keeps it."""
    cluster = measuring()
    cluster.settle()
    assert "does nothing" not in told(cluster, undo=selected(cluster))
    assert cluster.serving() == "None"
