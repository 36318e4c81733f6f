"""Why candidates do not serve, and what that leaves."""

import dataclasses

import pytest

from paceline.api import stages
from paceline.api.measurement import BlockOutcome, Decision
from paceline.planning import conditions, kinds
from rollout import builders
from rollout.cluster import Cluster
from rollout.reading import history

NO_GPU = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def rolled_back(cluster: Cluster) -> str:
    """Return the reason for which the candidate was rolled back, after checking what is left."""
    cluster.settle(seconds=60, quiet_s=4200)
    last = history(cluster).stored[-1].record
    assert last.decision is Decision.REJECTED
    assert cluster.serving() == "None"
    assert cluster.servers() == ["None"]
    assert cluster.objects(kinds.JOB) == []
    return last.reason


def contaminate(cluster: Cluster, outcome: BlockOutcome) -> None:
    """Make every block of the probe unusable."""
    measure = cluster.measure

    def spoilt(config):
        told = measure(config)
        blocks = [one.model_copy(update={"outcome": outcome, "drafts": 0}) for one in told.measurements]
        return told.model_copy(update={"measurements": blocks, "error": "all blocks are unusable"})

    cluster.measure = spoilt


@pytest.mark.parametrize(("speed", "reason"), [(0.8, "SlowerThanControl"), (1.0, "NoGain"), (1.01, "NoGain")])
def test_candidate_that_gains_too_little_is_rolled_back(speed: float, reason: str) -> None:
    """No gain is not worth a draft."""
    cluster = Cluster(builders.deployment(rollout=builders.rollout(maxRounds=20, minGainPercent=5)))
    cluster.speeds["EAGLE3 k=3"] = speed
    assert rolled_back(cluster) == reason


def test_dead_draft_is_rejected_after_one_round() -> None:
    """Nothing accepted in a whole round is not slow, it is broken."""
    cluster = Cluster()
    cluster.acceptance["EAGLE3 k=3"] = 0.0
    cluster.speeds["EAGLE3 k=3"] = 1.5
    assert rolled_back(cluster) == "DeadDraft"
    assert history(cluster).stored[-1].record.rounds == 1


def test_head_that_does_not_load_is_rolled_back() -> None:
    """A crash loop ends the rollout, with the engine's last words."""
    cluster = Cluster()
    cluster.crashing = {"EAGLE3 k=3"}
    assert rolled_back(cluster) == "HeadLoadFailed"
    assert "layer 78 weights missing" in history(cluster).stored[-1].record.message


def test_candidate_without_gpus_is_rolled_back() -> None:
    """It never waits for ever, and stable serves all the time."""
    cluster = Cluster(builders.deployment(rollout={**builders.rollout(), "onInsufficientGPU": "Reject"}))
    cluster.unschedulable["EAGLE3 k=3"] = NO_GPU
    assert rolled_back(cluster) == "NoFreeGPU"
    assert cluster.condition("Progressing")["reason"] == "NoFreeGPU"


def test_probe_that_fails_three_times_is_inconclusive() -> None:
    """Three pods without a measurement end it; what the last one said is told."""
    cluster = Cluster()
    cluster.probe_error = "prompts.jsonl is empty"
    assert rolled_back(cluster) == "Inconclusive"
    assert "prompts.jsonl is empty" in history(cluster).stored[-1].record.message


@pytest.mark.parametrize("outcome", [BlockOutcome.CONTAMINATED, BlockOutcome.SCRAPE_ERROR, BlockOutcome.NO_TOKENS])
def test_unusable_blocks_are_inconclusive(outcome: BlockOutcome) -> None:
    """Blocks that may not be used are neither success nor failure."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    contaminate(cluster, outcome)
    assert rolled_back(cluster) == "Inconclusive"
    assert history(cluster).stored[-1].record.rounds == 10


def test_probe_that_hangs_meets_the_deadline() -> None:
    """The analysis deadline ends what never answers."""
    cluster = Cluster()
    play = cluster._play_job
    cluster._play_job = lambda job: None if "probe" in job["metadata"]["name"] else play(job)
    assert rolled_back(cluster) == "AnalysisDeadlineExceeded"
    assert "rollout.deadlines.analysis" in history(cluster).stored[-1].record.message


def test_inconclusive_candidate_is_held_when_asked() -> None:
    """onInconclusive: Hold leaves the decision to people, and the arms up."""
    policy = {**builders.rollout(), "onInconclusive": "Hold"}
    cluster = Cluster(builders.deployment(rollout=policy))
    contaminate(cluster, BlockOutcome.CONTAMINATED)
    cluster.settle()
    assert cluster.condition("Progressing")["reason"] == "Held"
    assert cluster.servers() == ["EAGLE3 k=3", "None"]
    assert cluster.objects(kinds.JOB) == []
    cluster.annotate(promote=history(cluster).stored[-1].record.candidate[7:15])
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"


def test_held_candidate_that_nobody_decides_gives_its_gpus_back() -> None:
    """A person's time is bounded as well: GPUs are held for rollout.deadlines.held and no longer."""
    policy = {**builders.rollout(), "onInconclusive": "Hold", "deadlines": {"held": "2h"}}
    cluster = Cluster(builders.deployment(rollout=policy))
    contaminate(cluster, BlockOutcome.CONTAMINATED)
    cluster.settle(seconds=120, quiet_s=3 * 3600)
    assert history(cluster).stored[-1].record.reason == "HeldDeadlineExceeded"
    assert cluster.condition("Progressing")["reason"] == "HeldDeadlineExceeded"
    assert cluster.servers() == ["None"]


@pytest.mark.parametrize(("heard", "reason"), [(True, "WarmUpDeadlineExceeded"), (False, "AnalysisDeadlineExceeded")])
def test_arms_that_do_not_answer_the_first_probe_meet_the_warm_up_deadline(heard: bool, reason: str) -> None:  # noqa: FBT001 - a table's column
    """Only what the probe said counts: one that was never heard may be measuring all the same."""
    cluster = Cluster()
    play, picture = cluster._play_job, cluster.picture

    def hang(job: dict) -> None:
        if "probe" not in job["metadata"]["name"]:
            play(job)
            return
        pods = [pod for pod in cluster.objects(kinds.POD) if job["metadata"]["name"] in pod["metadata"]["name"]]
        if not pods:
            play(job)
        for pod in pods:
            at = conditions.timestamp(cluster.now)
            told = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
            if not pod.get("status"):
                cluster._put({**pod, "status": {"phase": "Running", "conditions": [told]}})

    def seen(age: int = 0):
        taken = picture(age)
        probes = [pod["metadata"]["uid"] for pod in cluster.objects(kinds.POD) if "probe" in pod["metadata"]["name"]]
        said = stages.LiveProgress(stage="Probe", percent=0)
        return dataclasses.replace(taken, heard=dict.fromkeys(probes, said) if heard else {})

    cluster._play_job, cluster.picture = hang, seen
    assert rolled_back(cluster) == reason


def test_first_server_without_a_node_keeps_waiting() -> None:
    """With nothing else to serve it is told that the wait is over, but the pods stay and may still find a node."""
    cluster = Cluster()
    cluster.unschedulable["None"] = NO_GPU
    cluster.settle(seconds=120, quiet_s=4200)
    told = cluster.condition("Progressing")
    assert (told["status"], told["reason"]) == ("False", "SchedulingDeadlineExceeded")
    assert "Insufficient nvidia.com/gpu" in told["message"]
    cluster.unschedulable.clear()
    cluster.settle()
    assert cluster.serving() == "None"


def test_lost_probe_pod_is_a_failed_try() -> None:
    """A report that was collected before it was read is measured again."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    report, lost = cluster._report, []

    def once(job):
        if "probe" in job["metadata"]["name"] and not lost:
            lost.append(job)
            return "", True
        return report(job)

    cluster._report = once
    cluster.settle()
    assert lost
    assert cluster.serving() == "EAGLE3 k=3"


def test_verdict_holds_for_the_workload_it_was_measured_on() -> None:
    """Other prompts or bands are another question, asked once; the first answer still stands when they come back."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 0.8
    rolled_back(cluster)
    cluster.edit(rollout=builders.rollout(concurrencies=[1]))
    rolled_back(cluster)
    assert [one.record.decision for one in history(cluster).stored[1:]] == [Decision.REJECTED] * 2
    cluster.edit(rollout=builders.rollout())
    cluster.settle()
    cluster.edit(rollout=builders.rollout(concurrencies=[1]))
    cluster.settle()
    assert len(history(cluster).stored) == 3


def test_head_that_does_not_load_is_refused_on_every_workload() -> None:
    """Other prompts do not mend it."""
    cluster = Cluster()
    cluster.crashing = {"EAGLE3 k=3"}
    rolled_back(cluster)
    cluster.edit(rollout=builders.rollout(concurrencies=[1]))
    cluster.settle()
    assert len(history(cluster).stored) == 2
    assert cluster.condition("Progressing")["reason"] == "HeadLoadFailed"


def rounds(cluster: Cluster) -> tuple[int, int]:
    """Return how often measuring began anew, and how many rounds were measured since."""
    records = [one.record for one in history(cluster).stored]
    return (records[-1].measured_anew, records[-1].rounds) if records else (0, 0)


def test_workload_that_is_edited_in_mid_rollout_is_measured_anew() -> None:
    """Blocks of two workloads never make one verdict, and the servers are not loaded again."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.until(lambda: rounds(cluster) == (0, 1))
    made = [one["metadata"]["uid"] for one in cluster.objects(kinds.DEPLOYMENT)]
    cluster.edit(rollout=builders.rollout(concurrencies=[2]))
    cluster.until(lambda: rounds(cluster) == (1, 1))
    record = history(cluster).stored[-1].record
    assert {one.concurrency for one in record.measurements} == {2}
    assert [one["metadata"]["uid"] for one in cluster.objects(kinds.DEPLOYMENT)] == made
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"
    assert len(history(cluster).stored) == 2
