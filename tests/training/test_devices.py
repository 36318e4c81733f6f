"""A stage that needs devices asks for them in the ledger that rollouts ask in, and takes nothing they were promised."""

from typing import Any

import pytest

from capacity import builders as devices
from paceline.api import names
from paceline.api.drafttrainingjob import Stage
from paceline.capacity import ledger, precedence
from paceline.planning import fleet, plan
from paceline.training import room
from training import builders

SERVER = {"containers": [{"name": "engine", "resources": {"limits": {devices.GPU: "8"}}}]}


def world(*gpus: int, pods: tuple[dict[str, Any], ...] = ()) -> fleet.Fleet:
    """Return nodes that would take the stages' pods."""
    nodes = [devices.node(f"gpu-{at}", count, labels={"gpu": "h200"}) for at, count in enumerate(gpus, start=1)]
    return devices.world(nodes, list(pods))


def rollout(version: str, *, asked: bool) -> dict[str, Any]:
    """Return the record of a rollout that claims a whole node."""
    claim = ledger.document({builders.DIGEST: ledger.Wish(count=1, pod_spec=SERVER, asked=asked)})
    meta = {"name": "rollout", "namespace": builders.NAMESPACE, "uid": "rollout", "resourceVersion": version}
    meta |= {"labels": ledger.labels(claim), "annotations": ledger.annotations(claim)}
    return {"kind": "ConfigMap", "metadata": meta}


def begins(stage: Stage, *others: plan.Manifest, of: fleet.Fleet | None, kept: Any = None, **spec: Any) -> plan.Plan:
    """Return the plan of a run whose next stage is this one."""
    owner = builders.started(**spec)
    remembered = kept or builders.remembered(builders.record(*builders.before(stage), started_at=builders.at(-600)))
    view = builders.FakeView(owner, remembered, *others, devices=of)
    found = room.Training().reconcile(view, builders.KEY, builders.NOW)
    assert found is not None
    return found


def asking(stage: Stage) -> dict[str, Any]:
    """Return the record of a run that has asked for this stage's devices, at version 7."""
    first = begins(stage, of=world(8)).actions[0]
    assert isinstance(first, plan.Apply)
    return builders.stored(first.manifest, uid="record-uid")


def claim_in(found: plan.Plan) -> str | None:
    """Return what the record that a plan writes says of its claim; None when it claims nothing."""
    written = [one.manifest for one in found.actions if not isinstance(one, plan.Delete)]
    record = next(one for one in written if one["metadata"]["labels"][names.LABEL_PART] == "results")
    label: str | None = record["metadata"]["labels"].get(names.LABEL_CLAIM)
    return label


def made(found: plan.Plan) -> list[str]:
    """Return the kinds of a plan's writes."""
    return [one.manifest["kind"] for one in found.actions if not isinstance(one, plan.Delete)]


def reason(found: plan.Plan) -> tuple[str, str]:
    """Return reason and message of condition Progressing."""
    assert found.status is not None
    told = next(one for one in found.status["conditions"] if one["type"] == "Progressing")
    return told["reason"], told["message"]


def test_stage_with_devices_asks_before_its_job_is_made() -> None:
    """Its claim stands in the record, where later ones see it."""
    found = begins(Stage.TRAIN, of=world(8))
    assert made(found) == ["ConfigMap"]
    assert claim_in(found) == ledger.ASKED
    assert reason(found) == ("InsufficientGPU", "Stage Train waits: its devices are asked for.")


def test_free_node_is_granted_in_the_write_before_the_job() -> None:
    """A crash between the two leaves the place to this run."""
    found = begins(Stage.TRAIN, of=world(8), kept=asking(Stage.TRAIN))
    assert made(found) == ["ConfigMap", "ConfigMap", "Job"]
    assert claim_in(found) == ledger.GRANTED
    record = found.actions[0]
    assert isinstance(record, plan.Apply)
    assert record.resource_version == "7"


@pytest.mark.parametrize(("version", "asked"), [("99", False), ("6", True)], ids=["granted", "asked earlier"])
def test_what_a_rollout_was_promised_is_left_to_it(version: str, *, asked: bool) -> None:
    """The stage waits, with its reason, and goes on when another node is free."""
    promise = rollout(version, asked=asked)
    found = begins(Stage.TRAIN, promise, of=world(8), kept=asking(Stage.TRAIN))
    assert found.actions == ()
    told = "Stage Train waits: it needs 1 nvidia.com/gpu on one node, and what is free was promised to others before."
    assert reason(found) == ("InsufficientGPU", told)
    assert found.requeue_after_s is not None
    assert "Job" in made(begins(Stage.TRAIN, promise, of=world(8, 8), kept=asking(Stage.TRAIN)))


def test_rollout_that_asked_later_waits_for_the_stage() -> None:
    """Who asks later comes later, of whichever kind."""
    later = rollout("8", asked=True)
    assert "Job" in made(begins(Stage.TRAIN, later, of=world(8), kept=asking(Stage.TRAIN)))
    place = precedence.Place(record_uid="rollout", resource_version="8")
    before = precedence.stand(builders.FakeView(later, asking(Stage.TRAIN)), world(8), place).promised
    assert [(one.count, one.requests) for one in before] == [(1, {devices.GPU: 1})]


def test_full_cluster_is_the_schedulers_to_judge() -> None:
    """Nothing promised is in the way: the pod waits in the scheduler's queue, where an autoscaler finds it."""
    full = world(8, pods=(devices.pod("other", on="gpu-1"),))
    assert "Job" in made(begins(Stage.TRAIN, of=full, kept=asking(Stage.TRAIN)))


def test_stage_with_an_engine_asks_for_what_the_engine_takes() -> None:
    """Extract computes in its sidecar, on a whole node."""
    waiting = begins(Stage.EXTRACT, rollout("99", asked=False), of=world(8), kept=asking(Stage.EXTRACT))
    assert "it needs 8 nvidia.com/gpu on one node" in reason(waiting)[1]


@pytest.mark.parametrize(
    ("stage", "visible", "spec"),
    [
        (Stage.PUBLISH, True, {}),
        (Stage.TRAIN, False, {}),
        (Stage.TRAIN, True, {"queue": {"localQueue": "gpus"}}),
    ],
    ids=["no devices", "nodes are not to be seen", "a queue decides"],
)
def test_nobody_is_asked_where_there_is_nothing_to_ask(stage: Stage, *, visible: bool, spec: dict[str, Any]) -> None:
    """The Job is made at once, with a rollout's promise in the way or without."""
    found = begins(stage, rollout("6", asked=False), of=world(8) if visible else None, **spec)
    assert made(found)[-1] == "Job"
    assert reason(found)[0] != "InsufficientGPU"


def test_place_is_kept_until_the_stage_has_its_result() -> None:
    """Between two pods, or two Jobs of one stage, nobody else is granted it; the settled pass writes nothing."""
    granted = begins(Stage.TRAIN, of=world(8), kept=asking(Stage.TRAIN)).actions[0]
    assert isinstance(granted, plan.Apply)
    kept = builders.stored(granted.manifest, uid="record-uid")
    assert begins(Stage.TRAIN, builders.job(Stage.TRAIN), of=world(8), kept=kept).actions == ()
    assert made(begins(Stage.TRAIN, rollout("6", asked=False), of=world(8), kept=kept)) == ["ConfigMap", "Job"]


def test_next_stage_asks_in_the_write_that_keeps_the_result() -> None:
    """No pass lies between two stages in which the run has no claim and asks for none."""
    granted = begins(Stage.TRAIN, of=world(8), kept=asking(Stage.TRAIN)).actions[0]
    assert isinstance(granted, plan.Apply)
    kept = builders.stored(granted.manifest, uid="record-uid")
    found = begins(Stage.TRAIN, *builders.succeeded(Stage.TRAIN), of=world(8), kept=kept)
    assert claim_in(found) == ledger.ASKED
    assert made(found) == ["ConfigMap"]


def test_suspended_run_lets_its_place_go() -> None:
    """It asks anew when it is resumed."""
    found = begins(Stage.TRAIN, of=world(8), kept=asking(Stage.TRAIN), suspend=True)
    assert claim_in(found) is None
