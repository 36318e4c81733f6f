"""Where a target's files are: a mounted folder, or a pinned commit fetched into this pod's cache."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paceline.api import stages
from paceline.stages.failures import PermanentError, TransientError

CONFIG: Final = "config.json"
TOKENIZER_FILES: Final = (
    "tokenizer.json",
    "tokenizer.model",
    "tiktoken.model",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
)
INDEX: Final = "model.safetensors.index.json"
_OUTER_TENSORS: Final = ("embed_tokens.weight", "lm_head.weight", "model.norm.weight")
_SMALL_PATTERNS: Final = ("*.json", "*.jinja", "*.txt", "*.model", "*.py")


def locate(target: stages.TargetRef, *, weights: bool, token: str | None = None) -> Path:
    """Return the folder of the target's files, fetched first when it is a hub's repository.

    Args:
        target: folder or ``organisation/name``.
        weights: whether the weights of the input and output layers are needed too. Of a hub's repository only the files
            that hold those are fetched: a trainer has no use for the layers between, and they may be a terabyte.
        token: of the hub; None leaves it to the environment.

    Raises:
        PermanentError: when the source does not exist or is of no supported kind.
        TransientError: when the hub does not answer.
    """
    if target.path.startswith("s3://"):
        raise PermanentError(
            f"target {target.path} cannot be read by the trainer's tools; copy it to a volume and use pvc://CLAIM/PATH"
        )
    if target.path.startswith("/"):
        return _folder(Path(target.path))
    folder = _fetch(target, _SMALL_PATTERNS, token)
    return _fetch(target, (*_SMALL_PATTERNS, *outer_files(folder)), token) if weights else folder


def locate_whole(source: stages.TargetRef) -> Path:
    """Return the folder of a checkpoint with all its safetensors; the errors are those of ``locate``."""
    folder = locate(source, weights=False)
    return folder if source.path.startswith("/") else _fetch(source, (*_SMALL_PATTERNS, "*.safetensors"), None)


def outer_files(folder: Path) -> list[str]:
    """Return the names of the weight files that hold embeddings, final norm or output matrix, as the index says."""
    index = folder / INDEX
    if not index.is_file():
        return ["model.safetensors"]
    weight_map = read_json(index).get("weight_map", {})
    return sorted({file for name, file in weight_map.items() if name.endswith(_OUTER_TENSORS)})


def find_tensor(folder: Path, wanted: Sequence[str]) -> tuple[Path, str] | None:
    """Return the file and the name of the first of ``wanted`` that a checkpoint has, or None."""
    index = folder / INDEX
    if index.is_file():
        files: dict[str, Path] = {
            name: folder / Path(file).name for name, file in read_json(index).get("weight_map", {}).items()
        }
    else:
        files = {name: file.path for file in weight_files(folder) for name in file.tensors}
    return next(((files[name], name) for name in wanted if name in files), None)


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise PermanentError(f"target folder {path} does not exist; correct target.uri or copy the model to the volume")
    if not (path / CONFIG).is_file():
        raise PermanentError(f"target folder {path} holds no {CONFIG}; target.uri must name a checkpoint folder")
    return path


def _fetch(target: stages.TargetRef, patterns: tuple[str, ...], token: str | None) -> Path:
    from huggingface_hub import errors, snapshot_download  # noqa: PLC0415 - only the trainer image has it

    try:
        return Path(
            snapshot_download(target.path, revision=target.revision, allow_patterns=list(patterns), token=token)
        )
    except errors.GatedRepoError as error:
        # Access may be granted, and a token corrected, without an edit of the spec.
        raise TransientError(
            f"target hf://{target.path} is gated; name a Secret with a token of access in target.credentialsSecret"
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError) as error:
        raise PermanentError(
            f"target hf://{target.path} at revision {target.revision or 'main'} does not exist or is not accessible; "
            "correct target.uri and target.revision, or name a Secret with a token in target.credentialsSecret"
        ) from error
    except (OSError, errors.HfHubHTTPError) as error:
        raise TransientError(f"target hf://{target.path} cannot be fetched now: {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """Return a model file's object.

    Raises:
        PermanentError: when the file is missing or no JSON object.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise PermanentError(f"{path} is missing; copy the whole checkpoint") from error
    except (OSError, ValueError) as error:
        raise PermanentError(f"{path} cannot be read ({error}); copy the checkpoint again") from error
    if not isinstance(document, dict):
        raise PermanentError(f"{path} is no JSON object; copy the checkpoint again")
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFile:
    """One safetensors file: what its header says, without reading its data."""

    path: Path
    size_bytes: int
    header: bytes
    tensors: frozenset[str]


def weight_files(folder: Path) -> Iterator[WeightFile]:
    """Yield the safetensors files of a checkpoint, by name.

    Raises:
        PermanentError: when there are none, one that the index names is missing, or one is cut off.
    """
    present = {path.name for path in folder.glob("*.safetensors")}
    index = folder / INDEX
    wanted = set(read_json(index).get("weight_map", {}).values()) if index.is_file() else present
    if not wanted:
        raise PermanentError(
            f"{folder} holds no *.safetensors; only safetensors checkpoints are read, convert the model"
        )
    if missing := sorted(wanted - present):
        raise PermanentError(
            f"{folder} lacks {missing[0]} and {len(missing) - 1} more weight files; copy the whole checkpoint"
        )
    for name in sorted(wanted):
        yield _read_header(folder / name)


def _read_header(path: Path) -> WeightFile:
    """Read the header: eight bytes of length, then JSON of names, types, shapes and offsets."""
    size = path.stat().st_size
    with path.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        header = handle.read(length) if length < size else b""
    try:
        entries = {name: entry for name, entry in json.loads(header).items() if name != "__metadata__"}
        end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PermanentError(f"{path} is no safetensors file or is cut off; copy it again") from error
    if 8 + length + end != size:
        raise PermanentError(f"{path} has {size} bytes where its header promises {8 + length + end}; copy it again")
    return WeightFile(path=path, size_bytes=size, header=header, tensors=frozenset(entries))
