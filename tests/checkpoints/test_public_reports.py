"""Public reports about models and heads that did not fit, each with the answer that would have saved the day.

The number is the row of the collection; the address is the report. Rows about what runs are tests of their rooms:
4 (dead head) tests/engines/test_metrics.py; 22 (source away) tests/rollout/test_suitability.py; 27 (captured states)
tests/stages/test_ml.py; 30, 33 and 34 (memory, resumption, preemption) tests/training; 32 (which checkpoint)
tests/stages/test_checkpoints.py.
"""

import json
from pathlib import Path

import pytest

from checkpoints.builders import KIMI, LLAMA, ask, codes, config, index, judge, named, path, read, serving
from paceline.api.checkpoint import Problem
from paceline.checkpoints import auxiliary, estimates, fit, parallelism
from paceline.checkpoints import head as heads
from paceline.checkpoints import target as targets


def only(problems: tuple[Problem, ...] | list[Problem], code: str) -> str:
    """Return the message of the one finding with this code."""
    (found,) = [one.message for one in problems if one.code == code]
    return found


def test_1_announced_mtp_without_weights_is_told_and_a_head_is_trained() -> None:
    """https://github.com/MiniMax-AI/MiniMax-M2/issues/47: declared, absent; never "no draft needed"."""
    _, said = ask(path("MiniMaxAI--MiniMax-M2"), "--index", path("weight-index/minimax-m2.7-no-mtp"))
    assert (said["mtp"]["declared"], said["mtp"]["weights"], said["mtp"]["usable"]) == (True, "absent", False)
    assert (said["decision"], said["choice"]) == ("train-or-reuse-eagle3", "train")


def test_2_index_of_any_length_is_searched_whole(tmp_path: Path) -> None:
    """https://github.com/MiniMax-AI/MiniMax-M2.7/issues/16: 0 of 1,369 names match."""
    names = [f"model.layers.{layer % 62}.block_sparse_moe.experts.{layer}.w1.weight" for layer in range(1369)]
    file = tmp_path / "index.json"
    file.write_text(json.dumps({"weight_map": dict.fromkeys(names, "model-00001-of-00130.safetensors")}))
    assert ask(path("MiniMaxAI--MiniMax-M2"), "--index", str(file))[1]["mtp"]["weights"] == "absent"


def test_3_quantised_build_without_its_mtp_layer_is_no_mtp() -> None:
    """https://github.com/vllm-project/vllm/pull/35548: it would start, and accept nothing."""
    found = targets.read(config("traps/glm-5-nvfp4-mtp-declared-weights-absent"), weights=index("glm-5-nvfp4-no-mtp"))
    assert "uninitialised memory" in only(fit.check_target(found, serving()), "MtpWeightsAbsent")


def test_7_kimi_on_an_old_engine_is_refused_with_the_version_it_needs() -> None:
    """https://github.com/vllm-project/vllm/issues/31254."""
    code, said = ask(path(KIMI), "--engine", "vllm==0.15.1")
    (refused,) = [one["message"] for one in said["problems"] if one["severity"] == "error"]
    assert code == 3
    assert refused == "vLLM 0.15.1 does not support EAGLE-3 for kimi_k2; 0.18 or later is needed"
    assert said["choice"] == "ngram-only"
    assert ask(path(KIMI), "--engine", "vllm==0.18.0")[0] == 0


@pytest.mark.parametrize(("version", "code"), [("0.17.1", 3), ("0.18.0", 0)])
def test_8_head_with_latent_attention_needs_its_class(version: str, code: int) -> None:
    """https://github.com/vllm-project/vllm/pull/36361."""
    mla = path("heads/lightseekorg--kimi-k2.5-eagle3-mla")
    assert ask(path(KIMI), "--head", mla, "--engine", f"vllm=={version}")[0] == code


def test_9_head_narrower_than_its_target_fits_where_it_says_so() -> None:
    """https://github.com/vllm-project/vllm/issues/18906: what counts is the size that the head reads."""
    head = "heads/yuhuili--EAGLE3-LLaMA3.3-Instruct-70B"
    assert judge("meta-llama--Llama-3.3-70B-Instruct", head).is_valid
    assert codes(judge(LLAMA, head).problems) == {"HeadHiddenSizeMismatch"}


def test_10_window_shorter_than_the_longest_sequence_is_told() -> None:
    """https://github.com/vllm-project/vllm/issues/48894."""
    args = ("--arg=--max-model-len=32768", "--engine", "vllm==0.24.0")
    code, said = ask(path(LLAMA), "--head", path("heads/yuhuili--EAGLE3-LLaMA3.1-Instruct-8B"), *args)
    assert code == 0
    assert "2048 tokens and sequences may have 32768" in only(
        [Problem.model_validate(one) for one in said["problems"]], "HeadWindow"
    )


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("zai-org--GLM-4.7-Flash", [1, 2, 4, 5]),
        ("Qwen--Qwen2.5-VL-7B-Instruct", [1, 2, 4]),
        (KIMI, [1, 2, 4, 8]),
        ("Qwen--Qwen3-Next-80B-A3B-Thinking", [1, 2, 4, 8]),
    ],
)
def test_12_heads_have_to_divide_among_the_gpus(target: str, allowed: list[int]) -> None:
    """https://github.com/vllm-project/vllm/issues/2652.

    28 heads of queries divide by 7, but their 4 heads of keys and values do not, and the engine asserts both.
    """
    assert parallelism.allowed(read(target)) == allowed
    problems = parallelism.check(read(target), 8)
    assert codes(problems) == (set() if 8 in allowed else {"TensorParallelSize"})
    if problems:
        assert f"use TP {', '.join(map(str, allowed[:-1]))} and {allowed[-1]}" in problems[0].message


def test_14_draft_parallelism_is_one_or_the_targets() -> None:
    """https://github.com/vllm-project/vllm/issues/10483."""
    found = judge(KIMI, "heads/specforge--kimi-k25-eagle3", tp=8, draft_tensor_parallel_size=4)
    assert codes(found.problems) == {"DraftTensorParallelSize"}


def test_15_draft_parallelism_of_one_does_not_save_a_head() -> None:
    """https://github.com/vllm-project/vllm/issues/31345: the engine divides it by the target's size all the same."""
    found = judge(KIMI, "traps/head-heads-not-divisible-by-8", tp=8, draft_tensor_parallel_size=1)
    assert "HeadTensorParallelSize" in codes(found.problems)
    assert "DraftTensorParallelIgnored" in codes(found.problems, "warning")


def test_16_unquantised_head_of_a_quantised_target_is_doubted_on_old_builds() -> None:
    """https://github.com/vllm-project/vllm/pull/25883."""
    head = heads.read(config("heads/specforge--kimi-k25-eagle3"))
    told = fit.check_head(read(KIMI), head, serving(engine="vllm==0.10.2"))
    assert "HeadInheritsQuantization" in codes(told, "warning")
    assert "HeadInheritsQuantization" not in codes(fit.check_head(read(KIMI), head, serving()), "warning")


def test_17_cache_of_eight_bits_is_doubted_on_old_engines() -> None:
    """https://github.com/vllm-project/vllm/pull/24505."""
    args = ("--kv-cache-dtype", "fp8_e4m3")
    assert "HeadCacheDtype" in codes(
        judge(LLAMA, "heads/yuhuili--EAGLE3-LLaMA3.1-Instruct-8B", engine="vllm==0.10.0", args=args).problems, "warning"
    )


def test_18_quantised_output_matrix_is_doubted() -> None:
    """https://github.com/ROCm/vllm/pull/1226."""
    names = ("fc.weight", "midlayer.mlp.up_proj.weight", "lm_head.weight_packed", "lm_head.weight_scale", "d2t", "t2d")
    head = heads.read(config("heads/specforge--kimi-k25-eagle3"), weights=named(*names))
    assert "HeadOutputQuantized" in codes(fit.check_head(read(KIMI), head, serving()), "warning")


def test_20_head_of_another_model_with_the_same_shape_is_refused() -> None:
    """https://github.com/SafeAILab/EAGLE/issues/258: Phi-4-mini's head on MiniMax-M2 loads and talks nonsense."""
    head = "traps/head-phi4mini-on-minimax-m2_same_hiddenandvocab_other_tokenizer"
    assert codes(judge("MiniMaxAI--MiniMax-M2", head).problems) == {"HeadTargetMismatch"}
    assert judge("microsoft--Phi-4-mini-instruct", head).is_valid


def test_23_target_with_working_mtp_needs_no_head() -> None:
    """https://github.com/kekzl/imp/issues/1537."""
    _, said = ask(path("Qwen--Qwen3.5-397B-A17B"), "--index", path("weight-index/qwen3.5-with-mtp"))
    assert (said["decision"], said["choice"]) == ("use-native-mtp", "native-mtp")
    assert "No draft head is needed" in " ".join(said["reasons"])


def test_25_last_layers_output_is_no_auxiliary_layer() -> None:
    """https://github.com/vllm-project/vllm/pull/46788: id 61 of 61 layers captures nothing."""
    found = judge(KIMI, "traps/head-aux-equals-num-layers")
    assert codes(found.problems) == {"HeadAuxLayerIsLast"}


def test_26_wanted_layers_lie_before_the_last_output() -> None:
    """https://github.com/vllm-project/speculators/issues/705: 78 of GLM-5's 78 layers was one too many."""
    glm = read("zai-org--GLM-5")
    assert auxiliary.check_wanted([2, 39, 75], glm) == []
    assert "layers 0 to 77" in only(auxiliary.check_wanted([2, 39, 75, 78], glm), "AuxLayersOutOfRange")


def test_29_hidden_states_that_fill_any_volume_are_refused_before_the_start() -> None:
    """https://github.com/sgl-project/SpecForge/issues/426: 30,000 samples of 65,536 tokens, 1.5 GB each."""
    needed = estimates.extraction(read("openai--gpt-oss-120b"), tokens=30_000 * 65_536, aux_layers=3)
    assert needed is not None
    assert needed.hidden_bytes == 30_000 * 65_536 * 2880 * 4 * 2
    refused = estimates.check_volume(needed.hidden_bytes, estimates.parse_quantity("10Ti"))
    assert "need up to 41.2 TiB and the workspace volume has 10.0 TiB" in only(refused, "WorkspaceTooSmall")
    arguments = ("--samples", "30000", "--sequence-length", "65536", "--volume", "10Ti")
    assert ask(path("openai--gpt-oss-120b"), *arguments)[0] == 3


def test_37_extraction_is_told_how_to_divide_28_heads() -> None:
    """https://github.com/sgl-project/SpecForge/pull/268: TP 4 and two replicas, never TP 8."""
    told = only(parallelism.check(read("Qwen--Qwen2.5-VL-7B-Instruct"), 8), "TensorParallelSize")
    assert "use TP 1, 2 and 4, and more replicas (data parallel)" in told
