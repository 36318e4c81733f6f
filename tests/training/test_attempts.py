"""What is read from a pod's manifest."""

from paceline.training import attempts
from training import builders


def test_pod_without_any_status_is_waiting_and_free() -> None:
    """A pod that was just made has no node, no time and no end."""
    bare = builders.pod(node="", phase="Pending", started_ago_s=None)
    bare["status"] = {}
    read = attempts.read(bare)
    assert (read.node, read.started_s, read.ended_s, read.ending, read.engine) == ("", None, None, None, None)
    assert read.ran_s(builders.NOW) == 0.0


def test_time_runs_from_the_node_to_the_last_container() -> None:
    """A pod that is over ran until its last container ended."""
    pod = builders.pod(
        phase="Failed", main=builders.ended(1, ago_s=40), engine=builders.ended(0, ago_s=30), started_ago_s=100
    )
    assert attempts.read(pod).ran_s(builders.NOW) == 70.0


def test_evicted_pod_without_container_statuses_is_over() -> None:
    """Eviction before the first container leaves nothing but a phase."""
    read = attempts.read(builders.pod(phase="Failed", told=[builders.preempted()]))
    assert read.over
    assert read.disruption == "PreemptionByScheduler: preempted to accommodate a higher priority pod"


def test_main_container_ended_beside_a_living_engine_is_not_over() -> None:
    """The pod still holds its node while the sidecar is being stopped."""
    read = attempts.read(builders.pod(main=builders.ended(0), engine={"state": {"running": {}}}))
    assert read.ending is not None
    assert not read.over


def test_image_that_cannot_be_pulled_blocks_and_healthy_waits_do_not() -> None:
    """Only a fault is told."""
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    starting = {"state": {"waiting": {"reason": "PodInitializing"}}}
    assert attempts.read(builders.pod(main=waiting)).blocked == "container stage: ImagePullBackOff: no such image"
    assert attempts.read(builders.pod(main=starting)).blocked is None


def test_engine_that_runs_again_keeps_its_last_ending() -> None:
    """A restarted sidecar says how it ended before."""
    again = {"state": {"running": {}}, "lastState": builders.ended(137, reason="OOMKilled")["state"], "restartCount": 2}
    engine = attempts.read(builders.pod(engine=again)).engine
    assert engine is not None
    assert (engine.restarts, engine.started) == (2, False)
    assert engine.last is not None
    assert engine.last.out_of_memory
