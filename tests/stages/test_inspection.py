"""Inspection tells a target's facts, and what is wrong with its files, before a GPU is asked for."""

import json

import pytest

from paceline.api import report, stages
from paceline.stages import inspection
from paceline.stages.failures import PermanentError
from stages import builders


def _inspect(root, **fields):
    return inspection.run(stages.InspectConfig(**builders.common(root, **fields)), builders.make_context(root))


def test_facts_come_from_the_files(tmp_path):
    """Sizes, layers and the volume of hidden states: three auxiliary layers and the last one, two bytes each."""
    builders.write_target(tmp_path / "target")
    result = _inspect(tmp_path)
    assert result.architecture == "LlamaForCausalLM"
    assert (result.hidden_size, result.layers, result.vocabulary_size) == (8, 30, 32)
    assert result.auxiliary_layers == [2, 15, 27]
    assert result.hidden_state_bytes_per_token == 4 * 8 * 2


def test_text_model_of_a_wrapper_is_one_level_down(tmp_path):
    """A multimodal target's sizes are those of its text model."""
    text = {"hidden_size": 16, "num_hidden_layers": 61, "vocab_size": 163840}
    builders.write_target(tmp_path / "target", text_config=text)
    assert _inspect(tmp_path).auxiliary_layers == [2, 30, 58]


def test_wanted_layers_are_kept_and_wrong_ones_refused(tmp_path):
    """A layer that does not exist is told with those that do."""
    builders.write_target(tmp_path / "target")
    assert _inspect(tmp_path, auxiliary_layers=[1, 5]).auxiliary_layers == [1, 5]
    with pytest.raises(PermanentError, match="has layers 0 to 29"):
        _inspect(tmp_path, auxiliary_layers=[30])


def test_digest_changes_with_tokenizer_config_and_weights(tmp_path):
    """Whatever decides the target's answers is in its digest."""
    folder = builders.write_target(tmp_path / "target")
    seen = {_inspect(tmp_path).digest}
    (folder / "tokenizer.json").write_text('{"a": 1}')
    seen.add(_inspect(tmp_path).digest)
    builders.write_target(folder, rope_theta=1e6)
    seen.add(_inspect(tmp_path).digest)
    builders.write_safetensors(folder / "model.safetensors", {"model.norm.weight": (8,)})
    seen.add(_inspect(tmp_path).digest)
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda folder: (folder / "config.json").unlink(), r"holds no config\.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "cannot be read"),
        (lambda folder: (folder / "config.json").write_text("[]"), "no JSON object"),
        (lambda folder: (folder / "config.json").write_text('{"hidden_size": 8}'), "text backbone cannot be found"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "holds no tokenizer"),
        (lambda folder: (folder / "model.safetensors").unlink(), "only safetensors checkpoints"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x08"), "no safetensors file or is cut off"),
        (
            lambda folder: builders.write_safetensors(folder / "model.safetensors", {"a": (9,)}, missing_bytes=4),
            "its header promises",
        ),
        (
            lambda folder: (folder / "model.safetensors.index.json").write_text(
                json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}})
            ),
            r"lacks model-00001-of-00002\.safetensors",
        ),
    ],
)
def test_broken_target_says_what_to_change(tmp_path, break_it, said):
    """Each fault of a checkpoint is told before anything is started."""
    break_it(builders.write_target(tmp_path / "target"))
    with pytest.raises(PermanentError, match=said):
        _inspect(tmp_path)


def test_missing_folder_names_the_field(tmp_path):
    """A source that does not exist is the user's to correct."""
    with pytest.raises(PermanentError, match=r"does not exist; correct target\.uri"):
        _inspect(tmp_path)


def _head(root, **config):
    folder = root / "head"
    folder.mkdir()
    decoder = {"hidden_size": 8, "vocab_size": 32, **config.pop("decoder", {})}
    document = {
        "speculators_model_type": "eagle3",
        "transformer_layer_config": decoder,
        "draft_vocab_size": 16,
        **config,
    }
    (folder / "config.json").write_text(json.dumps(document))
    builders.write_safetensors(folder / "model.safetensors", {"fc.weight": (8, 24), "layers.0.mlp.weight": (2, 2)})
    return folder


def _read(root, **fields):
    builders.write_target(root / "target")
    return _inspect(root, head_path=str(root / "head"), **fields)


def test_target_is_reported_with_all_its_facts(tmp_path):
    """The control plane judges by them; the digest says of which target they are."""
    builders.write_target(tmp_path / "target", num_nextn_predict_layers=1, model_type="deepseek_v3")
    result = _inspect(tmp_path)
    assert result.checkpoint.digest == result.digest
    assert result.checkpoint.tokenizer_fingerprint.startswith("sha256:")
    assert (result.checkpoint.layers, result.checkpoint.mtp.declared) == (30, True)
    assert result.checkpoint.mtp.weights == "absent"
    assert (result.head, result.head_problems) == (None, [])


def test_head_is_reported_with_all_its_facts(tmp_path):
    """Whether it fits is judged by the control plane, for the engine and parallelism of the spec."""
    _head(tmp_path, eagle_aux_hidden_state_layer_ids=[2, 15, 27])
    result = _read(tmp_path)
    assert result.head_problems == []
    assert (result.head.head_type, result.head.aux_layer_ids) == ("eagle3-speculators", [2, 15, 27])
    assert (result.head.target_hidden_size, result.head.draft_vocabulary_size) == (8, 16)


def test_manifest_says_for_which_target_a_head_was_trained(tmp_path):
    """Same sizes, another tokenizer: only the digests know."""
    folder = _head(tmp_path)
    other = {"tokenizerFingerprint": "sha256:" + "b" * 64, "digest": "sha256:" + "c" * 64}
    (folder / "manifest.json").write_text(json.dumps({"target": other, "files": {}}))
    head = _read(tmp_path).head
    assert (head.tokenizer_fingerprint, head.trained_for) == ("sha256:" + "b" * 64, "sha256:" + "c" * 64)


def test_older_manifest_tells_an_equal_tokenizer_by_its_files(tmp_path):
    """It has the digest of the files alone; equal files are an equal tokenizer."""
    folder = _head(tmp_path)
    target = _read(tmp_path)
    (folder / "manifest.json").write_text(json.dumps({"target": {"tokenizerDigest": target.tokenizer_digest}}))
    assert _read(tmp_path).head.tokenizer_fingerprint == target.checkpoint.tokenizer_fingerprint


def test_changed_weights_are_told(tmp_path):
    """A published head is what its manifest says."""
    folder = _head(tmp_path)
    (folder / "manifest.json").write_text(json.dumps({"files": {"model.safetensors": builders.DIGEST}}))
    (problem,) = _read(tmp_path).head_problems
    assert "not what the head's manifest says" in problem


def test_wanted_manifest_must_be_there(tmp_path):
    """A digest that was given is checked, not forgotten."""
    _head(tmp_path)
    (problem,) = _read(tmp_path, head_manifest_digest=builders.DIGEST).head_problems
    assert "holds no manifest.json" in problem


def test_missing_head_names_the_drafts_uri(tmp_path):
    """The message speaks of the head, not of the target, and there are no facts."""
    result = _read(tmp_path)
    assert result.head_problems[0].startswith("head folder")
    assert result.head is None


def test_facts_fit_the_report_whatever_the_files_hold(tmp_path):
    """A termination message has 4 KiB: notes are dropped before facts, and facts before the result."""
    wrong = {f"eagle_{number}": 0 for number in range(100)}
    config = {"architectures": [f"{number}" * 200 for number in range(16)], "model_type": "\u00e9" * 256}
    builders.write_target(
        tmp_path / "target",
        **config,
        text_config={**wrong, "num_hidden_layers": 4}
        | {
            "hidden_size": 8,
            "vocab_size": 9,
            "num_attention_heads": "x" * 90,
            "head_dim": "y" * 90,
        },
    )
    result = _inspect(tmp_path)
    assert report.encode(stages.StageReport(result=result))
    assert result.layers == 4
