"""The trainer's checkpoint folder: which epochs are whole, and whether training has ended.

An epoch's folder counts when its ``training_state.json`` (written last) and its weights are whole; the exit code of the
trainer proves nothing, since it also exits 0 after being told to stop. A ``local_step`` above zero marks a folder
saved in mid-epoch.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paceline.stages import target_files
from paceline.stages.failures import PermanentError

STATE: Final = "training_state.json"
VALIDATION: Final = "val_metrics.json"
_NEEDED: Final = ("config.json", "model.safetensors", "optimizer_state_dict.pt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One whole checkpoint."""

    folder: Path
    epoch: int
    """Counted from zero, as the trainer does."""
    local_step: int
    """Steps into the epoch; zero at its end."""

    @property
    def ends_epoch(self) -> bool:
        """Whether its epoch is complete."""
        return self.local_step == 0


def whole(root: Path) -> list[Checkpoint]:
    """Return the whole checkpoints under ``root``, by epoch."""
    found = (_read(folder) for folder in root.iterdir() if folder.name.isdigit()) if root.is_dir() else iter(())
    return sorted((checkpoint for checkpoint in found if checkpoint), key=lambda checkpoint: checkpoint.epoch)


def final(root: Path, *, epochs: int) -> Checkpoint | None:
    """Return the last epoch's checkpoint, or None while training has not ended."""
    for checkpoint in whole(root):
        if checkpoint.epoch == epochs - 1 and checkpoint.ends_epoch:
            return checkpoint
    return None


def discard_partial(root: Path) -> list[str]:
    """Remove what a killed attempt left half done; return the names. The trainer resumes from the highest number."""
    if not root.is_dir():
        return []
    kept = {checkpoint.folder.name for checkpoint in whole(root)}
    partial = [path for path in root.iterdir() if path.is_dir() and not path.is_symlink() and path.name not in kept]
    for path in partial:
        shutil.rmtree(path)
    return sorted(path.name for path in partial)


def prune(root: Path, *, keep_last: int) -> None:
    """Remove all but the last checkpoints and the one that ``checkpoint_best`` points to; each is large."""
    best = root / "checkpoint_best"
    spared = {best.readlink().name} if best.is_symlink() else set()
    for checkpoint in whole(root)[:-keep_last]:
        if checkpoint.folder.name not in spared:
            shutil.rmtree(checkpoint.folder)


def accuracies(checkpoint: Checkpoint) -> tuple[list[float], float | None]:
    """Return accuracy by position and loss of the trainer's own validation; nothing when that was cut off."""
    try:
        metrics = json.loads((checkpoint.folder / VALIDATION).read_text())
        positions = sorted(int(key.split("_")[2]) for key in metrics if key.startswith("full_acc_"))
        by_position = [round(float(metrics[f"full_acc_{position}_epoch"]), 4) for position in positions]
        return by_position, round(float(metrics["loss_epoch"]), 4)
    except (OSError, ValueError, KeyError, IndexError):
        return [], None


def _read(folder: Path) -> Checkpoint | None:
    try:
        state = json.loads((folder / STATE).read_text())
        if not all((folder / name).stat().st_size for name in _NEEDED):
            return None
        list(target_files.weight_files(folder))
        checkpoint = Checkpoint(folder=folder, epoch=int(state["epoch"]), local_step=int(state["local_step"]))
    except (OSError, ValueError, KeyError, TypeError, PermanentError):
        return None
    return checkpoint if str(checkpoint.epoch) == folder.name else None
