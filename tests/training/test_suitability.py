"""What the target's files say before a run starts: no head needed, cannot be trained so, or go on."""

from typing import Any

import pytest

from checkpoints import builders as checkpoints
from paceline.api.conditions import TrainingReason
from paceline.api.drafttrainingjob import Stage
from paceline.checkpoints import head as heads
from paceline.checkpoints import target as targets
from paceline.planning import plan
from paceline.training import jobs, observe, reconcile, results
from training import builders

QWEN, KIMI = "Qwen--Qwen3.5-397B-A17B", "moonshotai--Kimi-K2.5"


def inspected(name: str, *, names: str | None = None, done: tuple[Stage, ...] = (), **changes: Any) -> results.Record:
    """Return the record of a run whose target's files were read, for a spec with ``changes``."""
    weights = checkpoints.index(names) if names else None
    facts = targets.read(checkpoints.config(name), weights=weights)
    result = builders.RESULTS[Stage.INSPECT].model_copy(update={"checkpoint": facts, "layers": facts.layers})
    digest = observe.inspect_digest(observe.DraftTrainingJobSpec.model_validate(builders.spec(**changes)))
    record = results.Record().with_stage(stage=Stage.INSPECT, result=result, input_digest=digest)
    for stage in done:
        record = record.with_stage(stage=stage, result=builders.RESULTS[stage])
    return record


def decide(record: results.Record, *, is_started: bool = False, **changes: Any) -> plan.Plan:
    """Return the plan of one pass over a job with this record."""
    job = (builders.started if is_started else builders.resource)(**changes)
    kept = [] if record == results.Record() else [builders.remembered(record, job)]
    view = builders.FakeView(job, *kept)
    found = reconcile.reconcile(view, builders.KEY, builders.NOW)
    assert found is not None
    return found


def condition(found: plan.Plan, kind: str) -> dict[str, Any]:
    """Return a condition of the status that a pass wrote."""
    return next(one for one in found.status["conditions"] if one["type"] == kind)


def test_target_with_working_mtp_ends_the_run_as_skipped() -> None:
    """Nothing has failed, nothing is spent, and the status says what to do instead."""
    found = decide(inspected(QWEN, names="qwen3.5-with-mtp"))
    assert found.status["phase"] == "Skipped"
    said = condition(found, "Skipped")
    assert (said["status"], said["reason"]) == ("True", "NativeMTP")
    assert "use method MTP" in said["message"]
    assert "trainDespiteMtp" in said["message"]
    assert condition(found, "Failed")["status"] == condition(found, "Complete")["status"] == "False"
    assert not [one for one in found.actions if isinstance(one, plan.Create) and one.manifest["kind"] == "Job"]
    assert "startTime" not in found.status


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        ({}, "Skipped"),
        ({"trainDespiteMtp": True}, "Running"),
        ({"target": {"uri": "pvc://models/other"}}, "Pending"),
    ],
    ids=["untouched", "told-to-train", "another-target"],
)
def test_skipped_run_goes_on_after_an_edit_and_not_by_itself(changes: dict[str, Any], phase: str) -> None:
    """It has not started, so nothing of its spec is fixed."""
    first = decide(inspected(QWEN, names="qwen3.5-with-mtp"))
    (kept,) = [one.manifest for one in first.actions if isinstance(one, plan.Apply | plan.Create)]
    again = decide(results.read(kept), **changes)
    assert again.status["phase"] == phase


@pytest.mark.parametrize(
    ("names", "changes"),
    [
        ("qwen3.5-mtp-partial_fc_only", {}),
        (None, {}),
        ("qwen3.5-with-mtp", {"trainDespiteMtp": True}),
    ],
    ids=["weights-incomplete", "weights-not-seen", "told-to-train"],
)
def test_run_goes_on_where_mtp_is_not_certain_or_not_wanted(names: str | None, changes: dict[str, Any]) -> None:
    """A promise in a configuration stops nobody's training."""
    found = decide(inspected(QWEN, names=names, **changes), **changes)
    assert found.status["phase"] == "Running"
    assert found.status["startTime"]
    assert condition(found, "Skipped")["status"] == "False"


def test_parallelism_that_does_not_divide_is_refused_before_the_start() -> None:
    """With the sizes that do; the spec may still be edited, so nothing has failed."""
    found = decide(inspected("zai-org--GLM-4.7-Flash"))
    said = condition(found, "Accepted")
    assert (said["status"], said["reason"]) == ("False", "TargetUnfit")
    assert "use TP 1, 2, 4 and 5" in said["message"]
    assert condition(found, "Failed")["status"] == "False"
    assert "startTime" not in found.status


def test_engine_that_hands_out_no_hidden_states_is_refused() -> None:
    """Extraction would end in the engine's own error, after the regeneration was paid for."""
    engine = {**builders.SPEC["engine"], "image": "registry.example/vllm:0.17.1"}
    said = condition(decide(inspected(KIMI, engine=engine), engine=engine), "Accepted")
    assert said["message"] == "vLLM 0.17.1 cannot extract hidden states; 0.18 or later is needed to train a head."


def test_hidden_states_beyond_the_volume_are_refused_before_the_start() -> None:
    """By the most that samples and their length allow."""
    data = {"prompts": {**builders.SPEC["data"]["prompts"], "maxSamples": 100_000}, "sequenceLength": 8192}
    workspace = {"claimName": "work", "subPath": "runs", "size": "10Ti"}
    changes = {"data": data, "workspace": workspace}
    said = condition(decide(inspected(KIMI, **changes), **changes), "Accepted")
    assert said["reason"] == "WorkspaceTooSmall"
    assert "need up to 38.5 TiB and workspace claim work (workspace.size) has 10.0 TiB" in said["message"]
    changes["workspace"] = {**workspace, "size": "50Ti"}
    assert decide(inspected(KIMI, **changes), **changes).status["startTime"]


def test_counted_data_beyond_the_volume_fails_before_extraction() -> None:
    """Prompts without a limit are counted by Prepare, and the sum is exact then."""
    workspace = {"claimName": "work", "subPath": "runs", "size": "10Gi"}
    record = inspected(KIMI, done=(Stage.PREPARE,), workspace=workspace)
    found = decide(record, is_started=True, workspace=workspace)
    said = condition(found, "Failed")
    assert (said["status"], said["reason"]) == ("True", "WorkspaceTooSmall")
    assert "need up to 18.7 GiB" in said["message"]


def test_run_that_has_started_is_not_judged_again() -> None:
    """A newer table, or a newer operator, must not stop what goes well."""
    record = inspected("zai-org--GLM-4.7-Flash")
    found = decide(record, is_started=True)
    assert condition(found, "Accepted")["reason"] == TrainingReason.TARGET_READ
    record = inspected(QWEN, names="qwen3.5-with-mtp")
    assert decide(record, is_started=True).status["phase"] == "Running"


def test_files_read_by_an_older_version_are_not_judged() -> None:
    """They have no facts; the run goes on as it did."""
    found = decide(builders.record(Stage.INSPECT))
    assert found.status["startTime"]
    assert "checkpoint" not in found.status


def test_status_tells_what_the_files_say() -> None:
    """For people, in ``kubectl describe``; the estimate is exact once the data is counted."""
    record = inspected(KIMI, names="kimi-k2.5-no-mtp", done=(Stage.PREPARE,))
    told = decide(record, is_started=True).status["checkpoint"]
    assert told["backbone"].startswith("kimi_k2 in text_config, 61 layers, hidden size 7168, vocabulary 163840")
    assert told["mtp"].startswith("not usable: not declared (text_config.num_nextn_predict_layers = 0), weights absent")
    assert (told["decision"], told["choice"]) == ("train-or-reuse-eagle3", "train")
    assert told["tensorParallelSizes"] == [1, 2, 4, 8]
    assert told["estimate"].startswith("Extraction of 350000 tokens writes 18.7 GiB of hidden states")


def test_waits_do_not_change_the_status_of_a_refused_job() -> None:
    """A settled world gets no writes."""
    record = inspected("zai-org--GLM-4.7-Flash")
    first = decide(record)
    job = builders.resource(status=first.status)
    again = reconcile.reconcile(
        builders.FakeView(job, builders.remembered(record, job)), builders.KEY, builders.NOW + 60
    )
    assert again is not None
    assert (again.status, again.actions, again.events) == (first.status, (), ())


def test_bucket_is_refused_before_anything_is_read() -> None:
    """The trainer's tools read volumes and hubs; a SpeculativeDeployment may serve from a bucket."""
    target = {"uri": "s3://bucket/model"}
    found = decide(results.Record(), target=target)
    assert condition(found, "Accepted")["reason"] == "TargetUnfit"
    assert "copy it to a volume" in condition(found, "Accepted")["message"]
    assert not found.actions


def test_secret_is_mounted_into_the_inspection_alone() -> None:
    """By reference: the operator reads no Secret, and no later pod sees this one."""
    target = {"uri": "hf://moonshotai/Kimi-K2.5", "credentialsSecret": "hub"}
    (job,) = [
        one.manifest
        for one in decide(results.Record(), target=target).actions
        if isinstance(one, plan.Create) and one.manifest["kind"] == "Job"
    ]
    volumes = job["spec"]["template"]["spec"]["volumes"]
    assert {"secretName": "hub", "optional": True} in [one.get("secret") for one in volumes]
    record = inspected(KIMI, target=target)
    later = decide(record, is_started=True, target=target)
    assert "secretName" not in str([one.manifest for one in later.actions if isinstance(one, plan.Create)])


LLAMA = "meta-llama--Llama-3.1-8B-Instruct"
TOKENIZERS = ("sha256:" + "1" * 64, "sha256:" + "2" * 64)


def with_start(tokenizers: tuple[str | None, str | None] = (None, None), **head: Any) -> plan.Plan:
    """Return the plan of a Llama's run that is to start from an EAGLE-3 head; ``head`` changes its configuration."""
    changes = {"draft": {"startFrom": {"uri": "hf://organisation/head"}}}
    target = targets.read(checkpoints.config(LLAMA)).model_copy(update={"tokenizer_fingerprint": tokenizers[0]})
    document = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": target.hidden_size,
        "vocab_size": target.vocabulary_size,
        "draft_vocab_size": 32000,
        "num_hidden_layers": 1,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 16, 29]},
        **head,
    }
    facts = heads.read(document, origin=heads.Origin(tokenizer_fingerprint=tokenizers[1]))
    record = inspected(LLAMA, **changes)
    read = record.inspection
    assert read is not None
    layers = {"auxiliary_layers": [2, 16, 29], "hidden_size": target.hidden_size, "layers": target.layers}
    read = read.model_copy(update={"checkpoint": target, "head": facts, **layers})
    return decide(record.with_stage(stage=Stage.INSPECT, result=read), **changes)


def test_siblings_head_is_a_start_with_a_warning() -> None:
    """Its tokens are the target's; status says what training starts from and what is doubted."""
    found = with_start((TOKENIZERS[0], TOKENIZERS[0]), target_model_type="llama4")
    told = found.status["checkpoint"]
    assert found.status["startTime"]
    assert told["choice"] == "warm-start"
    assert told["reasons"][1] == "Training starts from the head at hf://organisation/head."
    (sibling,) = [one for one in told["problems"] if one["code"] == "SiblingHead"]
    assert sibling["severity"] == "warning"
    assert "makes a good start for training" in sibling["message"]


@pytest.mark.parametrize(
    ("tokenizers", "head", "message"),
    [
        (TOKENIZERS, {}, "the head was trained for another tokenizer"),
        ((None, None), {"vocab_size": 64000}, "the head's vocabulary has 64000 tokens and the target's 128256"),
        ((None, None), {"hidden_size": 5120}, "the head reads hidden states of size 5120 and the target's have 4096"),
        (
            (None, None),
            {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [3, 17, 30]}},
            "so its first matrix would be given other states; set draft.auxiliaryLayers to [3, 17, 30]",
        ),
        ((None, None), {"num_hidden_layers": 2}, "set draft.layers to 2"),
        ((None, None), {"architectures": ["Eagle3DeepseekV2ForCausalLM"]}, "is of type eagle3-mla"),
        ((None, None), {"quantization_config": {"quant_method": "fp8"}}, "quantised (fp8)"),
    ],
    ids=["tokenizer", "vocabulary", "hidden-size", "aux-layers", "layers", "kind", "quantised"],
)
def test_head_whose_weights_would_mean_something_else_is_no_start(
    tokenizers: tuple[str | None, str | None], head: dict[str, Any], message: str
) -> None:
    """Refused before the start, with what to change; nothing has failed, the spec may be edited."""
    found = with_start(tokenizers, **head)
    said = condition(found, "Accepted")
    assert (said["status"], said["reason"]) == ("False", "StartUnfit")
    assert said["message"].startswith("In draft.startFrom, the head")
    assert message in said["message"]
    assert "startTime" not in found.status


def test_numbers_of_the_other_convention_are_a_doubt_and_not_shifted() -> None:
    """SGLang's default names the same tensors one lower; only people know which was meant."""
    found = with_start(eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 15, 28]})
    assert found.status["startTime"]
    assert "HeadAuxLayerConvention" in {one["code"] for one in found.status["checkpoint"]["problems"]}


def test_head_that_cannot_be_read_is_no_start() -> None:
    """Whatever Inspect met is told under the field's name."""
    changes = {"draft": {"startFrom": {"uri": "pvc://heads/none"}}}
    record = inspected(LLAMA, **changes)
    read = record.inspection
    assert read is not None
    read = read.model_copy(update={"head_problems": ["head folder /x does not exist; correct the draft's uri"]})
    said = condition(decide(record.with_stage(stage=Stage.INSPECT, result=read), **changes), "Accepted")
    assert said["reason"] == "StartUnfit"
    assert said["message"] == "In draft.startFrom, head folder /x does not exist; correct draft.startFrom.uri."


def test_start_is_mounted_where_it_is_read_and_nowhere_else() -> None:
    """By Inspect, with its Secret, and by Train; an edit of it is inspected again."""
    draft = {"startFrom": {"uri": "pvc://shelf/head", "credentialsSecret": "hub"}}
    spec = observe.DraftTrainingJobSpec.model_validate(builders.spec(draft=draft))
    assert observe.inspect_digest(spec) != builders.record(Stage.INSPECT).of(Stage.INSPECT).input_digest
    mounted = {}
    for stage in Stage:
        record = inspected(LLAMA, draft=draft, done=tuple(builders.before(stage))[1:])
        record = results.Record() if stage is Stage.INSPECT else record
        job = builders.resource(draft=draft)
        seen = observe.observe(builders.FakeView(job), job)
        volumes = jobs.render(seen, record, stage).job["spec"]["template"]["spec"]["volumes"]
        claims = {one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one}
        mounted[stage] = ("shelf" in claims, "hub" in str(volumes))
    reads = {Stage.INSPECT: (True, True), Stage.TRAIN: (True, False)}
    assert mounted == {stage: reads.get(stage, (False, False)) for stage in Stage}
