"""The measuring copy: a verdict under steady traffic, without a request that users would feel."""

import json

import pytest

from paceline.api import names
from paceline.api.measurement import CopyState, Decision, ProbeConfig
from paceline.planning import kinds, plan
from paceline.rollout.documents import workloads
from rollout import builders
from rollout.cluster import Cluster
from rollout.reading import history

NO_ROOM = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def served(**analysis) -> Cluster:
    """Return a cluster whose users are on the baseline when a head is asked for, which is half as fast again."""
    cluster = Cluster(builders.deployment(speculation=builders.none()))
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.settle()
    cluster.users = builders.Users()
    cluster.edit(speculation=builders.eagle3(), rollout=builders.rollout(**analysis))
    return cluster


def copies(cluster: Cluster) -> list[dict]:
    """Return the measuring copies."""
    return [one for one in cluster.objects(kinds.DEPLOYMENT) if one["metadata"]["labels"][names.LABEL_PART] == "copy"]


def configs(cluster: Cluster) -> list[ProbeConfig]:
    """Return what every probe so far was told."""
    made = [one.manifest for one in cluster.writes if isinstance(one, plan.Create)]
    texts = [one["data"]["stage.json"] for one in made if one["kind"] == "ConfigMap" and "stage.json" in one["data"]]
    return [ProbeConfig.model_validate_json(text) for text in texts if json.loads(text)["stage"] == "Probe"]


def test_steady_traffic_does_not_keep_a_faster_candidate_from_promotion() -> None:
    """Stable is measured on a copy; users' own pods are not driven at all, and the copy goes with the rollout."""
    cluster = served()
    cluster.until(lambda: bool(copies(cluster)))
    cluster.until(lambda: bool(configs(cluster)))
    told = cluster.resource["status"]["rollout"]["measuredOn"]
    cluster.settle()
    assert "on a copy that serves nobody" in told
    assert history(cluster).last.decision is Decision.PROMOTED
    assert cluster.serving() == "EAGLE3 k=3"
    assert not any(arm.serves_users for config in configs(cluster) for arm in config.arms)
    assert copies(cluster) == []


def test_copy_is_found_by_no_selector_of_what_serves() -> None:
    """Same revision and template; the front Service, the revision's Deployment and the autoscaler pass it by."""
    cluster = served()
    cluster.until(lambda: bool(copies(cluster)))
    cluster.play()
    copy = copies(cluster)[0]
    labels = copy["spec"]["template"]["metadata"]["labels"]
    assert copy["spec"]["selector"]["matchLabels"].items() <= labels.items()
    short = labels[names.LABEL_REVISION]
    own = next(
        one
        for one in cluster.objects(kinds.DEPLOYMENT)
        if one["metadata"]["labels"][names.LABEL_REVISION] == short and one is not copy
    )
    service = cluster.objects(kinds.SERVICE)[0]
    for selector in (service["spec"]["selector"], own["spec"]["selector"]["matchLabels"]):
        assert not selector.items() <= labels.items()
    assert f"{names.LABEL_PART}={labels[names.LABEL_PART]}" not in cluster.resource["status"]["selector"]
    assert copy["spec"]["template"]["spec"] == own["spec"]["template"]["spec"]
    assert cluster.resource["status"]["replicas"] == 1


def test_no_copy_without_users_or_need() -> None:
    """An idle stable is measured where it stands: a copy costs a node."""
    cluster = served()
    cluster.users = None
    cluster.settle()
    assert history(cluster).last.decision is Decision.PROMOTED
    assert history(cluster).last.measuring_copy is None
    assert any(arm.serves_users for config in configs(cluster) for arm in config.arms)


def test_more_than_a_serving_pod_may_be_given_is_measured_on_a_copy() -> None:
    """A band above maxProbeConcurrency asks for one from the start, users or not."""
    cluster = served(concurrencies=[1, 32])
    cluster.users = None
    cluster.settle()
    assert history(cluster).last.measuring_copy is CopyState.WANTED
    assert {one for config in configs(cluster) for one in config.concurrencies} == {1, 32}
    assert not any(arm.serves_users for config in configs(cluster) for arm in config.arms)


@pytest.mark.parametrize("never", [True, False], ids=["never asked for", "no room"])
def test_serving_pod_is_never_driven_beyond_its_bound(never: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Without a copy only the bands within maxProbeConcurrency are driven, and status says what is left out."""
    cluster = served(concurrencies=[1, 8, 32], **({"measuringCopy": "Never"} if never else {}))
    cluster.users = None
    if not never:
        cluster.unschedulable["None"] = NO_ROOM
    cluster.until(lambda: bool(configs(cluster)))
    told = cluster.resource["status"]["rollout"]["measuredOn"]
    cluster.settle()
    assert {one for config in configs(cluster) for one in config.concurrencies} == {1, 8}
    assert "at most 8 requests in flight" in told
    assert "Concurrencies 32 are left out" in told
    assert ("Insufficient nvidia.com/gpu" in told) is not never
    assert copies(cluster) == []
    assert history(cluster).last.decision is Decision.PROMOTED


def test_traffic_without_room_for_a_copy_gives_no_verdict_and_says_why() -> None:
    """Blocks that users touched are no evidence, so the candidate is not promoted on them."""
    cluster = served(measuringCopy="Never")
    cluster.settle()
    last = history(cluster).last
    assert last.decision is Decision.REJECTED
    assert last.reason == "Inconclusive"
    assert cluster.serving() == "None"


def test_users_who_come_while_measuring_move_it_to_a_copy() -> None:
    """The spoiled round is kept as what it is; the next ones are measured on the copy."""
    cluster = served()
    cluster.users = None
    cluster.until(lambda: bool(configs(cluster)))
    cluster.users = builders.Users()
    cluster.settle()
    last = history(cluster).last
    assert last.decision is Decision.PROMOTED
    assert last.measuring_copy is CopyState.WANTED
    assert {one.outcome.value for one in last.measurements if one.round == 1} == {"Ok", "Contaminated"}
    assert {one.outcome.value for one in last.measurements if one.round > 1} == {"Ok"}


def test_held_rollout_frees_its_copy() -> None:
    """A candidate that nobody decides on keeps no more GPUs than its own."""
    cluster = served(maxRounds=1, minRounds=1, measuringCopy="Always")
    cluster.speeds["EAGLE3 k=3"] = 1.03
    cluster.edit(rollout={**cluster.resource["spec"]["rollout"], "onInconclusive": "Hold"})
    cluster.until(lambda: cluster.condition("Progressing")["reason"] == "Held")
    for _ in range(3):
        cluster.operate()
        cluster.play()
    assert copies(cluster) == []


def test_guard_convicts_under_traffic_that_never_pauses() -> None:
    """Users accept next to nothing of the draft: confirmed on a copy of stable, and taken out of service."""
    cluster = served()
    cluster.users = None
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"
    cluster.users = builders.Users(accepted_a_draft=0.05)
    cluster.until(lambda: cluster.serving() == "None", passes=200)
    last = history(cluster).last
    assert last.reason == "LiveBelowBaseline"
    assert {one.outcome.value for one in last.measurements} == {"Ok"}
    cluster.settle()
    assert copies(cluster) == []


def test_key_of_a_copy_tells_its_revision() -> None:
    """Deployments are kept by key; a copy's is its revision's with a mark."""
    key = workloads.copy_key("1234abcd")
    assert workloads.is_copy(key)
    assert workloads.revision_of(key) == workloads.revision_of("1234abcd") == "1234abcd"
