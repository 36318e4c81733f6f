"""What a training takes from the head that it starts from, decided before the trainer runs and kept beside its work.

The trainer's own ``--from-pretrained`` keeps the head's configuration as well: the name of its target, whose output
matrix would then teach, and its draft vocabulary. So the head is built as for any run, with the given one's decoder and
norms, and its weights are laid over it (``start_weights``). What was decided here holds for the attempts that go on
from a checkpoint: they do not read the head again.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pydantic

from paceline.api import stages
from paceline.api.base import ApiModel
from paceline.checkpoints import files
from paceline.stages import heads, reading, target_files, workspace
from paceline.stages.context import Context
from paceline.stages.failures import PermanentError

_FOLDER: Final = "start"
_DECISIONS: Final = "decisions.json"
_NOTE: Final = "start-note.json"
_DECODER: Final = "transformer_layer_config"
_DECODER_TYPES: Final = ("llama", "qwen3")
# Of the original layout: what names the whole head, not its decoder.
_NOT_DECODER: Final = frozenset(
    {"architectures", "auto_map", "eagle_config", "quantization_config", "draft_vocab_size"}
)
_NORMS: Final = ("norm_before_residual", "norm_before_fc", "norm_output")
_FC_NORM: Final = "fc_norm"


class Decisions(ApiModel):
    """What is taken from a head apart from its weights."""

    flags: list[str]
    """The trainer's arguments for its norms."""
    tokens: list[int] | None
    """Its draft vocabulary as target token ids, by draft id; None for the target's whole vocabulary."""


class Note(ApiModel):
    """What the trainer's process did with the weights."""

    taken: int = 0
    """Tensors that are the head's."""
    left: list[str] = []
    """Trained tensors that the head lacks; they begin as in any run."""
    whole: bool = False
    """Whether both heads have the target's whole vocabulary."""
    refused: str = ""
    """Why its weights cannot be started from; empty when they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A head to start from, as far as the trainer's arguments go."""

    decoder: Path
    """Folder with the configuration of its decoder."""
    decisions: Decisions
    head: Path | None
    """Folder of its files; None when a checkpoint of this run goes on instead."""

    @property
    def flags(self) -> list[str]:
        """The trainer's arguments."""
        return [f"--draft-config={self.decoder}", *self.decisions.flags]


def open_start(config: stages.TrainConfig, context: Context, *, folder: Path, goes_on: bool) -> Start | None:
    """Return what a training starts from; None for random weights.

    Args:
        config: of the stage.
        context: of the stage.
        folder: of this training's work.
        goes_on: whether a checkpoint of this run is there, which wins over the head.

    Raises:
        PermanentError: when the head cannot be read, or is another one than was inspected.
        TransientError: when the hub does not answer.
    """
    if config.start is None:
        return None
    home = folder / _FOLDER
    if goes_on and home.is_dir():
        return Start(decoder=home, decisions=read_decisions(folder), head=None)
    head = _locate(config)
    if not home.is_dir():
        document = target_files.read_json(head / target_files.CONFIG)
        decisions = Decisions(flags=_norm_flags(document), tokens=_tokens(head, document))
        scratch = context.workspace.scratch(folder)
        (scratch / target_files.CONFIG).write_text(json.dumps(decoder(document)))
        (scratch / _DECISIONS).write_text(decisions.model_dump_json(by_alias=True))
        workspace.commit_folder(scratch, home)
    return Start(decoder=home, decisions=read_decisions(folder), head=head)


def read_decisions(folder: Path) -> Decisions:
    """Return what was decided for the training whose work lies in ``folder``."""
    return Decisions.model_validate_json((folder / _FOLDER / _DECISIONS).read_bytes())


def note_path(folder: Path) -> Path:
    """Return where the trainer's process says what it did with the weights."""
    return folder / _NOTE


def read_note(folder: Path) -> Note | None:
    """Return what the trainer's process did with the weights; None when it did not come to it."""
    try:
        return Note.model_validate_json(note_path(folder).read_bytes())
    except (FileNotFoundError, pydantic.ValidationError):
        return None


def describe(config: stages.TrainConfig, decided: Decisions, note: Note) -> str:
    """Return in a sentence or two what was taken, for ``status.stages``."""
    size, tokens = config.vocabulary_size, decided.tokens
    if note.whole:
        words = "It keeps the target's whole vocabulary."
    elif tokens is not None and len(tokens) == size:
        words = f"Its draft vocabulary of {size} was taken over."
    else:
        had = f"for its {len(tokens)}" if tokens is not None else "in place of the whole"
        words = f"The draft vocabulary was remapped: {size} tokens of this data {had}."
    left = f"; {', '.join(note.left[:4])} began anew" if note.left else ""
    return f"Started from {note.taken} tensors of {config.start.path if config.start else ''}{left}. {words}"[:1000]


def made(config: stages.TrainConfig, folder: Path) -> str:
    """Return what a finished training says of its start; empty without one."""
    note = read_note(folder) if config.start else None
    return describe(config, read_decisions(folder), note) if note else ""


def decoder(document: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a head's decoder.

    A head of the original layout is a Llama decoder, whatever model type its producer wrote.
    """
    inner = document.get(_DECODER)
    if isinstance(inner, dict):
        return inner
    kept = {key: value for key, value in document.items() if key not in _NOT_DECODER}
    return kept if kept.get("model_type") in _DECODER_TYPES else {**kept, "model_type": "llama"}


def _locate(config: stages.TrainConfig) -> Path:
    if config.start is None:
        raise AssertionError("there is no head to start from")
    try:
        head = target_files.locate_whole(config.start)
        list(target_files.weight_files(head))
    except PermanentError as error:
        said = str(error).replace("target.", "draft.startFrom.").replace("target", "head", 1)
        raise PermanentError(f"draft.startFrom: {said}") from error
    place = reading.Place(folder=head, files=files.Folder(path=head))
    for problem in heads.of_manifest(place, config.start_manifest_digest):
        raise PermanentError(f"draft.startFrom: {problem}")
    return head


def _norm_flags(document: dict[str, Any]) -> list[str]:
    """Return the norms that a head has, all of which engines take for absent where its configuration is silent."""
    inner = document.get("eagle_config")
    known = {**(inner if isinstance(inner, dict) else {}), **document}
    flags = [f"--{'' if known.get(name) is True else 'no-'}{name.replace('_', '-')}" for name in _NORMS]
    return [*flags, *(["--fc-norm"] if known.get(_FC_NORM) is True else [])]


def _tokens(head: Path, document: dict[str, Any]) -> list[int] | None:
    """Return a head's draft vocabulary as target token ids, by draft id.

    Raises:
        PermanentError: when its map is missing or damaged.
    """
    whole = decoder(document).get("vocab_size")
    size = document.get("draft_vocab_size", whole)
    found = target_files.find_tensor(head, ["d2t"])
    if found is None:
        if size != whole:
            raise PermanentError(
                f"draft.startFrom: {head} has a draft vocabulary of {size} and no tensor d2t that says which tokens "
                "those are; name a head with its vocabulary map"
            )
        return None
    from safetensors import safe_open  # noqa: PLC0415 - only the trainer image has it

    with safe_open(found[0], framework="pt") as file:
        handle: Any = file
        offsets = handle.get_tensor(found[1]).tolist()
    tokens = [index + int(offset) for index, offset in enumerate(offsets)]
    if len(set(tokens)) != len(tokens) or not all(0 <= token < int(whole or 0) for token in tokens):
        raise PermanentError(
            f"draft.startFrom: tensor d2t of {head} does not name {len(tokens)} different tokens of its vocabulary of "
            f"{whole}; name a head whose vocabulary map is whole"
        )
    return tokens
