"""What moves from Jobs and pods into the record."""

from paceline.api.drafttrainingjob import Stage
from paceline.planning import plan
from paceline.planning import view as views
from paceline.training import collect, observe, results
from training import builders


def collected(*objects: plan.Manifest, now: float = builders.NOW) -> results.Record:
    """Return the record after a look at these objects, the first of which is the DraftTrainingJob."""
    return collect.collect(observe.observe(builders.FakeView(*objects), objects[0]), now)


def test_result_of_a_complete_job_is_entered_once() -> None:
    """A second look at the same Job changes nothing."""
    owner = builders.started()
    objects = [*builders.succeeded(Stage.INSPECT)]
    first = collected(owner, *objects)
    assert first.inspection == builders.RESULTS[Stage.INSPECT]
    assert collected(owner, *objects, builders.remembered(first)) == first


def test_start_is_remembered_beside_the_status() -> None:
    """A status that is lost later does not set a started run back, nor open its spec to edits for good."""
    kept = builders.remembered(builders.record(Stage.INSPECT))
    assert collected(builders.started(), kept).started_at == builders.at(-600)


def test_pod_that_is_late_in_the_cache_is_waited_for() -> None:
    """A complete Job without its pod has lost nothing yet."""
    job = builders.job(Stage.INSPECT, **builders.complete(ago_s=5))
    assert collected(builders.resource(), job) == results.Record()


def test_pod_still_running_in_the_cache_is_waited_for() -> None:
    """The pod's own watch may lag behind the Job's."""
    job = builders.job(Stage.INSPECT, **builders.complete(ago_s=5))
    assert collected(builders.resource(), job, builders.pod(of=job, main=builders.running())) == results.Record()


def test_result_whose_pod_was_collected_counts_as_lost() -> None:
    """After a minute without its pod the Job will never tell."""
    job = builders.job(Stage.PREPARE, **builders.complete(ago_s=views.LOST_AFTER_S))
    kept = builders.remembered(builders.record(Stage.INSPECT, started_at=builders.at(-600)))
    record = collected(builders.started(), kept, job)
    assert record.of(Stage.PREPARE).losses == 1
    assert record.preparation is None


def test_time_of_a_vanishing_pod_is_charged_once() -> None:
    """A pod that is being deleted takes its time with it, so it is entered while it can be seen."""
    owner, job = builders.started(), builders.job(Stage.TRAIN)
    pod = builders.pod(of=job, started_ago_s=100, deleting=True)
    kept = builders.record(*builders.before(Stage.TRAIN), started_at=builders.at(-600))
    first = collected(owner, builders.remembered(kept), job, pod)
    assert first.of(Stage.TRAIN).spent_s == 100
    later = collected(owner, builders.remembered(first), job, pod, now=builders.NOW + 30)
    assert later.of(Stage.TRAIN).spent_s == 100


def test_inspection_is_free() -> None:
    """What runs before the start is not charged to the deadline."""
    assert collected(builders.resource(), *builders.succeeded(Stage.INSPECT)).of(Stage.INSPECT).spent_s == 0


def test_edit_before_the_start_forgets_the_inspection() -> None:
    """The result was of another target."""
    kept = builders.remembered(builders.record(Stage.INSPECT))
    edited = builders.resource(target={"uri": "pvc://models/kimi-k2"})
    assert collected(edited, kept).inspection is None


def test_inspection_stays_once_the_run_has_started() -> None:
    """A later operator that digests otherwise must not begin the run anew."""
    record = builders.record(Stage.INSPECT, started_at=builders.at(-600))
    kept = record.with_stage(stage=Stage.INSPECT, input_digest="sha256:" + "0" * 64)
    assert collected(builders.started(), builders.remembered(kept)).inspection is not None


def test_lost_memory_is_rebuilt_from_jobs_that_are_still_there() -> None:
    """Without the ConfigMap, finished Jobs and their pods tell all they know, in order."""
    inspect, prepare = builders.succeeded(Stage.INSPECT), builders.succeeded(Stage.PREPARE)
    prepare[0]["metadata"]["uid"] = "job-2"
    prepare[1] = builders.pod(
        "pod-2", of=prepare[0], phase="Succeeded", main=prepare[1]["status"]["containerStatuses"][0]
    )
    record = collected(builders.started(), *inspect, *prepare)
    assert record.current is Stage.EXTRACT


def test_waiting_for_a_node_costs_nothing() -> None:
    """A queue of any length is not charged."""
    job = builders.job(Stage.TRAIN)
    pod = builders.pod(of=job, phase="Pending", node="")
    seen = observe.observe(builders.FakeView(job, pod), builders.started())
    assert collect.spent_s(seen, seen.record, builders.NOW) == 0.0
