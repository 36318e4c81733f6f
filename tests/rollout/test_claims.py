"""The ledger of promised devices: of two that ask at once, the later one always sees the earlier one."""

from typing import Any

from capacity import builders as devices
from paceline.api import names
from paceline.api.measurement import RolloutRecord, Seating
from paceline.capacity import forecast
from paceline.planning import conditions, fleet
from paceline.rollout import claims, records
from rollout import builders
from rollout.cluster import Picture

TEMPLATE = {"spec": {"containers": [{"name": "engine", "resources": {"limits": {devices.GPU: "8"}}}]}}
PLACE = claims.Place(record_uid="mine", resource_version="20")


def stored(uid: str, version: str, *, seating: Seating, count: int = 1) -> dict[str, Any]:
    """Return the ConfigMap of another resource's open rollout, whose revision no watch has shown yet."""
    digest = builders.sha(uid)
    record = RolloutRecord(
        number=2,
        candidate=digest,
        stable=builders.sha("stable"),
        workload=builders.sha("workload"),
        started_at=conditions.timestamp(builders.NOW),
        seating=seating,
    )
    owner = {"apiVersion": "paceline.dev/v1alpha1", "kind": "SpeculativeDeployment"}
    owner["metadata"] = {"name": uid, "namespace": builders.NAMESPACE, "uid": f"uid-of-{uid}"}
    claim = claims.document({digest: count}, {digest: TEMPLATE})
    written = records.write(records.Stored(record=record, name=uid), owner=owner, labels={}, claim=claim)
    manifest = dict(written.manifest)
    manifest["metadata"] |= {"uid": uid, "resourceVersion": version}
    return manifest


def promised(*others: dict[str, Any], pods: list[dict[str, Any]] | None = None) -> list[forecast.Claim]:
    """Return what comes before a record of version 20."""
    store = {("ConfigMap", one["metadata"]["name"]): one for one in others}
    return list(claims.promised(Picture(store=store), world(pods), PLACE))


def world(pods: list[dict[str, Any]] | None = None) -> fleet.Fleet:
    """Return one free node."""
    return devices.world([devices.node("gpu-1")], pods or [])


def test_who_asked_earlier_comes_first_and_who_asked_later_does_not() -> None:
    """So one of two always yields, whoever's pass is faster."""
    assert [one.count for one in promised(stored("a", "19", seating=Seating.ASKED))] == [1]
    assert promised(stored("b", "21", seating=Seating.ASKED)) == []


def test_what_was_granted_counts_however_late_it_was_written() -> None:
    """Its pods may be made at any moment; that its revision was not seen yet changes nothing."""
    found = promised(stored("a", "99", seating=Seating.BESIDE))
    assert [(one.count, one.requests) for one in found] == [(1, {devices.GPU: 8})]
    assert not forecast.forecast(world(), found, forecast.Claim.of(TEMPLATE["spec"], 1)).is_enough


def test_pod_that_exists_is_promised_no_second_time() -> None:
    """It is among those that hold or wait for devices."""
    pod = devices.pod("candidate", on="gpu-1")
    pod["metadata"]["labels"] = {
        names.LABEL_DEPLOYMENT: "a",
        names.LABEL_PART: "server",
        names.LABEL_REVISION: names.short(builders.sha("a")),
    }
    assert [one.count for one in promised(stored("a", "19", seating=Seating.BESIDE, count=2), pods=[pod])] == [1]


def test_own_claim_and_a_spoiled_one_are_left_out() -> None:
    """What a hand has written wrongly is left to the scheduler."""
    spoiled = stored("a", "19", seating=Seating.BESIDE)
    spoiled["metadata"]["annotations"] = {names.ANNOTATION_CLAIM: '{"x": 3}'}
    assert promised(stored("mine", "20", seating=Seating.ASKED), spoiled) == []


def test_training_job_counts_until_its_pod_is_there_and_not_while_a_queue_holds_it() -> None:
    """A stage's pod is about to be made; a suspended Job waits for its queue."""
    job = {
        "kind": "Job",
        "metadata": {"name": "train", "namespace": builders.NAMESPACE, "labels": {names.LABEL_CLAIM: "granted"}},
        "spec": {"template": TEMPLATE, "parallelism": 1},
    }
    pod = devices.pod("train-0")
    pod["metadata"]["labels"] = {"batch.kubernetes.io/job-name": "train"}

    def of_jobs(manifest: dict[str, Any], pods: list[dict[str, Any]]) -> list[forecast.Claim]:
        return list(claims.promised(Picture(store={("Job", "train"): manifest}), world(pods), PLACE))

    assert [one.requests for one in of_jobs(job, [])] == [{devices.GPU: 8}]
    assert of_jobs(job, [pod]) == []
    assert of_jobs({**job, "spec": {**job["spec"], "suspend": True}}, []) == []
