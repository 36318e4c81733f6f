"""The deadline over the time that pods ran."""

from paceline.api.conditions import TrainingReason
from paceline.api.drafttrainingjob import Stage
from paceline.planning import plan
from paceline.training import deadline, observe, results
from training import builders

HOUR = 3600


def judged(*objects: plan.Manifest, kept: results.Record, **spec: str) -> results.Record:
    """Return the record after the deadline was looked at."""
    owner = builders.started(**spec)
    seen = observe.observe(builders.FakeView(owner, builders.remembered(kept), *objects), owner)
    return deadline.judge(seen, seen.record, builders.NOW)


def in_training(spent_s: int) -> results.Record:
    """Return the record of a run in Train whose earlier pods ran so long."""
    done = builders.record(*builders.before(Stage.TRAIN), started_at=builders.at(-600))
    return done.with_stage(stage=Stage.EXTRACT, spent_s=spent_s)


def test_time_of_all_stages_and_of_the_running_pod_counts() -> None:
    """Nine hours before and one hour now make ten."""
    job = builders.job(Stage.TRAIN)
    pod = builders.pod(of=job, started_ago_s=HOUR, main=builders.running())
    almost = builders.pod(of=job, started_ago_s=HOUR - 1, main=builders.running())
    assert judged(job, almost, kept=in_training(9 * HOUR)).outcome is None
    ended = judged(job, pod, kept=in_training(9 * HOUR)).outcome
    assert ended is not None
    assert ended.reason is TrainingReason.DEADLINE_EXCEEDED
    assert ended.stage is Stage.TRAIN


def test_job_that_waits_for_a_node_never_exceeds_it() -> None:
    """The Job is old, but its pod never had a node."""
    job = builders.job(Stage.TRAIN, startTime=builders.at(-100 * HOUR))
    assert judged(job, builders.pod(of=job, phase="Pending", node=""), kept=in_training(0)).outcome is None


def test_ended_pod_is_charged_in_the_same_write() -> None:
    """Once deleted it could not be, and the run would seem to have time left."""
    job = builders.job(Stage.TRAIN)
    record = judged(job, builders.pod(of=job, started_ago_s=10 * HOUR, main=builders.running()), kept=in_training(0))
    assert record.of(Stage.TRAIN).spent_s == 10 * HOUR
    assert judged(kept=record).outcome is not None


def test_raised_deadline_lets_the_run_go_on() -> None:
    """What the deadline ended is kept on the workspace."""
    ended = judged(kept=in_training(10 * HOUR))
    assert ended.outcome is not None
    assert judged(kept=ended, activeDeadline="11h").outcome is None


def test_other_failures_are_not_lifted_by_time_left() -> None:
    """Only its own outcome is the deadline's to take back."""
    lost = results.Outcome(reason=TrainingReason.STAGE_FAILED, message="no", at=builders.at(-5), stage=Stage.TRAIN)
    kept = in_training(0).model_copy(update={"outcome": lost})
    assert judged(kept=kept).outcome == lost
