"""The trainer's own process: ``speculators train``, made to save atomically, tell its progress and stop well.

Speculators writes checkpoints in place and, on SIGTERM, saves a folder that it will not resume from and exits 0. Here a
checkpoint appears by one rename; SIGTERM ends the current step, saves it as a checkpoint that is resumed from, and
exits with 143. Started by ``train`` with the arguments of ``speculators train``.
"""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, Final

import torch.distributed
from speculators.train import cli
from speculators.train.config import TrainConfig
from speculators.train.trainer import Trainer

from paceline.podside import clock as clocks
from paceline.stages import checkpoints, jsonl, start, start_weights, train, workspace
from paceline.stages.cpu import hardware
from paceline.stages.cpu import trainer as cpu_trainer

_EXIT_TERMINATED: Final = 128 + signal.SIGTERM
_EVENT_EVERY_S: Final = 2.0
_KEEP_CHECKPOINTS: Final = 2


class HeadTrainer(Trainer):  # type: ignore[misc] # speculators has no types for mypy
    """Speculators' trainer with checkpoints that are whole or absent."""

    events: jsonl.JsonLog
    staging: Path
    clock: clocks.Clock = clocks.SystemClock()
    stopping: bool = False

    def run_training(self) -> None:
        """Train without the original's signal handling; ours is set by ``main``."""
        self._told_s = 0.0
        self._latest: dict[str, Any] = {}
        Trainer.run_training.__wrapped__(self)

    def train_epoch(self, epoch: int, **_: Any) -> None:
        """Train one epoch, looking at each step whether to stop."""
        steps = len(self.train_loader)

        def after_step() -> None:
            self._tell(epoch, steps * self.config.num_epochs)
            if type(self).stopping:
                self._stop(epoch, self.global_step - epoch * steps, steps)

        super().train_epoch(epoch, step_callback=after_step)

    def val_epoch(self, epoch: int) -> dict[str, float] | None:
        """Keep the validation of every epoch; the original keeps that of the best only."""
        metrics: dict[str, float] | None = super().val_epoch(epoch)
        if metrics and (self.checkpointer.path / str(epoch)).is_dir():
            self.checkpointer.save_val_metrics(epoch, metrics)
            self._latest = {
                "loss": metrics.get("loss_epoch"),
                "accuracy": [value for name, value in sorted(metrics.items()) if name.startswith("full_acc_")],
            }
        return metrics

    def maybe_save_checkpoint(self, epoch: int | str, local_step: int = 0) -> None:
        """Save beside the checkpoints, then move the whole folder into place."""
        home = self.checkpointer.path
        self.checkpointer.path = type(self).staging
        try:
            super().maybe_save_checkpoint(epoch, local_step)
        finally:
            self.checkpointer.path = home
        if self.rank == 0:
            _move_into_place(type(self).staging / str(epoch), home / str(epoch))
            checkpoints.prune(home, keep_last=_KEEP_CHECKPOINTS)

    def _stop(self, epoch: int, local_step: int, steps: int) -> None:
        """End here. Ranks are not at the same step, so several of them cannot save together; they lose the epoch."""
        if not self.is_distributed and 0 < local_step < steps:
            self.maybe_save_checkpoint(epoch, local_step=local_step)
        sys.exit(_EXIT_TERMINATED)

    def _tell(self, epoch: int, steps: int) -> None:
        now_s = self.clock.monotonic()
        if self.rank == 0 and now_s - self._told_s >= _EVENT_EVERY_S:
            self._told_s = now_s
            type(self).events.append({"epoch": epoch, "step": self.global_step, "steps": steps, **self._latest})


def _move_into_place(source: Path, target: Path) -> None:
    """Put a saved checkpoint into place; an older state of the same epoch leaves first, and may be lost to a kill."""
    if not source.is_dir():
        return
    if target.exists():
        shutil.rmtree(target)
    # Safetensors are written for their owner alone; the engine that evaluates the head may run as somebody else.
    for path in source.iterdir():
        path.chmod(0o644)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)


def main() -> None:
    """Train as the command line says."""
    HeadTrainer.staging = Path(os.environ[train.STAGING_VARIABLE])
    HeadTrainer.events = jsonl.JsonLog(Path(os.environ[train.EVENTS_VARIABLE]))
    arguments = sys.argv[1:]
    if not hardware.has_accelerator():
        dtype = hardware.dtype(hardware.flags(hardware.read_cpuinfo()))
        arguments += [f"--{name}={value}" for name, value in cpu_trainer.options(dtype).items()]
        cpu_trainer.apply()
    signal.signal(signal.SIGTERM, _stop_after_this_step)
    cli.Trainer = HeadTrainer
    if folder := os.environ.get(train.START_VARIABLE):
        _start_from(Path(os.environ[train.HEAD_VARIABLE]), Path(folder))
    cli.main(TrainConfig.resolve(arguments))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _start_from(head: Path, folder: Path) -> None:
    """Make the trainer's new head begin with the weights of ``head``."""
    build = cli.build_draft_model

    def build_started(*arguments: Any, **settings: Any) -> Any:
        model = build(*arguments, **settings)
        try:
            note = start_weights.lay_over(model, head, start.read_decisions(folder).tokens)
        except start_weights.UnfitError as error:
            said = f"draft.startFrom: {head} cannot be started from: {error}; name another head, or remove startFrom"
            note = start.Note(refused=said)
        if int(os.environ.get("RANK", "0")) == 0:
            workspace.write_atomically(start.note_path(folder), note.model_dump_json(by_alias=True).encode())
        if note.refused:
            sys.exit(note.refused)
        return model

    cli.build_draft_model = build_started


def _stop_after_this_step(*_: object) -> None:
    HeadTrainer.stopping = True


if __name__ == "__main__":
    main()
