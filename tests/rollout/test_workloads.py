"""What the rendered objects hold."""

import json

import pytest

from paceline.api import names, stages
from paceline.api.measurement import BUNDLED_PROMPTS
from paceline.api.speculativedeployment import SpeculativeDeploymentSpec
from paceline.planning import kinds
from paceline.rollout import opening
from rollout import builders
from rollout.cluster import Cluster

GPU_POD = {
    "resources": {"limits": {"nvidia.com/gpu": "8"}},
    "nodeSelector": {"gpu": "h200"},
    "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}],
    "sharedMemory": "16Gi",
    "priorityClassName": "serving",
}


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster of a GPU deployment that measures a candidate."""
    engine = {"image": "vllm/vllm-openai:v0.33.0", "tensorParallelSize": 8, "podTemplate": GPU_POD}
    made = Cluster(builders.deployment(engine=engine))
    made.until(lambda: any("probe" in one["metadata"]["name"] for one in made.objects(kinds.JOB)))
    return made


def command(cluster: Cluster, title: str) -> list[str]:
    """Return the command line of a revision's server."""
    found = next(
        one
        for one in cluster.objects(kinds.DEPLOYMENT)
        if cluster.title(one["metadata"]["labels"][names.LABEL_REVISION]) == title
    )
    return found["spec"]["template"]["spec"]["containers"][0]["command"]


def test_candidate_is_told_of_its_head(cluster: Cluster) -> None:
    """The head's folder and the number of tokens reach the engine; the control has neither."""
    told = command(cluster, "EAGLE3 k=3")
    config = json.loads(told[told.index("--speculative-config") + 1])
    assert config == {"method": "eagle3", "model": "/mnt/paceline/models/head", "num_speculative_tokens": 3}
    assert "--speculative-config" not in command(cluster, "None")


def test_arms_differ_only_in_speculation(cluster: Cluster) -> None:
    """Otherwise the comparison would not be of speculation."""
    told = command(cluster, "EAGLE3 k=3")
    at = told.index("--speculative-config")
    assert told[:at] + told[at + 2 :] == command(cluster, "None")


def test_server_has_an_explicit_strategy_and_its_revision_as_selector(cluster: Cluster) -> None:
    """A default surge would wait for GPUs that the old pod holds."""
    for one in cluster.objects(kinds.DEPLOYMENT):
        assert one["spec"]["strategy"] == {"type": "Recreate"}
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert one["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert labels[names.LABEL_REVISION] == one["metadata"]["labels"][names.LABEL_REVISION]


def test_probe_takes_no_gpu_and_no_priority(cluster: Cluster) -> None:
    """It goes where the engine may go, with its secrets, but takes nothing away from it."""
    job = next(one for one in cluster.objects(kinds.JOB) if "probe" in one["metadata"]["name"])
    pod = job["spec"]["template"]["spec"]
    assert "nvidia.com/gpu" not in json.dumps(pod)
    assert "priorityClassName" not in pod
    assert pod["nodeSelector"] == {"gpu": "h200"}
    assert pod["containers"][0]["env"][-1]["name"] == "HF_TOKEN"
    assert job["spec"]["backoffLimit"] == 0


def test_probe_drives_both_arms_by_pod(cluster: Cluster) -> None:
    """Candidate first, by pod address, under the target's own name."""
    document = next(
        one for one in cluster.objects(kinds.CONFIG_MAP) if one["metadata"]["labels"][names.LABEL_PART] == "probe"
    )
    config = json.loads(document["data"]["stage.json"])
    assert [cluster.title(arm["arm"]) for arm in config["arms"]] == ["EAGLE3 k=3", "None"]
    assert all(arm["url"] == "http://10.0.0.1:8000" for arm in config["arms"])
    assert config["model"] == "/mnt/paceline/models/target"
    assert config["promptsPath"] == "/etc/paceline/prompts/prompts.jsonl"


def probing(**analysis: object) -> tuple[dict[str, object], dict[str, object]]:
    """Return what the probe is told, and its pod, for an analysis."""
    made = Cluster(builders.deployment(rollout=builders.rollout(**analysis)))
    made.until(lambda: any("probe" in one["metadata"]["name"] for one in made.objects(kinds.JOB)))
    document = next(
        one for one in made.objects(kinds.CONFIG_MAP) if one["metadata"]["labels"][names.LABEL_PART] == "probe"
    )
    job = next(one for one in made.objects(kinds.JOB) if "probe" in one["metadata"]["name"])
    return json.loads(document["data"]["stage.json"]), job["spec"]["template"]["spec"]


def test_bundled_prompts_need_no_volume() -> None:
    """The probe brings them along."""
    config, pod = probing(prompts={"bundled": "Mix"}, concurrencies=[1])
    assert config["promptsPath"] == BUNDLED_PROMPTS
    assert "prompts" not in json.dumps(pod["volumes"])


def test_bounds_of_length_reach_the_probe() -> None:
    """Bands of length are measured beside those of concurrency."""
    config, _ = probing(promptBounds=[2000, 16000], concurrencies=[1])
    assert config["promptBounds"] == [2000, 16000]


def test_workload_is_the_same_as_before_unless_lengths_are_told_apart() -> None:
    """What older operators measured must still count after an upgrade."""
    plain = SpeculativeDeploymentSpec.model_validate(builders.spec())
    analysis = plain.rollout.analysis
    assert opening.workload(plain) == names.digest(
        {
            "prompts": {"configMap": {"name": "prompts", "key": "prompts.jsonl"}},
            "concurrencies": analysis.concurrencies,
            "maxTokens": analysis.max_tokens,
            "requestsPerSlot": analysis.requests_per_slot,
        }
    )
    bounded = builders.spec(rollout=builders.rollout(promptBounds=[2000]))
    assert opening.workload(SpeculativeDeploymentSpec.model_validate(bounded)) != opening.workload(plain)


@pytest.mark.parametrize("name", ["a", "with.dots.in.it", "x" * 63, "y" * 253], ids=["short", "dots", "63", "253"])
def test_long_names_fit(name: str) -> None:
    """Every name and label value of a child is legal for owners with names of any length."""
    made = Cluster(builders.deployment(name=name))
    made.key = type(made.key)(kind=made.key.kind, namespace=builders.NAMESPACE, name=name)
    planned = made.plan()
    assert planned.actions
    for action in planned.actions:
        meta = action.manifest["metadata"]
        assert len(meta["name"]) <= names.MAX_LABEL
        assert "." not in meta["name"]
        assert all(len(value) <= names.MAX_LABEL for value in meta["labels"].values())


def test_everything_is_owned_and_labelled(cluster: Cluster) -> None:
    """The garbage collector takes all of it along, and the cache sees all of it."""
    ours = {"SpeculativeDeployment", "Pod"}
    for (kind, _), one in cluster.store.items():
        if kind not in ours:
            assert one["metadata"]["ownerReferences"][0]["uid"] == cluster.resource["metadata"]["uid"]
            assert one["metadata"]["labels"][names.LABEL_MANAGED_BY] == "paceline"


def test_schedule_and_draft_model_reach_the_engine() -> None:
    """Steps become ranges that follow one another from 1."""
    speculation = {
        "method": "DraftModel",
        "draft": {"uri": "pvc://models/small"},
        "draftTensorParallelSize": 1,
        "numSpeculativeTokens": 5,
        "schedule": [{"upToConcurrency": 64, "tokens": 0}, {"upToConcurrency": 8, "tokens": 5}],
    }
    cluster = Cluster(builders.deployment(speculation=speculation))
    title = "DraftModel k=5,0"
    cluster.until(lambda: title in cluster.servers())
    told = command(cluster, title)
    assert json.loads(told[told.index("--speculative-config") + 1]) == {
        "method": "draft_model",
        "model": "/mnt/paceline/models/small",
        "num_speculative_tokens": 5,
        "draft_tensor_parallel_size": 1,
        "num_speculative_tokens_per_batch_size": [[1, 8, 5], [9, 64, 0]],
    }


def test_server_is_ready_once_it_has_completed_something(cluster: Cluster) -> None:
    """Candidates and baselines alike; liveness only begins after that, with the budget of the load."""
    for one in cluster.objects(kinds.DEPLOYMENT):
        (container,) = one["spec"]["template"]["spec"]["containers"]
        startup = container["startupProbe"]
        assert startup["exec"]["command"][:2] == ["python3", "-c"]
        assert startup["failureThreshold"] * startup["periodSeconds"] == 1800
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_load_of_a_large_target_is_not_killed() -> None:
    """595 GB take 25 minutes where things go well, and a hundred on a slow volume: more than the rollout may wait."""
    cluster = Cluster()
    cluster.inspect = lambda _config: stages.StageReport(
        result=builders.inspected().model_copy(update={"weights_bytes": 595_000_000_000})
    )
    cluster.until(lambda: bool(cluster.objects(kinds.DEPLOYMENT)))
    (one,) = cluster.objects(kinds.DEPLOYMENT)
    startup = one["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] >= 900 + 5950


@pytest.mark.parametrize(("asked", "size"), [(None, "16Gi"), ("32Gi", "32Gi")])
def test_several_ranks_have_shared_memory(asked: str | None, size: str) -> None:
    """production-stack#276: 64 MiB are too little for NCCL, and nobody should have to know."""
    template = {"sharedMemory": asked} if asked else {}
    engine = {"image": "vllm/vllm-openai:v0.33.0", "tensorParallelSize": 8, "podTemplate": template}
    cluster = Cluster(builders.deployment(engine=engine))
    cluster.until(lambda: bool(cluster.objects(kinds.DEPLOYMENT)))
    spec = cluster.objects(kinds.DEPLOYMENT)[0]["spec"]["template"]["spec"]
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}} in spec["volumes"]
    assert "shm" in {mount["name"] for mount in spec["containers"][0]["volumeMounts"]}


def test_one_rank_has_no_memory_volume_it_did_not_ask_for(cluster: Cluster) -> None:
    """Inspection and probe pods have none either."""
    single = Cluster(builders.deployment())
    single.until(lambda: bool(single.objects(kinds.DEPLOYMENT)))
    spec = single.objects(kinds.DEPLOYMENT)[0]["spec"]["template"]["spec"]
    assert "shm" not in {volume["name"] for volume in spec["volumes"]}
    for job in cluster.objects(kinds.JOB):
        assert "shm" not in {volume["name"] for volume in job["spec"]["template"]["spec"]["volumes"]}
