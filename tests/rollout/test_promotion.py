"""How a candidate becomes the served revision, and both bars it has to clear."""

import copy

import pytest

from paceline.api import names
from paceline.api.measurement import Decision
from paceline.planning import kinds
from rollout import builders
from rollout.cluster import Cluster
from rollout.reading import history, selected

NEW_ENGINE = {"image": "vllm/vllm-openai:v0.34.0"}


def serving(title: str = "EAGLE3 k=3", **spec) -> Cluster:
    """Return a cluster that serves a promoted head."""
    cluster = Cluster(builders.deployment(**spec))
    cluster.speeds |= {title: 1.5}
    cluster.settle()
    assert cluster.serving() == title
    return cluster


def by_image(cluster: Cluster, speeds: dict[str, float]) -> None:
    """Make revisions as fast as their engine's image says."""
    title = cluster.title

    def titled(short: str) -> str:
        revision = cluster.revision(short)
        return f"{title(short)} {revision.inputs.engine_version}" if revision else "None"

    cluster.title = titled
    cluster.speeds = speeds


def test_baseline_is_recorded_with_its_reason() -> None:
    """The first record says that there was nothing to measure."""
    cluster = Cluster(builders.deployment(speculation=builders.none()))
    cluster.settle()
    first = history(cluster).stored[0].record
    assert (first.number, first.decision, first.reason) == (1, Decision.PROMOTED, "Baseline")
    assert first.serving == first.candidate


def test_record_keeps_what_was_measured() -> None:
    """The evidence holds both arms' blocks at every concurrency, and the decision's figures."""
    record = history(serving()).stored[-1].record
    assert {one.arm for one in record.measurements} == {names.short(record.candidate), names.short(record.control)}
    assert {one.concurrency for one in record.measurements} == {1, 8}
    assert "1.5" in record.message


def test_decision_is_written_before_the_service_flips() -> None:
    """A crash between the two leaves a decision that the next pass follows."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.until(lambda: any("decision" in one for one in _changes(cluster)))
    decision = next(one for one in cluster.plan().actions if _decides(one))
    cluster.execute(decision)
    assert cluster.serving() == "None"
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"


def _changes(cluster: Cluster) -> list[str]:
    """Return what the next pass would do with records that have measurements."""
    return ["decision" for one in cluster.plan().actions if _decides(one)]


def _decides(action: object) -> bool:
    data = getattr(action, "manifest", {}).get("data", {})
    return '"decision":"Promoted"' in data.get("record.json", "") and "measurements" in data["record.json"]


def test_old_revision_drains_after_the_flip() -> None:
    """Streams of users end on their own before their server goes."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.until(lambda: cluster.serving() == "EAGLE3 k=3")
    cluster.operate()
    assert cluster.servers() == ["EAGLE3 k=3", "None"]
    cluster.play(121)
    cluster.operate()
    assert cluster.servers() == ["EAGLE3 k=3"]


def test_candidate_is_measured_on_one_replica_and_served_on_all() -> None:
    """Three replicas are asked for: one is measured, three are ready before users come."""
    cluster = Cluster(builders.deployment(replicas=3))
    cluster.speeds["EAGLE3 k=3"] = 1.5
    sizes: list[tuple[str, int]] = []
    while cluster.serving() != "EAGLE3 k=3":
        cluster.operate()
        for one in cluster.objects(kinds.DEPLOYMENT):
            size = (cluster.title(one["metadata"]["labels"][names.LABEL_REVISION]), one["spec"]["replicas"])
            sizes += [] if size in sizes else [size]
        cluster.play()
    assert sizes == [("None", 3), ("EAGLE3 k=3", 1), ("EAGLE3 k=3", 3)]
    ready = [
        one
        for one in cluster.objects(kinds.POD)
        if one["metadata"]["labels"].get(names.LABEL_REVISION) == selected(cluster)
    ]
    assert len(ready) == 3


def test_replicas_that_do_not_come_cost_the_promotion() -> None:
    """A candidate that won but cannot be given its replicas beside stable's is rolled back with the reason."""
    cluster = Cluster(builders.deployment(replicas=3, rollout={**builders.rollout(), "strategy": "Surge"}))
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.until(lambda: "EAGLE3 k=3" in cluster.servers())
    cluster.operate()
    cluster.play()
    cluster.unschedulable["EAGLE3 k=3"] = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    cluster.settle(seconds=60, quiet_s=4000)
    assert cluster.serving() == "None"
    assert history(cluster).stored[-1].record.reason == "InsufficientGPU"


def test_scaling_alone_makes_no_revision() -> None:
    """A change of spec.replicas scales stable and measures nothing."""
    cluster = serving()
    before = len(history(cluster).stored)
    cluster.edit(replicas=4)
    cluster.settle()
    assert len(history(cluster).stored) == before
    assert cluster.objects(kinds.DEPLOYMENT)[0]["spec"]["replicas"] == 4


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        pytest.param(1.5, "Promoted", id="better than its control and no worse than stable"),
        pytest.param(0.9, "SlowerThanControl", id="slower than its control"),
        pytest.param(1.2, "SlowerThanStable", id="better than its control, worse than stable"),
    ],
)
def test_new_engine_has_to_clear_both_bars(head: float, reason: str) -> None:
    """A new image is measured against its own control and against what serves."""
    cluster = serving()
    by_image(cluster, {"None 0.34.0": 1.0, "EAGLE3 k=3 0.33.0": 1.5, "EAGLE3 k=3 0.34.0": head})
    cluster.edit(engine=NEW_ENGINE)
    cluster.settle()
    record = history(cluster).stored[-1].record
    assert record.reason == reason
    assert len({one.arm for one in record.measurements}) == 3


@pytest.mark.parametrize(("speed", "title"), [(0.99, "None 0.34.0"), (0.8, "None 0.33.0")])
def test_new_engine_without_a_draft_only_has_to_be_no_worse(speed: float, title: str) -> None:
    """It is its own control, so it need not gain anything."""
    cluster = Cluster(builders.deployment(speculation=builders.none()))
    cluster.settle()
    by_image(cluster, {"None 0.33.0": 1.0, "None 0.34.0": speed})
    cluster.edit(engine=NEW_ENGINE)
    cluster.settle()
    assert cluster.serving() == title


def test_broken_stable_does_not_block_what_repairs_it() -> None:
    """A stable that crashes cannot be measured, so the revision that mends it needs only to be ready."""
    cluster = Cluster(builders.deployment(speculation=builders.none()))
    cluster.settle()
    by_image(cluster, {})
    cluster.crashing = {"None 0.33.0"}
    for pod in cluster.objects(kinds.POD):
        cluster.remove(kinds.POD, pod["metadata"]["name"])
    for _ in range(4):
        cluster.play()
    cluster.edit(engine=NEW_ENGINE)
    cluster.settle()
    assert cluster.serving() == "None 0.34.0"


def test_service_waits_for_an_endpoint() -> None:
    """Users are never sent to a revision that has just lost its pods while the old one has some."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.until(lambda: bool(_changes(cluster)))
    cluster.execute(next(one for one in cluster.plan().actions if _decides(one)))
    for pod in cluster.objects(kinds.POD):
        if pod["metadata"]["labels"].get(names.LABEL_REVISION) == names.short(history(cluster).stable):
            cluster.remove(kinds.POD, pod["metadata"]["name"])
    cluster.operate()
    assert cluster.serving() == "None"
    assert cluster.condition("Available")["status"] == "True"
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"


def test_crash_after_every_write_ends_in_the_same_state() -> None:
    """Whichever write is the operator's last, the next one brings the same revision to the front."""
    smooth = serving()
    for survived in range(len(smooth.writes)):
        cluster = Cluster()
        cluster.speeds["EAGLE3 k=3"] = 1.5
        _run_until(cluster, writes=survived)
        cluster.settle()
        assert cluster.serving() == "EAGLE3 k=3"
        assert cluster.servers() == ["EAGLE3 k=3"]
        assert len(history(cluster).stored) == 2


def _run_until(cluster: Cluster, *, writes: int) -> None:
    """Run passes until so many writes were made, and drop the rest of the pass."""
    while len(cluster.writes) < writes:
        left = writes - len(cluster.writes)
        planned = cluster.plan()
        cluster.run(planned, crash_after=min(left, len(planned.actions) + 1))
        cluster.play()


def test_edit_in_mid_rollout_abandons_the_candidate() -> None:
    """The spec has moved on: the record says so, the Deployment goes, the new revision is measured."""
    cluster = Cluster()
    cluster.speeds |= {"EAGLE3 k=3": 1.5, "EAGLE3 k=5": 1.5}
    cluster.until(lambda: "EAGLE3 k=3" in cluster.servers())
    cluster.edit(speculation=builders.eagle3(k=5))
    cluster.settle()
    decisions = [one.record.decision for one in history(cluster).stored]
    assert decisions == [Decision.PROMOTED, Decision.ABORTED, Decision.PROMOTED]
    assert cluster.servers() == ["EAGLE3 k=5"]


def test_revert_in_mid_rollout_settles_on_stable() -> None:
    """Back to what serves: the rollout ends, and nothing else begins."""
    cluster = serving()
    cluster.edit(speculation=builders.eagle3(k=5))
    cluster.until(lambda: "EAGLE3 k=5" in cluster.servers())
    cluster.edit(speculation=builders.eagle3(k=3))
    cluster.settle()
    assert history(cluster).stored[-1].record.decision is Decision.ABORTED
    assert cluster.servers() == ["EAGLE3 k=3"]


def test_rejected_revision_is_not_tried_again() -> None:
    """Coming back to a rejected revision changes nothing, and is told."""
    cluster = Cluster()
    cluster.speeds |= {"EAGLE3 k=3": 0.8, "EAGLE3 k=5": 0.8}
    cluster.settle()
    cluster.edit(speculation=builders.eagle3(k=5))
    cluster.settle()
    cluster.edit(speculation=builders.eagle3(k=3))
    cluster.settle()
    assert len(history(cluster).stored) == 3
    assert cluster.condition("Progressing")["reason"] == "RejectedBefore"


def test_new_operator_version_restarts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A template is rendered once: another rendering today changes no running server."""
    cluster = serving()
    before = copy.deepcopy(cluster.objects(kinds.DEPLOYMENT))
    monkeypatch.setattr("paceline.rollout.documents.workloads.server_template", lambda *_: {"spec": {"new": True}})
    cluster.edit(replicas=2)
    cluster.settle()
    after = cluster.objects(kinds.DEPLOYMENT)
    assert after[0]["spec"]["template"] == before[0]["spec"]["template"]


@pytest.mark.parametrize(("crowd", "decision"), [(0.9, "Promoted"), (0.5, "Rejected")])
def test_candidate_that_loses_in_a_crowd_is_told_of_a_schedule(crowd: float, decision: str) -> None:
    """Whether the whole wins or not, a schedule may win more."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    measure = cluster.measure

    def crowded(config):
        told = measure(config)
        candidate = config.arms[0].arm
        blocks = [
            one.model_copy(update={"output_tokens": round(one.output_tokens * crowd / 1.5)})
            if one.arm == candidate and one.concurrency == 8
            else one
            for one in told.measurements
        ]
        return told.model_copy(update={"measurements": blocks})

    cluster.measure = crowded
    cluster.settle()
    record = history(cluster).stored[-1].record
    assert record.decision == decision
    assert "speculation.schedule [{upToConcurrency: 1, tokens: 3}, {upToConcurrency: 8, tokens: 0}]" in record.message
