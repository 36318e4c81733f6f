"""Public reports of servers that did not come up, or took others down, as inputs; the right outcome is ours.

Each test names its report. What other rooms answer for is not here: the real scheduler's full nodes, traffic to
endpoints that do not exist, and requests lost while pods end have tests on the control plane.
"""

import copy

import pytest

from paceline.api import names
from paceline.api.measurement import Decision
from paceline.planning import conditions, kinds, view
from rollout import builders
from rollout.cluster import Cluster
from rollout.reading import history

TITLE = "EAGLE3 k=3"


def pods(cluster: Cluster, title: str = TITLE) -> list[dict]:
    """Return a revision's pods."""
    labelled = [one for one in cluster.objects(kinds.POD) if names.LABEL_REVISION in one["metadata"]["labels"]]
    return [one for one in labelled if cluster.title(one["metadata"]["labels"][names.LABEL_REVISION]) == title]


def candidate(**spec: object) -> Cluster:
    """Return a cluster whose candidate has just got its first pod."""
    cluster = Cluster(builders.deployment(**spec))
    cluster.speeds[TITLE] = 1.5
    cluster.until(lambda: bool(pods(cluster)))
    return cluster


def frozen(cluster: Cluster, status: dict) -> None:
    """Hold the candidate's pods in a state, whatever a kubelet would make of them."""
    play = cluster._server_status

    def held(title: str, pod: dict) -> dict:
        if title != TITLE:
            return play(title, pod)
        at = (pod.get("status") or {}).get("conditions", [{}])[0].get("lastTransitionTime")
        told = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at or conditions.timestamp(cluster.now)}
        return {"phase": "Pending", "conditions": [told], **status}

    cluster._server_status = held


def waiting(reason: str, *, restarts: int = 0, ended: dict | None = None) -> dict:
    """Return a container that waits."""
    container = {"name": "engine", "restartCount": restarts, "state": {"waiting": {"reason": reason}}}
    return {"containerStatuses": [container | ({"lastState": {"terminated": ended}} if ended else {})]}


def test_full_node_does_not_hold_a_rollout_for_ever() -> None:
    """defilantech/LLMKube#192: the new pod stayed Pending; here the wait ends, and the old pod serves all along."""
    cluster = candidate(rollout={**builders.rollout(), "deadlines": {"capacity": "1h"}})
    cluster.unschedulable[TITLE] = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    for pod in pods(cluster):
        cluster.remove(kinds.POD, pod["metadata"]["name"])
    cluster.settle(seconds=60, quiet_s=4200)
    assert cluster.serving() == "None"
    assert cluster.servers() == ["None"]
    assert history(cluster).last.decision is Decision.REJECTED


@pytest.mark.parametrize("replicas", [1, 3])
def test_children_name_their_strategy(replicas: int) -> None:
    """ai-runway/airunway#400: defaults round to a surge of one and nothing unavailable, which a full node never has."""
    cluster = candidate(replicas=replicas)
    assert {one["spec"]["strategy"]["type"] for one in cluster.objects(kinds.DEPLOYMENT)} == {"Recreate"}


def test_memory_of_the_terminating_revision_is_not_the_new_ones_fault() -> None:
    """knative-extensions/serving-progressive-rollout#204: CUDA OOM until the old pod had given the GPU back."""
    cluster = candidate()
    (old,) = pods(cluster, "None")
    (new,) = pods(cluster)
    ending = copy.deepcopy(old)
    ending["metadata"] |= {"name": "old", "uid": "old", "deletionTimestamp": conditions.timestamp(cluster.now)}
    for pod in (ending, new):
        cluster.put({**pod, "spec": {**pod["spec"], "nodeName": "node-1"}})
    cluster.crashing, cluster.last_words = {TITLE}, "torch.OutOfMemoryError: CUDA out of memory."
    for _ in range(3):
        cluster.operate()
        cluster.play(20)
    cluster.remove(kinds.POD, "old")
    cluster.crashing.clear()
    cluster.settle()
    assert cluster.serving() == TITLE


def test_quota_is_shown() -> None:
    """knative-extensions/serving-progressive-rollout#203: no pod may be made, and nobody says why."""
    cluster = candidate()
    revision = pods(cluster)[0]["metadata"]["labels"][names.LABEL_REVISION]
    deployments = cluster.objects(kinds.DEPLOYMENT)
    (made,) = [one for one in deployments if one["metadata"]["labels"][names.LABEL_REVISION] == revision]
    for pod in pods(cluster):
        cluster.remove(kinds.POD, pod["metadata"]["name"])
    cluster._play_deployment = lambda _deployment: None
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: requests.nvidia.com/gpu=8"}
    cluster.put({**made, "status": {"conditions": [failure]}})
    cluster.operate()
    assert "exceeded quota" in cluster.condition("Progressing")["message"]
    assert cluster.serving() == "None"


def test_volume_of_another_node_is_told_and_not_waited_for_for_ever() -> None:
    """vllm-project/production-stack#107: a ReadWriteOnce model cache, and an arm on another node."""
    cluster = candidate()
    frozen(cluster, waiting("ContainerCreating"))
    said = 'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node'
    cluster.play()
    (pod,) = pods(cluster)
    cluster.warned = {pod["metadata"]["uid"]: (view.Warned(reason="FailedAttachVolume", message=said),)}
    (poll,) = [one for one in cluster.room.polled(cluster.picture(), cluster.key) if one.wants == "events"]
    assert f"involvedObject.uid%3D{pod['metadata']['uid']}" in poll.url
    cluster.operate()
    told = cluster.condition("Progressing")
    assert told["reason"] == "VolumeUnavailable"
    assert "ReadWriteOnce" in told["message"]
    cluster.settle(seconds=60, quiet_s=2000)
    assert cluster.condition("Progressing")["reason"] == "StartingDeadlineExceeded"
    assert history(cluster).last.reason == "VolumeUnavailable"
    assert cluster.serving() == "None"


def test_shared_memory_that_filled_up_over_time_asks_for_a_new_pod() -> None:
    """llm-d/llm-d#352: a restart in place keeps the emptyDir, and what leaked into it."""
    cluster = candidate()
    cluster.crashing = {TITLE}
    cluster.last_words = "Error while creating shared memory segment /dev/shm/nccl-a (size 9637888)"
    cluster.settle()
    assert "delete its pod" in history(cluster).last.message


def test_crash_loop_does_not_reset_the_deadline() -> None:
    """fluxcd/flagger#1578: a canary in CrashLoopBackOff was waited for through every restart."""
    cluster = candidate()
    died = {"exitCode": 0, "reason": "Completed", "finishedAt": conditions.timestamp(cluster.now)}
    frozen(cluster, waiting("CrashLoopBackOff", restarts=1, ended=died))
    since = cluster.now
    cluster.until(lambda: history(cluster).open is None, seconds=60)
    assert cluster.now - since <= 1800 + 120
    assert cluster.condition("Progressing")["reason"] == "LoadingDeadlineExceeded"


def test_image_that_would_run_as_root_is_told() -> None:
    """llm-d/llm-d-benchmark#37: the container is never made; Kubernetes' own words are shown."""
    cluster = candidate()
    status = waiting("CreateContainerConfigError")
    said = "container has runAsNonRoot and image will run as root"
    status["containerStatuses"][0]["state"]["waiting"]["message"] = said
    frozen(cluster, status)
    cluster.play()
    cluster.operate()
    assert said in cluster.condition("Progressing")["message"]


def test_first_deploy_with_a_bad_head_ends_serving() -> None:
    """argoproj/argo-rollouts#841 and others: what cannot start must not keep the rest from serving."""
    cluster = Cluster()
    cluster.crashing = {TITLE}
    cluster.settle()
    assert cluster.serving() == "None"
    assert cluster.condition("Available")["status"] == "True"


def test_new_revision_repairs_a_stable_that_crashes() -> None:
    """argoproj/argo-rollouts#841: a forward rollout must not wait for a stable that cannot start."""
    cluster = candidate()
    cluster.settle()
    assert cluster.serving() == TITLE
    cluster.crashing = {TITLE, "None"}
    for pod in cluster.objects(kinds.POD):
        cluster.remove(kinds.POD, pod["metadata"]["name"])
    cluster.play()
    cluster.speeds["EAGLE3 k=5"] = 1.4
    cluster.edit(speculation=builders.eagle3(k=5))
    cluster.until(lambda: "EAGLE3 k=5" in cluster.servers())
    cluster.crashing = {TITLE}
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=5"


def test_mtp_that_never_accepts_is_dead_and_not_slow() -> None:
    """sgl-project/sglang#35797, vllm-project/vllm#35548: 339 of 339 lines said an acceptance length of 1.000."""
    cluster = Cluster(builders.deployment(speculation={"method": "MTP", "numSpeculativeTokens": 1}))
    cluster.acceptance["MTP k=1"] = 0.0
    cluster.speeds["MTP k=1"] = 1.5
    cluster.settle()
    assert history(cluster).last.reason == "DeadDraft"
    assert cluster.serving() == "None"


def test_good_acceptance_does_not_save_a_slow_head() -> None:
    """The stored note on Kimi-K2.5 (vllm PR 35966): acceptance 0.55, and 0.93 of the baseline's throughput."""
    cluster = Cluster()
    cluster.acceptance[TITLE], cluster.speeds[TITLE] = 1.65, 0.93
    cluster.settle()
    assert history(cluster).last.reason in {"SlowerThanControl", "NoGain", "BandBelowFloor"}
    assert cluster.serving() == "None"
