"""The rendered stages: who is in the pod, what it mounts, what it asks of the node."""

import json
from typing import Any

import pytest

from paceline.api import stages
from paceline.api.drafttrainingjob import Stage
from paceline.training import jobs, observe
from training import builders

WITH_ENGINE = {Stage.PREPARE, Stage.EXTRACT, Stage.EVALUATE}


def rendered(stage: Stage, **spec: Any) -> jobs.Rendered:
    """Return a stage's objects, given the results of all stages before it."""
    owner = builders.started(**spec)
    return jobs.render(
        observe.observe(builders.FakeView(owner), owner), builders.record(*builders.before(stage)), stage
    )


def pod_of(stage: Stage, **spec: Any) -> dict[str, Any]:
    """Return a stage's pod spec."""
    found: dict[str, Any] = rendered(stage, **spec).job["spec"]["template"]["spec"]
    return found


def config_of(stage: Stage, **spec: Any) -> dict[str, Any]:
    """Return what a stage is told."""
    found: dict[str, Any] = json.loads(rendered(stage, **spec).config_map["data"]["stage.json"])
    return found


def mounts(container: dict[str, Any]) -> dict[str, bool]:
    """Return a container's claims as path: read-only."""
    found = container["volumeMounts"]
    return {one["mountPath"]: one["readOnly"] for one in found if one["mountPath"].startswith("/mnt/")}


@pytest.mark.parametrize("stage", list(Stage))
def test_configuration_is_what_the_stage_program_reads(stage: Stage) -> None:
    """Every configuration validates against the model of its stage."""
    model = getattr(stages, f"{stage}Config")
    assert model.model_validate(config_of(stage)).stage == stage.value


@pytest.mark.parametrize("stage", list(Stage))
def test_engine_runs_beside_the_stages_that_ask_it(stage: Stage) -> None:
    """As a native sidecar, which never holds up the Job's end."""
    sidecars = pod_of(stage).get("initContainers", [])
    assert [one["restartPolicy"] for one in sidecars] == (["Always"] if stage in WITH_ENGINE else [])


@pytest.mark.parametrize("stage", list(Stage))
def test_main_container_asks_for_gpus_only_to_train(stage: Stage) -> None:
    """Seven idle hours of a GPU beside its own engine would be paid for nothing."""
    main = pod_of(stage)["containers"][0]
    assert ("nvidia.com/gpu" in main["resources"]["limits"]) is (stage is Stage.TRAIN)
    assert main["resources"]["limits"]["memory"] == "64Gi"


def test_given_answers_need_no_engine() -> None:
    """Without regeneration Prepare is a CPU pod."""
    data = {**builders.SPEC["data"], "regeneration": {"enabled": False}}
    assert "initContainers" not in pod_of(Stage.PREPARE, data=data)
    assert "serverUrl" not in config_of(Stage.PREPARE, data=data)


@pytest.mark.parametrize(
    ("stage", "wanted"),
    [
        (Stage.INSPECT, {"/mnt/paceline/models": True}),
        (Stage.EXTRACT, {"/mnt/paceline/models": True, "/mnt/paceline/work": False}),
        (Stage.PUBLISH, {"/mnt/paceline/models": True, "/mnt/paceline/work": False, "/mnt/paceline/heads": False}),
    ],
)
def test_each_stage_mounts_what_it_needs(stage: Stage, wanted: dict[str, bool]) -> None:
    """The target is never writable, and only Publish sees the output."""
    assert mounts(pod_of(stage)["containers"][0]) == wanted


def test_hidden_states_lie_at_one_path_writable_for_both() -> None:
    """The engine's connector writes where the trainer reads."""
    pod = pod_of(Stage.EXTRACT)
    main, engine = pod["containers"][0], pod["initContainers"][0]
    assert mounts(main)["/mnt/paceline/work"] is mounts(engine)["/mnt/paceline/work"] is False
    transfer = json.loads(engine["command"][engine["command"].index("--kv-transfer-config") + 1])
    path = config_of(Stage.EXTRACT)["hiddenStatesPath"]
    assert path.startswith(f"{builders.WORKSPACE}/")
    assert transfer["kv_connector_extra_config"]["shared_storage_path"] == path


def test_one_user_and_group_for_the_whole_pod() -> None:
    """What one container makes the other may change."""
    engine = {**builders.SPEC["engine"], "podTemplate": {"runAsUser": 2000}}
    context = pod_of(Stage.EXTRACT, engine=engine)["securityContext"]
    assert (context["runAsUser"], context["fsGroup"]) == (2000, 2000)


def test_extraction_reads_the_final_norm_too() -> None:
    """The head's layers, and id = number of layers, from which the logits are rebuilt."""
    command = pod_of(Stage.EXTRACT)["initContainers"][0]["command"]
    speculative = json.loads(command[command.index("--speculative-config") + 1])
    layers = speculative["draft_model_config"]["hf_config"]["eagle_aux_hidden_state_layer_ids"]
    assert layers == [2, 30, 58, 61]


def test_evaluation_serves_the_trained_head() -> None:
    """The real engine, the head, and as many tokens as the spec says."""
    command = pod_of(Stage.EVALUATE)["initContainers"][0]["command"]
    assert json.loads(command[command.index("--speculative-config") + 1]) == {
        "method": "eagle3",
        "model": f"{builders.WORKSPACE}/heads/10",
        "num_speculative_tokens": 3,
    }
    assert config_of(Stage.EVALUATE)["headPath"] == f"{builders.WORKSPACE}/heads/10"


def test_pod_with_an_engine_goes_where_the_engine_may_run() -> None:
    """Node selector, tolerations and shared memory are the engine's; a CPU stage has none of them."""
    extract, inspect = pod_of(Stage.EXTRACT), pod_of(Stage.INSPECT)
    assert extract["nodeSelector"] == {"gpu": "h200"}
    assert any(volume.get("emptyDir", {}).get("sizeLimit") == "16Gi" for volume in extract["volumes"])
    assert "nodeSelector" not in inspect


def test_prompts_of_a_config_map_are_mounted_in_prepare_alone() -> None:
    """The key becomes the file that the configuration names."""
    main = pod_of(Stage.PREPARE)["containers"][0]
    assert "/etc/paceline/prompts" in {one["mountPath"] for one in main["volumeMounts"]}
    assert config_of(Stage.PREPARE)["promptsPath"] == "/etc/paceline/prompts/prompts.jsonl"
    assert "/etc/paceline/prompts" not in {
        one["mountPath"] for one in pod_of(Stage.TRAIN)["containers"][0]["volumeMounts"]
    }


def test_prompts_on_a_volume_are_mounted_read_only() -> None:
    """A user's data is never written to."""
    data = {"prompts": {"uri": "pvc://data/chat/all.jsonl"}}
    assert mounts(pod_of(Stage.PREPARE, data=data)["containers"][0])["/mnt/paceline/data"] is True
    assert config_of(Stage.PREPARE, data=data)["promptsPath"] == "/mnt/paceline/data/chat/all.jsonl"


def test_job_fails_at_once_on_what_the_user_must_change() -> None:
    """Exit code 42 of the main container; what the cluster did is ignored; the next pod waits for the last."""
    spec = rendered(Stage.TRAIN).job["spec"]
    assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["FailJob", "Ignore"]
    assert spec["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [42]
    assert (spec["backoffLimit"], spec["podReplacementPolicy"]) == (2, "Failed")
    assert "ttlSecondsAfterFinished" not in spec


def test_queue_is_a_label_of_the_job() -> None:
    """Kueue admits what carries it."""
    labels = rendered(Stage.TRAIN, queue={"localQueue": "research"}).job["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "research"


def test_restricted_pod_mounts_no_token() -> None:
    """Fit for a namespace that enforces the restricted pod security."""
    pod = pod_of(Stage.TRAIN)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["restartPolicy"] == "Never"


def test_engine_of_a_large_target_gets_its_time_to_load() -> None:
    """Case 48: 595 GB took 25 minutes, the budget is well beyond."""
    probe = pod_of(Stage.EXTRACT)["initContainers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > 2 * 25 * 60


def test_longest_names_still_fit() -> None:
    """Case 82: names of 253 characters give distinct children of at most 63."""
    owners = [builders.started(), builders.started()]
    for number, owner in enumerate(owners):
        owner["metadata"]["name"] = f"{'n' * 250}.{number}"
    made = [
        jobs.render(observe.observe(builders.FakeView(one), one), builders.record(Stage.INSPECT), Stage.PREPARE)
        for one in owners
    ]
    names = {one.job["metadata"]["name"] for one in made}
    assert len(names) == 2
    assert max(map(len, names)) <= 63
    assert all(len(value) <= 63 for one in made for value in one.job["metadata"]["labels"].values())
