"""Training: what the trainer is told, and what is passed on of what it tells."""

import json
from pathlib import Path

import pytest

from paceline.api import stages
from paceline.stages import train, workspace
from paceline.stages.failures import PermanentError
from stages import builders


def _config(root, **fields):
    shape = {
        "layers": 1,
        "vocabulary_size": 16,
        "auxiliary_layers": [2, 15, 27],
        "epochs": 3,
        "learning_rate": 1e-3,
        "total_sequence_length": 512,
        "ttt_steps": 3,
        "seed": 1,
        "hidden_states_path": str(root / "hidden"),
        **fields,
    }
    return stages.TrainConfig(**builders.common(root, **shape))


def _arguments(root, maps=(Path("/w/d2t.npy"), Path("/w/t2d.npy")), **fields):
    paths = {"target": Path("/t"), "dataset": Path("/d"), "samples": Path("/s"), "folder": Path("/w")}
    return train.arguments(_config(root, **fields), **paths, maps=maps)


def test_arguments_follow_the_configuration(tmp_path):
    """What the resource says reaches the trainer under its own names."""
    flags = _arguments(tmp_path)
    assert {"--epochs=3", "--lr=0.001", "--draft-vocab-size=16", "--on-missing=raise", "--seed=1"} <= set(flags)
    assert flags[-4:] == ["--target-layer-ids", "2", "15", "27"]


def test_whole_vocabulary_needs_no_maps(tmp_path):
    """A draft vocabulary of the target's size maps nothing."""
    assert not any("vocab" in flag or "d2t" in flag for flag in _arguments(tmp_path, maps=None))


def test_inputs_decide_the_digest_and_places_do_not(tmp_path):
    """The same training on another volume is the same training."""
    digest = train.input_digest(_config(tmp_path), "sha256:1")
    assert train.input_digest(_config(tmp_path, hidden_states_path="/elsewhere"), "sha256:1") == digest
    assert train.input_digest(_config(tmp_path, epochs=4), "sha256:1") != digest
    assert train.input_digest(_config(tmp_path), "sha256:2") != digest


def test_last_event_is_told_and_half_a_line_is_not(tmp_path):
    """Progress is read while the trainer writes."""
    path = tmp_path / "events.jsonl"
    events = [{"epoch": 0, "step": step, "steps": 30} for step in (5, 6)]
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + '{"epoch": 0, "st')
    assert list(train.read_events(path))[-1]["step"] == 6
    assert list(train.read_events(tmp_path / "none")) == []


def test_event_reads_as_a_sentence():
    """People read status.progress.message."""
    event = {"epoch": 1, "step": 40, "steps": 60, "loss": 3.14159, "accuracy": [0.62, 0.371]}
    expected = "epoch 2 of 3, step 40 of 60, loss 3.142, accuracy by position 0.62/0.37"
    assert train.describe(event, epochs=3) == expected


def test_training_needs_hidden_states(tmp_path):
    """Without the earlier stages there is nothing to train on."""
    with pytest.raises(PermanentError, match="Prepare stage must succeed first"):
        train.run(_config(tmp_path), builders.make_context(tmp_path))


def test_finished_training_is_reported_without_training(tmp_path):
    """A rerun after the last epoch's checkpoint starts no trainer: its head is found by digest."""
    context = builders.make_context(tmp_path)
    prepared = stages.PrepareResult(data_digest=builders.DIGEST, train_samples=1, holdout_samples=1, train_tokens=9)
    extracted = stages.ExtractResult(samples=1, tokens=9, hidden_bytes=9, agreement_percent=100)
    context.workspace.finish("Prepare", workspace.Done(input_digest="sha256:1", folder="p", result=prepared))
    context.workspace.finish("Extract", workspace.Done(input_digest="sha256:2", folder="/s", result=extracted))
    wanted = _config(tmp_path)
    folder = context.workspace.folder("Train", train.input_digest(wanted, "sha256:2"))
    head = builders.write_checkpoint(folder / "checkpoints", 2)
    assert train.run(wanted, context).checkpoint == str(head)
