"""The status, as people and tools read it."""

import copy
from typing import Any

from paceline.api import stages
from paceline.api.speculativedeployment import SpeculativeDeploymentStatus
from paceline.planning import kinds
from rollout import builders
from rollout.cluster import Cluster, Picture


def promoted() -> Cluster:
    """Return a cluster that serves a promoted head."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.settle()
    return cluster


def test_status_can_be_rebuilt_from_the_world() -> None:
    """A status that was lost comes back, but for the times of transitions."""
    cluster = promoted()
    before = cluster.resource["status"]
    bare = copy.deepcopy(cluster.resource)
    del bare["status"]
    cluster.put(bare)
    cluster.operate()
    after = cluster.resource["status"]
    assert {**after, "conditions": None} == {**before, "conditions": None}
    assert [(one["type"], one["reason"]) for one in after["conditions"]] == [
        (one["type"], one["reason"]) for one in before["conditions"]
    ]


def test_status_is_one_that_the_schema_knows() -> None:
    """Every field survives the model that the CRD is made from."""
    status = promoted().resource["status"]
    assert SpeculativeDeploymentStatus.model_validate(status).wire() == status


def test_scale_counts_the_serving_revision_alone() -> None:
    """An autoscaler must not count, or scale, a candidate."""
    cluster = Cluster(builders.deployment(replicas=2))
    cluster.until(lambda: len(cluster.objects(kinds.DEPLOYMENT)) == 2)
    cluster.play()
    cluster.operate()
    status = cluster.resource["status"]
    assert (status["replicas"], status["readyReplicas"]) == (2, 2)
    assert status["stable"]["hash"] in status["selector"]
    assert status["candidate"]["hash"] not in status["selector"]


def test_comparison_is_told_with_bounds_by_band() -> None:
    """The figures behind a promotion."""
    rollout = promoted().resource["status"]["rollout"]
    compared = rollout["comparisons"][0]
    assert (rollout["phase"], compared["against"], compared["verdict"]) == ("Promoted", "Control", "Pass")
    assert float(compared["lower"]) < float(compared["ratio"]) < float(compared["upper"])
    assert [band["concurrency"] for band in compared["bands"]] == [1, 8]
    assert rollout["acceptanceLength"] == "2.20"


def test_transition_makes_one_event() -> None:
    """A pass that changes nothing tells nothing."""
    cluster = promoted()
    assert cluster.plan().events == ()


def test_rollback_is_a_warning() -> None:
    """People look at warnings."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 0.8
    told = []
    for _ in range(60):
        told += cluster.operate().events
        cluster.play()
    assert [one.reason for one in told if one.warning and one.reason.startswith("Slower")] == ["SlowerThanControl"]


def test_progress_moves_in_steps() -> None:
    """Percent of a running probe shows, without a write for every request."""
    cluster = Cluster()
    shown = set()
    for percent in range(101):
        told = while_probe_says(cluster, percent=percent)
        shown.add((told["phase"], told["percent"]))
    assert shown == {("WarmingUp", 0), ("Measuring", 0), ("Measuring", 5), ("Measuring", 10)}


def test_pause_for_users_is_told_and_over_with_it() -> None:
    """Why nothing moves just now; without a figure that would change with every look."""
    cluster = Cluster(builders.deployment(rollout=builders.rollout(usersTtftLimitMs=250)))
    assert "pauses" not in while_probe_says(cluster, percent=30)["message"]
    paused = while_probe_says(cluster, percent=30, paused=True)
    assert "users wait longer than usersTtftLimitMs (250)" in paused["message"]
    assert paused["phase"] == "Measuring"


def test_round_that_is_over_counts_before_its_report_is_read() -> None:
    """A pod that has ended answers no more; what was shown does not go back to the round's begin."""
    cluster = Cluster()
    assert while_probe_says(cluster, percent=90)["percent"] == 5
    probe_pod(cluster)["status"]["phase"] = "Succeeded"
    assert rollout(cluster, heard={})["percent"] == 10


def while_probe_says(cluster: Cluster, **said: object) -> dict[str, Any]:
    """Return status.rollout while the first probe's pod says something."""
    pod = probe_pod(cluster)
    return rollout(cluster, {pod["metadata"]["uid"]: stages.LiveProgress.model_validate({"stage": "Probe", **said})})


def probe_pod(cluster: Cluster) -> dict[str, Any]:
    """Return the first probe's pod, once there is one."""

    def probes() -> list[dict[str, Any]]:
        return [one for one in cluster.objects(kinds.JOB) if "probe" in one["metadata"]["name"]]

    cluster.until(lambda: bool(probes()))
    name = probes()[0]["metadata"]["name"]
    return next(one for one in cluster.objects(kinds.POD) if name in one["metadata"]["name"])


def rollout(cluster: Cluster, heard: dict[str, stages.LiveProgress]) -> dict[str, Any]:
    """Return status.rollout where pods say this."""
    planned = cluster.room.reconcile(Picture(store=cluster.store, heard=heard), cluster.key, cluster.now)
    assert planned is not None
    assert planned.status is not None
    found: dict[str, Any] = planned.status["rollout"]
    return found


def test_settled_message_says_what_would_change_it() -> None:
    """A refused revision names the remedy."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 0.8
    cluster.settle()
    message = cluster.condition("Progressing")["message"]
    assert "paceline.dev/retry" in message
