"""Who comes before whom in the ledger: what is promised already, and to whom."""

from typing import Any

from capacity import builders as devices
from paceline.api import names
from paceline.capacity import forecast, ledger, precedence
from paceline.planning import fleet, kinds
from rollout import builders
from rollout.cluster import Picture

ENGINE = {"containers": [{"name": "engine", "resources": {"limits": {devices.GPU: "8"}}}]}
TEMPLATE = {"spec": ENGINE}
PLACE = precedence.Place(record_uid="mine", resource_version="20")


def stored(owner: str, version: str, *, asked: bool, count: int = 1, **wish: Any) -> dict[str, Any]:
    """Return the record of a resource that claims pods of a revision which no watch has shown yet."""
    claim = ledger.document({builders.sha(owner): ledger.Wish(count=count, pod_spec=ENGINE, asked=asked, **wish)})
    reference = {"kind": "SpeculativeDeployment", "name": owner, "uid": f"uid-of-{owner}", "controller": True}
    meta = {"name": owner, "namespace": builders.NAMESPACE, "uid": owner, "resourceVersion": version}
    meta |= {"labels": ledger.labels(claim), "annotations": ledger.annotations(claim), "ownerReferences": [reference]}
    return {"kind": "ConfigMap", "metadata": meta}


def pod_of(owner: str, name: str = "candidate", part: str = "server") -> dict[str, Any]:
    """Return a pod of that revision."""
    pod = devices.pod(name, on="gpu-1")
    pod["metadata"]["labels"] = labels_of(owner, part)
    return pod


def labels_of(owner: str, part: str = "server") -> dict[str, str]:
    """Return the labels of that revision's Deployment and pods."""
    return {
        names.LABEL_DEPLOYMENT: owner,
        names.LABEL_PART: part,
        names.LABEL_REVISION: names.short(builders.sha(owner)),
    }


def deployment_of(owner: str, replicas: int, **status: Any) -> dict[str, Any]:
    """Return that revision's Deployment."""
    meta = {"name": f"{owner}-server", "namespace": builders.NAMESPACE, "labels": labels_of(owner)}
    spec = {"replicas": replicas, "template": TEMPLATE}
    return {"kind": "Deployment", "metadata": meta, "spec": spec, "status": status}


def seen(*objects: dict[str, Any], **told: Any) -> Picture:
    """Return what the watches show."""
    return Picture(store={(one["kind"], one["metadata"]["name"]): one for one in objects}, **told)


def promised(*objects: dict[str, Any], pods: list[dict[str, Any]] | None = None) -> list[forecast.Claim]:
    """Return what comes before a record of version 20."""
    return list(precedence.stand(seen(*objects), world(pods), PLACE).promised)


def counts(*objects: dict[str, Any], pods: list[dict[str, Any]] | None = None) -> list[int]:
    """Return how many pods of 8 GPUs that are, claim by claim."""
    return [one.count for one in promised(*objects, pods=pods)]


def world(pods: list[dict[str, Any]] | None = None) -> fleet.Fleet:
    """Return one free node."""
    return devices.world([devices.node("gpu-1")], pods or [])


def test_who_asked_earlier_comes_first_and_who_asked_later_does_not() -> None:
    """So one of two always yields, whoever's pass is faster."""
    assert counts(stored("a", "19", asked=True)) == [1]
    assert counts(stored("b", "21", asked=True)) == []


def test_what_was_granted_counts_however_late_it_was_written() -> None:
    """Its pods may be made at any moment; that its revision was not seen yet changes nothing."""
    found = promised(stored("a", "99", asked=False))
    assert [(one.count, one.requests) for one in found] == [(1, {devices.GPU: 8})]
    assert not forecast.forecast(world(), found, forecast.Claim.of(ENGINE, 1)).is_enough


def test_pod_that_exists_is_promised_no_second_time() -> None:
    """It is among those that hold or wait for devices."""
    assert counts(stored("a", "19", asked=False, count=2), pods=[pod_of("a")]) == [1]


def test_measuring_copy_and_server_of_one_revision_are_two_claims() -> None:
    """Pods are told apart by their part: a server that exists is no copy."""
    copy = stored("a", "19", asked=False, part="copy")
    assert counts(copy, pods=[pod_of("a")]) == [1]
    assert counts(copy, pods=[pod_of("a", part="copy")]) == []


def test_replicas_asked_for_beyond_those_an_arm_has_are_a_claim_of_their_own() -> None:
    """The pods that the arm has, or was promised, are not taken for those that it asks for."""
    more = stored("a", "19", asked=True, beside=1)
    assert counts(more) == [1]
    assert counts(more, pods=[pod_of("a")]) == [1]
    assert counts(more, pods=[pod_of("a"), pod_of("a", "second")]) == []


def test_pods_that_a_deployment_is_about_to_make_are_promised() -> None:
    """A decided rollout claims nothing any more, and a node may just have taken a pod of stable with it."""
    assert counts(deployment_of("a", 3), pods=[pod_of("a")]) == [2]
    assert counts(deployment_of("a", 1), pods=[pod_of("a")]) == []


def test_deployment_and_the_record_that_claims_its_pods_are_counted_once() -> None:
    """The higher of the two stands: a Deployment grows a moment after its record."""
    assert counts(stored("a", "19", asked=False, count=3), deployment_of("a", 1), pods=[pod_of("a")]) == [2]
    assert counts(stored("a", "19", asked=False, count=1), deployment_of("a", 3), pods=[pod_of("a")]) == [2]


def test_deployment_that_a_quota_keeps_from_pods_holds_nothing_back() -> None:
    """Else a node would stay empty for as long as the quota stands."""
    stuck = deployment_of("a", 2, conditions=[{"type": "ReplicaFailure", "status": "True"}])
    assert counts(stuck) == []


def test_nothing_is_granted_before_the_slowest_watch_has_told() -> None:
    """Each namespace may have a watch of its own: they tell in order, one by one, and not all together."""
    assert precedence.stand(seen(), world(), PLACE).is_whole
    assert precedence.stand(seen(told={kinds.CONFIG_MAP: 20}), world(), PLACE).is_whole
    assert not precedence.stand(seen(told={kinds.CONFIG_MAP: 19}), world(), PLACE).is_whole


def test_own_claim_and_a_spoiled_one_are_left_out() -> None:
    """What a hand has written wrongly is left to the scheduler."""
    spoiled = stored("a", "19", asked=False)
    spoiled["metadata"]["annotations"] = {names.ANNOTATION_CLAIM: '{"x": 3}'}
    assert promised(stored("mine", "20", asked=True), spoiled) == []


def test_own_claim_is_told_apart_by_whether_it_was_granted() -> None:
    """A measuring copy finds no room on the node that its own rollout's candidate was promised."""
    granted = precedence.stand(seen(stored("mine", "20", asked=False)), world(), PLACE)
    assert ([one.count for one in granted.own], granted.has_asked) == ([1], False)
    asking = precedence.stand(seen(stored("mine", "20", asked=True)), world(), PLACE)
    assert (asking.own, asking.has_asked) == ((), True)


def test_claim_of_an_older_version_counts_as_its_label_says() -> None:
    """It has no word of its own for what is only asked."""
    older = stored("a", "21", asked=False)
    older["metadata"]["labels"] = {names.LABEL_CLAIM: ledger.ASKED}
    assert counts(older) == []


def test_training_job_counts_until_its_pod_is_there_and_not_while_a_queue_holds_it() -> None:
    """A stage's pod is about to be made; a suspended Job waits for its queue."""
    job = {
        "kind": "Job",
        "metadata": {"name": "train", "namespace": builders.NAMESPACE, "labels": {names.LABEL_CLAIM: "granted"}},
        "spec": {"template": TEMPLATE, "parallelism": 1},
    }
    pod = devices.pod("train-0")
    pod["metadata"]["labels"] = {"batch.kubernetes.io/job-name": "train"}

    assert [one.requests for one in promised(job)] == [{devices.GPU: 8}]
    assert promised(job, pods=[pod]) == []
    assert promised({**job, "spec": {**job["spec"], "suspend": True}}) == []


def test_stage_that_was_granted_counts_until_its_job_speaks_for_it() -> None:
    """The record is written before the Job; from then on the Job tells if its pod is there, or a queue holds it."""
    granted = stored("a", "19", asked=False, job="train")
    suspended = {
        "kind": "Job",
        "metadata": {"name": "train", "namespace": builders.NAMESPACE, "labels": {names.LABEL_CLAIM: "granted"}},
        "spec": {"template": TEMPLATE, "parallelism": 1, "suspend": True},
    }
    assert counts(granted) == [1]
    assert counts(granted, suspended) == []
