"""What a training takes from the head that it starts from, before the trainer runs; ``test_ml`` lays weights over."""

import json
import shutil

import pytest

from paceline.api import stages
from paceline.stages import start, train
from paceline.stages.failures import PermanentError
from stages import builders

DECODER = {"model_type": "llama", "hidden_size": 8, "vocab_size": 32, "num_hidden_layers": 1}
SPECULATORS = {
    "speculators_model_type": "eagle3",
    "transformer_layer_config": DECODER,
    "norm_before_residual": True,
    "norm_before_fc": True,
    "fc_norm": True,
}
ORIGINAL = {**DECODER, "model_type": "kimi_k2", "architectures": ["LlamaForCausalLMEagle3"], "auto_map": {"a": "b"}}


def _config(root, **fields):
    shape = {
        "layers": 1,
        "vocabulary_size": 32,
        "auxiliary_layers": [2, 15, 27],
        "epochs": 3,
        "learning_rate": 1e-3,
        "total_sequence_length": 512,
        "ttt_steps": 3,
        "seed": 1,
        "hidden_states_path": str(root / "hidden"),
        "start": stages.TargetRef(path=str(root / "head")),
        **fields,
    }
    return stages.TrainConfig(**builders.common(root, **shape))


def _head(root, document, tensors=("fc.weight",)):
    folder = root / "head"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(document))
    if tensors:
        builders.write_safetensors(folder / "model.safetensors", dict.fromkeys(tensors, (2, 2)))
    return folder


def _open(root, *, goes_on=False, **fields):
    folder = root / "train"
    folder.mkdir(exist_ok=True)
    return start.open_start(_config(root, **fields), builders.make_context(root), folder=folder, goes_on=goes_on)


@pytest.mark.parametrize(
    ("document", "norms"),
    [
        (SPECULATORS, ["--norm-before-residual", "--norm-before-fc", "--no-norm-output", "--fc-norm"]),
        (ORIGINAL, ["--no-norm-before-residual", "--no-norm-before-fc", "--no-norm-output"]),
        (
            {**ORIGINAL, "eagle_config": {"norm_before_residual": True}},
            ["--norm-before-residual", "--no-norm-before-fc", "--no-norm-output"],
        ),
    ],
    ids=["speculators", "original", "original-with-a-norm"],
)
def test_decoder_and_norms_are_the_heads_own(tmp_path, document, norms):
    """Weights computed with other norms, or another width, would be other functions under the same names."""
    head = _head(tmp_path, document)
    begun = _open(tmp_path)
    assert begun.head == head
    assert begun.flags == [f"--draft-config={tmp_path / 'train' / 'start'}", *norms]
    assert json.loads((begun.decoder / "config.json").read_text()) == DECODER


def test_checkpoint_of_the_run_wins_over_the_head(tmp_path):
    """An attempt that goes on builds the same head again, and reads the given one no more, not even its files."""
    head = _head(tmp_path, SPECULATORS)
    first = _open(tmp_path)
    shutil.rmtree(head)
    again = _open(tmp_path, goes_on=True)
    assert (again.head, again.flags) == (None, first.flags)


def test_without_a_head_the_weights_are_random(tmp_path):
    """Nothing is read and nothing is passed on."""
    assert _open(tmp_path, start=None) is None


def test_unset_start_leaves_the_digest_as_it_was(tmp_path):
    """A training that is under way while the operator is upgraded is found again by its digest."""
    bare, started = _config(tmp_path, start=None), _config(tmp_path)
    # Of the configuration as version 0.1.0's first users have it on their volumes.
    shape = bare.model_dump(
        mode="json",
        include={
            "target",
            "layers",
            "vocabulary_size",
            "auxiliary_layers",
            "epochs",
            "learning_rate",
            "total_sequence_length",
            "ttt_steps",
            "seed",
        },
    )
    assert train.input_digest(bare, "sha256:1") == train.names.digest({"states": "sha256:1", "training": shape})
    assert train.input_digest(started, "sha256:1") != train.input_digest(bare, "sha256:1")


@pytest.mark.parametrize(
    ("document", "tensors", "fields", "message"),
    [
        (SPECULATORS, (), {}, r"draft\.startFrom: .* holds no \*\.safetensors"),
        ({**SPECULATORS, "draft_vocab_size": 16}, ("fc.weight",), {}, "no tensor d2t that says which tokens"),
        (SPECULATORS, ("fc.weight",), {"start_manifest_digest": builders.DIGEST}, r"holds no manifest\.json"),
    ],
    ids=["no-safetensors", "no-map", "another-manifest"],
)
def test_head_that_is_not_whole_is_refused(tmp_path, document, tensors, fields, message):
    """It may have changed since it was inspected."""
    _head(tmp_path, document, tensors)
    with pytest.raises(PermanentError, match=message):
        _open(tmp_path, **fields)


def test_missing_head_is_named_by_its_field(tmp_path):
    """Not by the target's, whose reader is the same."""
    with pytest.raises(PermanentError, match=r"draft\.startFrom: head folder .* correct draft\.startFrom\.uri"):
        _open(tmp_path)


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (list(range(32)), "Its draft vocabulary of 32 was taken over."),
        (list(range(16)), "The draft vocabulary was remapped: 32 tokens of this data for its 16."),
    ],
)
def test_message_says_which_vocabulary_it_is(tmp_path, tokens, said):
    """And which tensors began anew."""
    decided = start.Decisions(flags=[], tokens=tokens)
    told = start.describe(_config(tmp_path), decided, start.Note(taken=11, left=["norm.weight"]))
    assert told == f"Started from 11 tensors of {tmp_path / 'head'}; norm.weight began anew. {said}"


def test_whole_vocabulary_is_told_as_taken_over(tmp_path):
    """A head without a draft vocabulary, for a target of as many tokens."""
    decided = start.Decisions(flags=[], tokens=None)
    told = start.describe(_config(tmp_path), decided, start.Note(taken=11, whole=True))
    assert told.endswith("It keeps the target's whole vocabulary.")
