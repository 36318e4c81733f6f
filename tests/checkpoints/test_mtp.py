"""Whether a target drafts for itself: declared, weights there, mapped; each leg can be the one that is missing."""

import pytest

from checkpoints.builders import ask, codes, config, index, judge, named, path, serving
from paceline.api.checkpoint import Presence
from paceline.checkpoints import decision, fit, mtp
from paceline.checkpoints import target as targets

WITH_INDEX = [
    ("deepseek-ai--DeepSeek-V3", "deepseek-v3-with-mtp", "present", "use-native-mtp"),
    ("XiaomiMiMo--MiMo-7B-RL", "mimo-with-mtp", "present", "use-native-mtp"),
    ("Qwen--Qwen3-Next-80B-A3B-Thinking", "qwen3-next-with-mtp", "present", "use-native-mtp"),
    ("Qwen--Qwen3.5-397B-A17B", "qwen3.5-with-mtp", "present", "use-native-mtp"),
    ("Qwen--Qwen3.5-397B-A17B", "qwen3.5-mtp-partial_fc_only", "absent", "train-or-reuse-eagle3"),
    ("Qwen--Qwen3-Next-80B-A3B-Thinking", "qwen3-next-finetune-mtp-dropped", "absent", "train-or-reuse-eagle3"),
    ("traps/glm-5-nvfp4-mtp-declared-weights-absent", "glm-5-nvfp4-no-mtp", "absent", "train-or-reuse-eagle3"),
    ("MiniMaxAI--MiniMax-M2", "minimax-m2.7-no-mtp", "absent", "train-or-reuse-eagle3"),
    ("moonshotai--Kimi-K2.5", "kimi-k2.5-no-mtp", "absent", "train-or-reuse-eagle3"),
]


@pytest.mark.parametrize(("target", "names", "weights", "word"), WITH_INDEX)
def test_index_settles_what_the_configuration_promises(target: str, names: str, weights: str, word: str) -> None:
    """A declared layer without tensors is no MTP, and one with them is."""
    code, said = ask(path(target), "--index", path(f"weight-index/{names}"))
    assert (code, said["mtp"]["weights"], said["decision"]) == (0, weights, word)
    assert said["mtp"]["usable"] is (word == "use-native-mtp")


def test_ernie_names_its_modules_in_its_own_way() -> None:
    """The joint and the block lie in trees of their own."""
    found = mtp.find_modules(index("ernie-with-mtp").names, layers=28)
    assert found.complete == 1
    without_joint = {name for name in index("ernie-with-mtp").names if "linear_proj" not in name}
    assert mtp.find_modules(without_joint, layers=28).complete == 0


@pytest.mark.parametrize(
    "names",
    [
        ["model.layers.48.enorm.weight", "model.layers.48.hnorm.weight", "model.layers.48.eh_proj.weight"],
        [
            "language_model.model.layers.48.enorm.weight",
            "language_model.model.layers.48.hnorm.weight",
            "language_model.model.layers.48.eh_proj.weight_packed",
        ],
        ["mtp.0.e_proj.weight", "mtp.0.h_proj.weight", "mtp.0.attn.wq_a.weight"],
        ["model.mtp.layers.0.eh_proj.weight", "model.mtp.layers.0.self_attn.q_proj.weight"],
        ["mtp.layers.0.eh_proj.weight", "mtp.layers.0.mixer.in_proj.weight"],
        ["model.mtp_layers.0.input_proj.weight", "model.mtp_layers.0.mlp.up_proj.weight"],
        ["model.mtp.layers.0.input_proj.weight", "model.mtp.layers.0.attn.q.weight"],
    ],
    ids=["deepseek", "in-a-wrapper-quantised", "deepseek-v4", "mimo-v2", "nemotron", "mimo", "inkling"],
)
def test_every_published_layout_is_recognised(names: list[str]) -> None:
    """Also behind prefixes, and when a tensor is packed."""
    assert mtp.find_modules(names, layers=48).complete == 1
    assert mtp.find_modules(names[:1], layers=48).complete == 0


@pytest.mark.parametrize(
    "names",
    [
        ["model.layers.47.self_attn.q_proj.weight"],
        ["vision_tower.encoder.layers.60.mlp.fc1.weight"],
        ["model.layers.48.self_attn.q_proj.weight"],
        ["model.layers.48.embed_tokens.weight", "model.layers.48.shared_head.norm.weight"],
    ],
)
def test_other_tensors_are_no_mtp(names: list[str]) -> None:
    """A vision tower may be deeper than the text model, and a stray layer has nothing that joins."""
    assert mtp.find_modules(names, layers=48).complete == 0


@pytest.mark.parametrize(
    ("fields", "is_declared", "evidence"),
    [
        ({"num_nextn_predict_layers": 0}, False, "num_nextn_predict_layers = 0"),
        ({"num_nextn_predict_layers": None}, False, "num_nextn_predict_layers = null"),
        ({"num_nextn_predict_layers": "1"}, False, 'num_nextn_predict_layers = "1"'),
        ({"num_nextn_predict_layers": True}, False, "num_nextn_predict_layers = true"),
        ({"num_nextn_predict_layers": -1}, False, "num_nextn_predict_layers = -1"),
        ({"num_nextn_predict_layers": 10**30}, False, f"num_nextn_predict_layers = {10**30}"),
        ({"num_nextn_predict_layers": 3}, True, "num_nextn_predict_layers = 3"),
        ({"num_nextn_predict_layers": 0, "num_mtp_modules": 2}, False, "num_nextn_predict_layers = 0"),
    ],
)
def test_key_decides_by_a_whole_number_above_zero(fields: dict[str, object], is_declared: bool, evidence: str) -> None:  # noqa: FBT001 - a column of the table
    """Zero, null and other types are no, and the answer says what stood there."""
    said = targets.read({**config("deepseek-ai--DeepSeek-V3"), **fields})
    assert (said.mtp.declared, said.mtp.evidence) == (is_declared, evidence)


@pytest.mark.parametrize(
    ("document", "is_declared"),
    [
        ({"model_type": "longcat_flash", "num_layers": 28}, True),
        ({"model_type": "longcat_flash", "num_layers": 28, "num_nextn_predict_layers": 0}, False),
        ({"model_type": "step3p7", "text_config": {"num_hidden_layers": 45, "num_nextn_predict_layers": 3}}, True),
        ({"model_type": "kimi_k3", "text_config": {"num_hidden_layers": 61, "num_nextn_predict_layers": 1}}, True),
        ({"model_type": "nemotron_h", "num_hidden_layers": 88, "num_nextn_predict_layers": 1}, True),
        ({"model_type": "nemotron_h", "num_hidden_layers": 88}, False),
        ({"model_type": "minimax_m2", "num_hidden_layers": 62, "use_mtp": False, "num_mtp_modules": 3}, False),
        ({"model_type": "nobody_knows", "num_hidden_layers": 9, "mtp_num_hidden_layers": 1}, True),
        ({"model_type": "llama", "num_hidden_layers": 9, "n_predict": 3, "mtp_num_layers": 2}, False),
        ({"model_type": "inkling_mm_model", "text_config": {"num_hidden_layers": 4}, "mtp_config": []}, False),
    ],
)
def test_families_declare_in_their_own_places(document: dict[str, object], is_declared: bool) -> None:  # noqa: FBT001 - as above
    """By a default without a key, in a section, or by a key of their own; a head's or a trainer's key is none."""
    assert targets.read(document).mtp.declared is is_declared


def test_undeclared_modules_in_the_weights_are_told() -> None:
    """No engine uses them, and somebody will want to know."""
    found = targets.read(config("traps/deepseek-derivative-nextn-null"), weights=index("deepseek-v3-with-mtp"))
    assert found.mtp.weights is Presence.PRESENT
    assert codes(fit.check_target(found, serving()), "warning") == {"MtpUndeclared"}


def test_declared_modules_beyond_those_there_are_told() -> None:
    """More speculative tokens than modules reuse the last one."""
    names = [f"model.layers.61.{part}.weight" for part in ("enorm", "hnorm", "eh_proj")]
    document = {**config("deepseek-ai--DeepSeek-V3"), "num_nextn_predict_layers": 3}
    found = targets.read(document, weights=named(*names))
    assert codes(fit.check_target(found, serving()), "warning") == {"MtpModulesMissing"}
    assert decision.is_mtp_usable(found, serving()) is True


@pytest.mark.parametrize(
    ("engine", "word", "usable"),
    [
        ("vllm==0.32.0", "use-native-mtp", True),
        ("vllm==0.24.0", "use-native-mtp", None),
        ("vllm==0.17.1", "train-or-reuse-eagle3", False),
        ("sglang==0.5.23", "use-native-mtp", None),
    ],
)
def test_engine_has_to_map_the_family(engine: str, word: str, usable: bool | None) -> None:  # noqa: FBT001 - as above
    """DeepSeek-V4 came after 0.17; where nobody looked, the answer is that it is not known."""
    names = ["mtp.0.e_proj.weight", "mtp.0.h_proj.weight", "mtp.0.attn.wq_a.weight"]
    found = targets.read(config("deepseek-ai--DeepSeek-V4-Flash"), weights=named(*names))
    assert decision.decide(found, serving(engine=engine)).word == word
    assert decision.is_mtp_usable(found, serving(engine=engine)) is usable


def test_vendor_that_warns_of_its_own_mtp_is_verified_first() -> None:
    """MiniMax-M3 declares a module; only its weights settle it."""
    assert judge("MiniMaxAI--MiniMax-M3").decision.word == "verify-then-decide"
    names = ["model.mtp.layers.0.eh_proj.weight", "model.mtp.layers.0.self_attn.q_proj.weight"]
    found = targets.read(config("MiniMaxAI--MiniMax-M3"), weights=named(*names))
    assert decision.decide(found, serving()).word == "use-native-mtp"
    found = targets.read(config("MiniMaxAI--MiniMax-M3"), weights=named("model.norm.weight"))
    assert decision.decide(found, serving()).word == "train-or-reuse-eagle3"
