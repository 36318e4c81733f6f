"""What is remembered of a pod that ended beside the arms of a rollout."""

import copy

from paceline.api import names
from paceline.planning import conditions, kinds
from rollout.cluster import Cluster
from rollout.reading import history

TITLE = "EAGLE3 k=3"
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def pods(cluster: Cluster, title: str) -> list[dict]:
    """Return the pods of a revision."""
    found = [pod for pod in cluster.objects(kinds.POD) if names.LABEL_REVISION in pod["metadata"]["labels"]]
    return [pod for pod in found if cluster.title(pod["metadata"]["labels"][names.LABEL_REVISION]) == title]


def out_of_memory_beside_a_draining_pod() -> Cluster:
    """Return a cluster whose candidate lacks memory for as long as a pod on its node ends."""
    cluster = Cluster()
    cluster.speeds[TITLE] = 1.5
    cluster.until(lambda: bool(pods(cluster, TITLE)))
    node = {"nodeName": "node-1"}
    (old,) = pods(cluster, "None")
    gone = copy.deepcopy(old)
    gone["metadata"] |= {"name": "old", "uid": "uid-of-old", "deletionTimestamp": conditions.timestamp(cluster.now)}
    cluster.put({**gone, "spec": {**old["spec"], **node}})
    (new,) = pods(cluster, TITLE)
    cluster.put({**new, "spec": {**new["spec"], **node}})
    cluster.crashing = {TITLE}
    cluster.last_words = OUT_OF_MEMORY
    return cluster


def test_candidate_survives_the_memory_of_a_pod_that_ends() -> None:
    """It crashes more often than else allowed, is measured once the other is gone, and is promoted."""
    cluster = out_of_memory_beside_a_draining_pod()
    for _ in range(4):
        cluster.operate()
        cluster.play(30)
    assert history(cluster).open is not None
    assert history(cluster).open.record.draining
    assert "another pod's GPU memory" in cluster.condition("Progressing")["message"]
    cluster.remove(kinds.POD, "old")
    cluster.crashing.clear()
    cluster.settle()
    assert cluster.serving() == TITLE
    assert history(cluster).stored[-1].record.drained_at is not None


def test_candidate_that_lacks_memory_alone_is_rolled_back() -> None:
    """Once nobody else holds the GPU, the next end is its own."""
    cluster = out_of_memory_beside_a_draining_pod()
    for _ in range(4):
        cluster.operate()
        cluster.play(30)
    cluster.remove(kinds.POD, "old")
    cluster.settle()
    assert history(cluster).stored[-1].record.reason == "OutOfMemory"
    assert cluster.serving() == "None"
