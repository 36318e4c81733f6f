"""Where a tensor lies is told by the index, without the files between."""

import json

from paceline.stages import target_files
from stages import builders

WEIGHT_MAP = {
    "model.embed_tokens.weight": "model-00001-of-00003.safetensors",
    "model.layers.7.mlp.up_proj.weight": "model-00002-of-00003.safetensors",
    "model.norm.weight": "model-00003-of-00003.safetensors",
    "lm_head.weight": "model-00003-of-00003.safetensors",
}


def test_only_outer_files_are_needed_for_training(tmp_path):
    """A trainer of a head reads embeddings, norm and output; the layers between stay where they are."""
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": WEIGHT_MAP}))
    assert target_files.outer_files(tmp_path) == [
        "model-00001-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
    ]


def test_one_file_is_needed_whole(tmp_path):
    """A checkpoint without an index is one file."""
    assert target_files.outer_files(tmp_path) == ["model.safetensors"]


def test_first_wanted_name_wins(tmp_path):
    """Tied embeddings stand in for an output matrix that is not there."""
    builders.write_safetensors(tmp_path / "model.safetensors", {"embed": (2,), "norm": (2,)})
    assert target_files.find_tensor(tmp_path, ["lm_head", "embed"]) == (tmp_path / "model.safetensors", "embed")
    assert target_files.find_tensor(tmp_path, ["lm_head"]) is None


def test_index_is_believed_without_opening_the_files(tmp_path):
    """Files that were not fetched are no fault."""
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": WEIGHT_MAP}))
    found = target_files.find_tensor(tmp_path, ["lm_head.weight"])
    assert found == (tmp_path / "model-00003-of-00003.safetensors", "lm_head.weight")
