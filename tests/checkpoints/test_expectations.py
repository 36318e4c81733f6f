"""Every public configuration, and the right answer for it."""

from typing import Any

import pytest

from checkpoints.builders import DATA, EXPECTATIONS, ask, codes, judge, path, serving
from paceline.checkpoints import support

TARGETS = [row for row in EXPECTATIONS if row["kind"] == "target"]
HEADS = [row for row in EXPECTATIONS if row["kind"] == "head"]
PRESENT = {file.stem for file in DATA.glob("*.json")}
# A version of each range for which the support of a target is known.
RANGES = {
    "0.10-0.11.0": ("0.10.2", "0.11.0"),
    "0.11.1-0.15.1": ("0.11.1", "0.13.0", "0.15.1"),
    "~0.16-0.17": ("0.16.0", "0.17.1"),
    "0.18+ (2026-03)": ("0.18.0", "0.19.0"),
    "~0.20 (2026-04-24)": ("0.20.0", "0.20.2"),
}


def stem(row: dict[str, Any]) -> str:
    """Return a row's file without its ending."""
    return row["file"].removesuffix(".json")


def pairs(key: str) -> list[tuple[dict[str, Any], str]]:
    """Return heads with the targets that a column names, as far as their files are here."""
    return [(row, name) for row in HEADS for name in row[key] if name in PRESENT]


@pytest.mark.parametrize("row", TARGETS, ids=stem)
def test_target_is_read_and_decided_on(row: dict[str, Any]) -> None:
    """Sizes, parallelism, layers and decision, at TP 8 on the newest engine."""
    _, said = ask(path(stem(row)), "--tp", "8")
    backbone = said["backbone"]
    assert said["decision"] == row["decision"]
    assert said["mtp"]["declared"] == (row["native_mtp"] != "no")
    assert (backbone["path"], backbone["wrapper"]) == (row["text_path"], row["wrapper"])
    assert backbone["model_type"] == row["text_model_type"]
    for key in ("hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads", "num_kv_heads", "tied"):
        assert backbone[key] == row[key], key
    assert said["tp"]["ok"] == row["tp8_heads_ok"]
    assert said["aux_layers"] == row["default_aux_layers_vllm"]
    assert said["valid"] == (row["tp8_heads_ok"] is not False)
    if row["hidden_size"]:
        assert said["hidden_state_bytes_per_token"] == 4 * 2 * row["hidden_size"]


@pytest.mark.parametrize("row", TARGETS, ids=stem)
def test_engine_versions_take_eagle3_as_their_lists_say(row: dict[str, Any]) -> None:
    """Where a class lacked the interface although the list let it pass, the answer is that it is not known."""
    _, said = ask(path(stem(row)))
    backbone = said["backbone"]
    for span, is_listed in row.get("vllm_allowlist", {}).items():
        for version in RANGES[span]:
            takes = support.takes_eagle3(
                support.parse_engine(f"vllm=={version}"),
                text_model_type=backbone["model_type"],
                architectures=backbone["architectures"],
            )
            assert (takes is not support.Support.NO) == is_listed, version


@pytest.mark.parametrize("row", HEADS, ids=stem)
def test_head_is_read(row: dict[str, Any]) -> None:
    """Every layout, with the vocabulary and the layers it names."""
    _, said = ask(path("Qwen--Qwen3-8B"), "--head", path(stem(row)), "--tp", "8")
    head = said["head"]
    for key in ("head_type", "hidden_size", "target_hidden_size", "vocab_size", "draft_vocab_size", "aux_layer_ids"):
        assert head[key] == row[key], key
    assert (head["tp_ok"], head["registered"]) == (row["tp8_heads_ok"], row["vllm_arch_registered"])


@pytest.mark.parametrize(("row", "target"), pairs("compatible_with"), ids=str)
def test_head_fits_its_own_target(row: dict[str, Any], target: str) -> None:
    """Nothing forbids it but an engine that lacks its architecture."""
    found = judge(target, stem(row), tp=4)
    assert codes(found.problems) == set()
    expected = set() if row["vllm_arch_registered"] else {"HeadArchitectureUnsupported"}
    assert codes(judge(target, stem(row), tp=4, engine="vllm==0.32.0").problems) == expected


@pytest.mark.parametrize(("row", "target"), pairs("same_shape_but_wrong"), ids=str)
def test_head_of_the_same_shape_is_never_taken_without_a_word(row: dict[str, Any], target: str) -> None:
    """Refused where its files tell, and doubted where they do not: equal sizes prove nothing."""
    found = judge(target, stem(row))
    said = codes(found.problems) | codes(found.problems, "warning")
    assert said & {
        "HeadOriginUnknown",
        "HeadTargetMismatch",
        "HeadOtherVerifier",
        "HeadAuxLayersOutOfRange",
        "HeadTargetLayersMismatch",
    }


def test_ranges_cover_every_version_that_is_expected() -> None:
    """So that a new column is not passed over."""
    assert {span for row in TARGETS for span in row.get("vllm_allowlist", {})} == set(RANGES)
    assert serving(engine="vllm==0.18").engine.version == (0, 18)
