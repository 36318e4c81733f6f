"""Train: an EAGLE-3 head on the extracted hidden states, by speculators in a child process.

Done means that the final epoch's checkpoint is whole. Everything before is resumed from the highest whole checkpoint.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from paceline.api import names, stages
from paceline.stages import (
    checkpoints,
    children,
    extract,
    jsonl,
    prepare,
    start,
    target_files,
    trainer_environment,
    vocabulary,
    workspace,
)
from paceline.stages.context import Context
from paceline.stages.cpu import hardware
from paceline.stages.failures import PermanentError, TransientError

CHECKPOINTS: Final = "checkpoints"
EVENTS_VARIABLE: Final = "PACELINE_TRAINER_EVENTS"
STAGING_VARIABLE: Final = "PACELINE_TRAINER_STAGING"
START_VARIABLE: Final = "PACELINE_TRAINER_START"
"""Folder of this training's work, when its weights are to be those of a head."""
HEAD_VARIABLE: Final = "PACELINE_TRAINER_HEAD"
"""Folder of that head."""
_EVENT_TAIL_BYTES: Final = 8192


def run(config: stages.TrainConfig, context: Context) -> stages.TrainResult:
    """Return where the final epoch's head lies.

    Raises:
        TransientError: when the trainer ended without finishing.
    """
    data, states = extract.read_data(context.workspace), _read_states(context)
    digest = input_digest(config, states.input_digest)
    done = context.workspace.read_done("Train", stages.TrainResult)
    if done and done.input_digest == digest and Path(done.result.checkpoint).is_dir():
        return done.result
    folder = context.workspace.folder("Train", digest)
    dataset = context.workspace.root / data.folder / prepare.DATASET
    final = checkpoints.final(folder / CHECKPOINTS, epochs=config.epochs)
    final = final or _train(config, context, folder=folder, dataset=dataset, samples=Path(states.folder))
    by_position, loss = checkpoints.accuracies(final)
    result = stages.TrainResult(
        checkpoint=str(final.folder),
        epochs=config.epochs,
        accuracy_by_position=by_position,
        loss=loss,
        start=start.made(config, folder),
    )
    context.workspace.finish("Train", workspace.Done(input_digest=digest, folder=folder.name, result=result))
    return result


def input_digest(config: stages.TrainConfig, states_digest: str) -> str:
    """Return the digest of all that decides the head."""
    # A field that came later counts only when it is set: a training under way goes on after an upgrade.
    unset = {name for name in ("start", "start_manifest_digest") if getattr(config, name) is None}
    places = {"job_name", "job_uid", "workspace", "hidden_states_path", "stage"}
    shape = config.model_dump(mode="json", exclude=places | unset)
    return names.digest({"states": states_digest, "training": shape})


def arguments(
    config: stages.TrainConfig,
    *,
    target: Path,
    dataset: Path,
    samples: Path,
    folder: Path,
    maps: tuple[Path, Path] | None,
) -> list[str]:
    """Return the arguments of ``speculators train`` but for the decoder's; the child adds what only a CPU needs."""
    options: dict[str, Any] = {
        "speculator-type": "eagle3",
        "verifier-name-or-path": target,
        "data-path": dataset / prepare.ARROW,
        "hidden-states-path": samples,
        "save-path": folder / CHECKPOINTS,
        "log-dir": folder / "logs",
        "logger": "",
        "on-missing": "raise",
        "epochs": config.epochs,
        "lr": config.learning_rate,
        "total-seq-len": config.total_sequence_length,
        "ttt-steps": config.ttt_steps,
        "seed": config.seed,
        "log-freq": 10,
        # The fused Triton losses end in a Dynamo assertion on torch 2.11; eager costs memory that EAGLE-3 does not
        # lack.
        "loss-implementation": "eager",
    }
    if maps:
        options |= {"draft-vocab-size": config.vocabulary_size, "d2t-path": maps[0], "t2d-path": maps[1]}
    flags = [f"--{name}={value}" for name, value in options.items()]
    if config.target.trust_remote_code:
        flags.append("--trust-remote-code")
    if config.auxiliary_layers:
        flags += ["--target-layer-ids", *(str(layer) for layer in config.auxiliary_layers)]
    return flags


def _read_states(context: Context) -> workspace.Done[stages.ExtractResult]:
    done = context.workspace.read_done("Extract", stages.ExtractResult)
    if done is None:
        raise PermanentError(
            f"{context.workspace.root} holds no finished hidden states; the Extract stage must succeed first"
        )
    return done


def _train(
    config: stages.TrainConfig, context: Context, *, folder: Path, dataset: Path, samples: Path
) -> checkpoints.Checkpoint:
    """Run the trainer to the end of the last epoch."""
    root = folder / CHECKPOINTS
    checkpoints.discard_partial(root)
    target = target_files.locate(config.target, weights=True)
    begun = start.open_start(config, context, folder=folder, goes_on=bool(checkpoints.whole(root)))
    tokens = begun.decisions.tokens if begun else None
    maps = _write_maps(config, context, target=target, dataset=dataset, folder=folder, tokens=tokens)
    events = folder / "events" / f"{context.workspace.attempt}.jsonl"
    environment = trainer_environment.variables() | {
        EVENTS_VARIABLE: str(events),
        STAGING_VARIABLE: str(context.workspace.scratch(folder)),
    }
    if begun and begun.head:
        environment |= {START_VARIABLE: str(folder), HEAD_VARIABLE: str(begun.head)}
    flags = arguments(config, target=target, dataset=dataset, samples=samples, folder=folder, maps=maps)
    # A head that is started from brings its own decoder, which the trainer takes whole or not at all.
    flags += begun.flags if begun else [f"--num-layers={config.layers}"]
    context.progress.phase(_share_done(root, config), "loading the trainer")
    code, tail = children.run(
        [*_launcher(), "paceline.stages.trainer_process", *flags],
        environment=environment,
        stop=context.stop,
        tick=_teller(events, context, epochs=config.epochs),
    )
    final = checkpoints.final(root, epochs=config.epochs)
    note = start.read_note(folder)
    if note and note.refused:
        raise PermanentError(note.refused)
    if final is None:
        raise TransientError(
            f"the trainer ended (exit code {code}) without epoch {config.epochs}'s checkpoint: {tail[-600:]}"
        )
    return final


def _launcher() -> list[str]:
    """Return how to start the trainer: one process for each accelerator of this pod."""
    count = hardware.accelerator_count()
    if count <= 1:
        return [sys.executable, "-m"]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", "-m"]


def _write_maps(
    config: stages.TrainConfig,
    context: Context,
    *,
    target: Path,
    dataset: Path,
    folder: Path,
    tokens: list[int] | None,
) -> tuple[Path, Path] | None:
    """Return the files of the two vocabulary maps, or None when the draft keeps the target's whole vocabulary."""
    document = target_files.read_json(target / target_files.CONFIG)
    size = int(document.get("text_config", document)["vocab_size"])
    if config.vocabulary_size == size:
        return None
    home = folder / "vocabulary"
    if not home.is_dir():
        chosen = (
            sorted(tokens)
            if tokens is not None and len(tokens) == config.vocabulary_size
            else vocabulary.choose(
                extract.load_frequencies(dataset), draft_size=config.vocabulary_size, target_size=size
            )
        )
        scratch = context.workspace.scratch(folder)
        vocabulary.write_maps(
            chosen, target_size=size, draft_to_target=scratch / "d2t.npy", target_to_draft=scratch / "t2d.npy"
        )
        workspace.commit_folder(scratch, home)
    return home / "d2t.npy", home / "t2d.npy"


def _share_done(root: Path, config: stages.TrainConfig) -> float:
    """Return what earlier attempts have trained, 0 to 1, by whole epochs."""
    found = checkpoints.whole(root)
    return (found[-1].epoch + found[-1].ends_epoch) / config.epochs if found else 0.0


def _teller(events: Path, context: Context, *, epochs: int) -> Callable[[], None]:
    """Return a tick that passes the trainer's last event on."""
    started = False

    def tick() -> None:
        nonlocal started
        event = next(reversed(list(read_events(events))), None)
        if event is None:
            return
        share, message = event["step"] / max(1, event["steps"]), describe(event, epochs=epochs)
        if started:
            context.progress.update(share, message)
        else:
            context.progress.phase(share, message)
            started = True

    return tick


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the trainer's latest events."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - _EVENT_TAIL_BYTES))
            content = handle.read()
    except FileNotFoundError:
        return
    # The first line may be cut by the seek; a damaged line is skipped, so it does no harm.
    for record in jsonl.read_whole(content):
        if {"step", "steps", "epoch"} <= record.keys():
            yield record


def describe(event: dict[str, Any], *, epochs: int) -> str:
    """Return one event as a sentence for ``status.progress``."""
    text = f"epoch {event['epoch'] + 1} of {epochs}, step {event['step']} of {event['steps']}"
    if event.get("loss") is not None:
        text += f", loss {event['loss']:.3f}"
    if event.get("accuracy"):
        text += ", accuracy by position " + "/".join(f"{value:.2f}" for value in event["accuracy"])
    return text
