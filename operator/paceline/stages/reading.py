"""Where Inspect reads a checkpoint from: a volume, a hub or a bucket, with the small files at hand each time.

The weights stay where they are. What is known of them without a download is their names, sizes and the server's
digests, and the headers of those that no index describes.
"""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from paceline.api import stages
from paceline.checkpoints import files
from paceline.stages import remote_files, target_files
from paceline.stages.failures import PermanentError

_SMALL_SUFFIXES: Final = (".json", ".jinja", ".txt", ".model")
_SMALL_LIMIT: Final = 256 * 2**20

Listing: TypeAlias = list[tuple[str, int, str]]
"""Name, bytes and digest of each weight file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One checkpoint, opened."""

    folder: Path
    """Holds the small files."""
    files: files.Files
    """All files, the weights by name, size and header."""
    remote: remote_files.Remote | None = None
    """Where the weights are; None when they lie in ``folder`` too."""

    @property
    def is_whole(self) -> bool:
        """Whether the weights lie in ``folder`` too."""
        return self.remote is None


@contextlib.contextmanager
def open_place(source: stages.TargetRef) -> Iterator[Place]:
    """Yield where a checkpoint can be read; what was fetched from a bucket goes at the end.

    Raises:
        PermanentError: when it does not exist or may not be read.
        TransientError: when its server does not answer.
    """
    if source.path.startswith("/"):
        folder = target_files.locate(source, weights=False)
        yield Place(folder=folder, files=files.Folder(path=folder))
    elif source.path.startswith("s3://"):
        remote = remote_files.open_bucket(source)
        with tempfile.TemporaryDirectory(prefix="checkpoint-") as scratch:
            remote_files.fetch(remote, Path(scratch), suffixes=_SMALL_SUFFIXES, limit=_SMALL_LIMIT)
            yield _layered(Path(scratch), remote)
    else:
        folder = target_files.locate(source, weights=False, token=remote_files.hub_token(source))
        yield _layered(folder, remote_files.open_hub(source))


def _layered(folder: Path, remote: remote_files.Remote) -> Place:
    """Return a place whose small files lie in ``folder``."""
    layers = remote_files.Layered(fetched=files.Folder(path=folder), rest=remote)
    return Place(folder=folder, files=layers, remote=remote)


def list_weights(place: Place, source: stages.TargetRef) -> Listing:
    """Return the weight files, by which a target is told from any other.

    Raises:
        PermanentError: when there are none, or one is missing or cut off.
    """
    if place.is_whole:
        return [
            (file.path.name, file.size_bytes, hashlib.sha256(file.header).hexdigest())
            for file in target_files.weight_files(place.folder)
        ]
    found = _in_bucket(place) if source.path.startswith("s3://") else _on_hub(source)
    if not found:
        title = source.path if source.path.startswith("s3://") else f"hf://{source.path}"
        raise PermanentError(f"{title} holds no *.safetensors; choose a safetensors checkpoint")
    return found


def _in_bucket(place: Place) -> Listing:
    remote = place.remote
    if remote is None:
        return []
    sizes = {name: size for name, size in remote.sizes().items() if name.endswith(".safetensors")}
    return [(name, sizes[name], remote.etag(name)) for name in sorted(sizes)]


def _on_hub(source: stages.TargetRef) -> Listing:
    from huggingface_hub import HfApi  # noqa: PLC0415 - only the trainer image has it

    api = HfApi(token=remote_files.hub_token(source))
    info = api.model_info(source.path, revision=source.revision, files_metadata=True)
    entries = [entry for entry in info.siblings or [] if entry.rfilename.endswith(".safetensors")]
    return [(entry.rfilename, entry.size or 0, entry.lfs.sha256 if entry.lfs else "") for entry in entries]
