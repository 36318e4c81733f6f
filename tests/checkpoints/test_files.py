"""A folder of files: what is there, what is missing, and what must never be opened."""

import json
import struct
from pathlib import Path

import pytest

from checkpoints.builders import codes, config
from paceline.api.checkpoint import Presence
from paceline.checkpoints import files
from paceline.checkpoints.documents import UnreadableError

HEAD = "heads/specforge--kimi-k25-eagle3"
TENSORS = {
    "fc.weight": [7168, 21504],
    "midlayer.mlp.up_proj.weight": [4, 4],
    "norm.weight": [4],
    "lm_head.weight": [32000, 1],
}
MAPS = {"d2t": [32000], "t2d": [163840]}


def write(path: Path, tensors: dict[str, list[int]], *, cut: int = 0) -> None:
    """Write a safetensors header with these shapes, and as many bytes as it promises, sparse."""
    header, offset = {}, 0
    for name, shape in tensors.items():
        size = 2
        for side in shape:
            size *= side
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    with path.open("wb") as handle:
        handle.write(struct.pack("<Q", len(text)) + text)
        handle.truncate(8 + len(text) + offset - cut)


def head(folder: Path, tensors: dict[str, list[int]], **changes: object) -> files.Folder:
    """Write a head."""
    (folder / "config.json").write_text(json.dumps({**config(HEAD), **changes}))
    write(folder / "model.safetensors", tensors)
    return files.Folder(path=folder)


def test_whole_head_has_no_problems(tmp_path: Path) -> None:
    """Its tensors are those that its configuration promises."""
    found = files.read_head(head(tmp_path, TENSORS | MAPS))
    assert (found.problems, found.weights) == ([], Presence.PRESENT)


@pytest.mark.parametrize(
    ("tensors", "changes", "code"),
    [
        ({name: TENSORS[name] for name in TENSORS if name != "fc.weight"} | MAPS, {}, "HeadWeightsMissing"),
        ({name: TENSORS[name] for name in TENSORS if "midlayer" not in name} | MAPS, {}, "HeadWeightsMissing"),
        (TENSORS, {}, "HeadWeightsMissing"),
        (TENSORS | MAPS | {"fc.weight": [7168, 14336]}, {}, "HeadShapeMismatch"),
        (TENSORS | MAPS | {"d2t": [8192]}, {}, "HeadShapeMismatch"),
        (TENSORS | MAPS, {"norm_before_fc": True}, "HeadNormMissing"),
        (TENSORS | MAPS, {"eagle_config": {"norm_before_fc": True}}, "HeadNormMissing"),
    ],
    ids=[
        "no-fc",
        "no-layer",
        "no-map",
        "fc-of-two-layers",
        "another-vocabulary",
        "norm-dropped",
        "norm-dropped-nested",
    ],
)
def test_head_whose_tensors_belie_its_configuration_is_refused(
    tmp_path: Path, tensors: dict[str, list[int]], changes: dict[str, object], code: str
) -> None:
    """It would stop the engine, or draft nonsense."""
    assert codes(files.read_head(head(tmp_path, tensors, **changes)).problems) == {code}


def test_norm_that_no_flag_names_is_told(tmp_path: Path) -> None:
    """The engine would leave it out."""
    found = files.read_head(head(tmp_path, TENSORS | MAPS | {"input_norm.weight": [21504]}))
    assert codes(found.problems, "warning") == {"HeadNormIgnored"}


def test_small_model_of_one_layer_is_no_head(tmp_path: Path) -> None:
    """What joins embedding and hidden state tells the two apart."""
    small = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1, "hidden_size": 4, "vocab_size": 9}
    (tmp_path / "config.json").write_text(json.dumps(small))
    write(tmp_path / "model.safetensors", {"model.layers.0.mlp.up_proj.weight": [4, 4]})
    assert files.read_head(files.Folder(path=tmp_path)).head_type == "draft_model"
    write(tmp_path / "model.safetensors", {"layers.0.mlp.up_proj.weight": [4, 4], "fc.weight": [4, 8]})
    assert files.read_head(files.Folder(path=tmp_path)).head_type == "eagle1"


def test_pickled_weights_are_never_opened(tmp_path: Path) -> None:
    """Reading them runs code."""
    (tmp_path / "config.json").write_text(json.dumps(config("heads/FasterDecoding--medusa-vicuna-7b-v1.3")))
    (tmp_path / "medusa_lm_head.pt").write_bytes(b"cos\nsystem\n")
    assert "HeadNotSafetensors" in codes(files.read_head(files.Folder(path=tmp_path)).problems)


def test_index_without_weights_is_a_copy_to_look_at(tmp_path: Path) -> None:
    """But some weights without the others are a broken download."""
    (tmp_path / "config.json").write_text(json.dumps(config("deepseek-ai--DeepSeek-V3")))
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    folder = files.Folder(path=tmp_path)
    assert "WeightsMissing" in codes(files.read_target(folder).problems, "warning")
    write(tmp_path / "model-1.safetensors", {"a": [4]})
    assert codes(files.read_target(folder).problems) == {"WeightsMissing"}


def test_weights_that_no_index_names_are_not_counted(tmp_path: Path) -> None:
    """Engines load what the index names; MTP layers in a file beside it are not there for them."""
    (tmp_path / "config.json").write_text(json.dumps(config("deepseek-ai--DeepSeek-V3")))
    index = {"weight_map": {"model.norm.weight": "model-1.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    write(tmp_path / "model-1.safetensors", {"model.norm.weight": [4]})
    write(
        tmp_path / "mtp.safetensors", {f"model.layers.61.{part}.weight": [4] for part in ("enorm", "hnorm", "eh_proj")}
    )
    found = files.read_target(files.Folder(path=tmp_path))
    assert (found.mtp.weights, found.weights_bytes) == (
        Presence.ABSENT,
        (tmp_path / "model-1.safetensors").stat().st_size,
    )
    (tmp_path / "model.safetensors.index.json").unlink()
    assert files.read_target(files.Folder(path=tmp_path)).mtp.weights is Presence.PRESENT


def test_weights_that_are_cut_off_are_unreadable(tmp_path: Path) -> None:
    """The header promises more than there is."""
    (tmp_path / "config.json").write_text(json.dumps(config(HEAD)))
    write(tmp_path / "model.safetensors", TENSORS, cut=7)
    with pytest.raises(UnreadableError, match="its header promises"):
        files.read_head(files.Folder(path=tmp_path))
