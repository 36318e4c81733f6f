"""A checkpoint counts when it is whole; the trainer's exit code counts for nothing."""

import json

from paceline.stages import checkpoints
from stages import builders


def test_final_epoch_is_found(tmp_path):
    """Epochs are counted from zero on disk."""
    builders.write_checkpoint(tmp_path, 0)
    last = builders.write_checkpoint(tmp_path, 1)
    assert checkpoints.final(tmp_path, epochs=2).folder == last


def test_training_has_not_ended_in_mid_epoch(tmp_path):
    """A checkpoint saved on SIGTERM in the last epoch is no finished head."""
    builders.write_checkpoint(tmp_path, 1, local_step=7)
    assert checkpoints.final(tmp_path, epochs=2) is None


def test_missing_folder_is_no_checkpoint(tmp_path):
    """A first attempt has nothing."""
    assert checkpoints.whole(tmp_path / "none") == []


def test_partial_folders_are_removed_and_whole_ones_kept(tmp_path):
    """The trainer resumes from the highest number, so what is cut off must go."""
    builders.write_checkpoint(tmp_path, 0)
    cut = builders.write_checkpoint(tmp_path, 1)
    builders.write_safetensors(cut / "model.safetensors", {"fc.weight": (2, 2)}, missing_bytes=1)
    stateless = builders.write_checkpoint(tmp_path, 2)
    (stateless / "training_state.json").unlink()
    (tmp_path / "interrupted").mkdir()
    assert checkpoints.discard_partial(tmp_path) == ["1", "2", "interrupted"]
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_pruning_spares_the_last_and_the_best(tmp_path):
    """Old epochs go, but not the one that validated best."""
    for epoch in range(4):
        builders.write_checkpoint(tmp_path, epoch)
    (tmp_path / "checkpoint_best").symlink_to("0")
    checkpoints.prune(tmp_path, keep_last=2)
    assert [checkpoint.epoch for checkpoint in checkpoints.whole(tmp_path)] == [0, 2, 3]


def test_accuracies_are_read_by_position(tmp_path):
    """Names are the trainer's own."""
    folder = builders.write_checkpoint(tmp_path, 0)
    metrics = {"full_acc_1_epoch": 0.4, "full_acc_0_epoch": 0.6, "loss_epoch": 2.5}
    (folder / "val_metrics.json").write_text(json.dumps(metrics))
    assert checkpoints.accuracies(checkpoints.whole(tmp_path)[0]) == ([0.6, 0.4], 2.5)


def test_unvalidated_epoch_has_no_accuracies(tmp_path):
    """Killed between saving and validating: the head is whole, its figures are not."""
    builders.write_checkpoint(tmp_path, 0)
    assert checkpoints.accuracies(checkpoints.whole(tmp_path)[0]) == ([], None)
