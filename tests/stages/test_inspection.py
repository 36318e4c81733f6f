"""Inspection tells a target's facts, and what is wrong with its files, before a GPU is asked for."""

import json

import pytest

from paceline.api import stages
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
        (lambda folder: (folder / "config.json").write_text('{"hidden_size": 8}'), "num_hidden_layers, vocab_size"),
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


def test_bucket_is_refused_with_a_remedy(tmp_path):
    """The trainer's tools cannot read from S3."""
    with pytest.raises(PermanentError, match="copy it to a volume"):
        _inspect(tmp_path, target=stages.TargetRef(path="s3://bucket/model"))


def _head(root, **config):
    folder = root / "head"
    folder.mkdir()
    decoder = {"hidden_size": 8, "vocab_size": 32, **config.pop("decoder", {})}
    document = {"transformer_layer_config": decoder, "draft_vocab_size": 16, **config}
    (folder / "config.json").write_text(json.dumps(document))
    builders.write_safetensors(folder / "model.safetensors", {"fc.weight": (2, 2)})
    return folder


def _problems(root, **fields):
    builders.write_target(root / "target")
    return _inspect(root, head_path=str(root / "head"), **fields).head_problems


def test_fitting_head_has_no_problems(tmp_path):
    """Sizes agree, and without a manifest nothing more is known."""
    _head(tmp_path, eagle_aux_hidden_state_layer_ids=[2, 15, 27])
    assert _problems(tmp_path) == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"decoder": {"hidden_size": 7168}}, "size 7168 and the target's have 8"),
        ({"decoder": {"vocab_size": 129280}}, "vocabulary has 129280 tokens and the target's 32"),
        ({"draft_vocab_size": 64}, "draft vocabulary of 64 exceeds"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 30, 58]}, "reads layer 58 and the target has 30"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [31]}}, "reads layer 31"),
    ],
)
def test_head_for_another_model_is_told_by_its_config(tmp_path, config, said):
    """A sibling's head is found out before a server loads it."""
    _head(tmp_path, **config)
    (problem,) = _problems(tmp_path)
    assert said in problem


def test_manifest_of_another_target_is_told(tmp_path):
    """Same sizes, another tokenizer: only the digests know."""
    folder = _head(tmp_path)
    other = {"tokenizerDigest": "sha256:" + "b" * 64, "digest": "sha256:" + "c" * 64}
    (folder / "manifest.json").write_text(json.dumps({"target": other, "files": {}}))
    assert [problem.split(" and ")[0] for problem in _problems(tmp_path)] == [
        "the head was trained for tokenizer sha256:bbbbbbbbbbbb",
        "the head was trained for target sha256:cccccccccccc",
    ]


def test_changed_weights_are_told(tmp_path):
    """A published head is what its manifest says."""
    folder = _head(tmp_path)
    (folder / "manifest.json").write_text(json.dumps({"files": {"model.safetensors": builders.DIGEST}}))
    (problem,) = _problems(tmp_path)
    assert "not what the head's manifest says" in problem


def test_wanted_manifest_must_be_there(tmp_path):
    """A digest that was given is checked, not forgotten."""
    _head(tmp_path)
    (problem,) = _problems(tmp_path, head_manifest_digest=builders.DIGEST)
    assert "holds no manifest.json" in problem


@pytest.mark.parametrize(("vocabulary", "found"), [(32, 0), (7, 1)])
def test_draft_model_needs_the_targets_vocabulary_and_not_its_shape(tmp_path, vocabulary, found):
    """A small model of its own reads no hidden states, but proposes the target's tokens."""
    _head(tmp_path, decoder={"hidden_size": 4, "vocab_size": vocabulary}, draft_vocab_size=None)
    assert len(_problems(tmp_path, head_stands_alone=True)) == found


def test_missing_head_names_the_drafts_uri(tmp_path):
    """The message speaks of the head, not of the target."""
    (problem,) = _problems(tmp_path)
    assert problem.startswith("head folder")
    assert "the draft's uri" in problem
