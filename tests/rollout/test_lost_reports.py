"""A Job that is over and its pod are told by separate watches: what the pod said is waited for, not missed."""

import copy

import pytest

from paceline.api.measurement import RolloutRecord
from paceline.planning import kinds
from paceline.planning import view as views
from paceline.planning.plan import Plan
from paceline.rollout.documents import workloads
from rollout import builders
from rollout.cluster import Cluster, Picture
from rollout.reading import history


def over(cluster: Cluster, part: str) -> str:
    """Run until a Job of this part is over and nobody has looked at it since; return its name."""
    for _ in range(60):
        cluster.operate()
        cluster.play()
        for job in cluster.objects(kinds.JOB):
            if job["metadata"]["labels"]["paceline.dev/part"] == part and job.get("status"):
                return str(job["metadata"]["name"])
    raise AssertionError(f"no {part} ended")


def without_pods_of(cluster: Cluster, job: str) -> Picture:
    """Return what is seen before the watch of pods tells how a Job's pod ended: it runs, as far as is known."""
    seen = cluster.picture()
    store = copy.deepcopy(dict(seen.store))
    for (kind, _), one in store.items():
        if kind == "Pod" and one["metadata"]["ownerReferences"][0]["name"] == job:
            one["status"] = {"phase": "Running"}
    return Picture(store=store)


def planned(cluster: Cluster, seen: Picture) -> Plan:
    """Return the plan for a picture."""
    found = cluster.room.reconcile(seen, cluster.key, cluster.now)
    assert found is not None
    return found


def record(cluster: Cluster) -> RolloutRecord:
    """Return the newest record."""
    return history(cluster).stored[-1].record


def measuring() -> tuple[Cluster, str]:
    """Return a cluster whose first probe is over, and the name of its Job."""
    cluster = Cluster(builders.deployment())
    return cluster, over(cluster, workloads.PROBE)


def test_probe_whose_pod_is_told_later_has_not_failed() -> None:
    """Three such moments in a row were taken for three failures, and a candidate that nobody had judged was refused."""
    cluster, job = measuring()
    late = planned(cluster, without_pods_of(cluster, job))
    assert late.actions == ()
    assert late.requeue_after_s is not None
    assert late.requeue_after_s <= 15.0
    cluster.operate()
    assert (record(cluster).rounds, record(cluster).probe_failures) == (1, 0)


def test_probe_whose_pod_was_deleted_has_failed_in_the_end() -> None:
    """Somebody has collected it before its report was read."""
    cluster, job = measuring()
    unseen = without_pods_of(cluster, job)
    cluster.now += views.LOST_AFTER_S
    cluster.run(planned(cluster, unseen))
    assert (record(cluster).rounds, record(cluster).probe_failures) == (0, 1)
    assert "brought no report" in record(cluster).message


@pytest.mark.parametrize("late_s", [0.0, views.LOST_AFTER_S - 31.0])
def test_inspection_whose_pod_is_told_later_is_not_read_again(late_s: float) -> None:
    """Else ten minutes would pass before the files are read once more."""
    cluster = Cluster(builders.deployment())
    job = over(cluster, workloads.INSPECT)
    unseen = without_pods_of(cluster, job)
    cluster.now += late_s
    assert planned(cluster, unseen).actions == ()
    cluster.settle()
    assert len(history(cluster).decided) == 2
