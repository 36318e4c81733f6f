"""The files of one checkpoint, wherever they lie: the only thing that reading needs."""

import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from paceline.api.checkpoint import HeadCheckpoint, TargetCheckpoint
from paceline.checkpoints import documents, head, problems, target, tokenizer, weights
from paceline.checkpoints.documents import Json, UnreadableError

CONFIG: Final = "config.json"
INDEX: Final = "model.safetensors.index.json"
MANIFEST: Final = "manifest.json"
"""Which our own heads are published with."""
_CONFIG_LIMIT: Final = 16 * 2**20
_FILE_LIMIT: Final = 256 * 2**20
_SUFFIX: Final = ".safetensors"


class Files(Protocol):
    """A folder of files, read in parts."""

    @property
    def is_near(self) -> bool:
        """Whether reading costs no round trip, so that every header may be looked at."""
        ...

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of each regular file by name, without what lies in folders.

        Raises:
            UnreadableError: when the folder cannot be listed.
        """
        ...

    def size(self, name: str) -> int | None:
        """Return the bytes of one regular file; None when it is not there."""
        ...

    def read(self, name: str, *, at_most: int, start: int = 0) -> bytes:
        """Return up to ``at_most`` bytes of a file from ``start`` on.

        Raises:
            UnreadableError: when it cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder on this machine."""

    path: Path
    is_near: bool = True

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of each regular file; pipes and devices, which would block a reader, are left out."""
        try:
            names = [entry.name for entry in self.path.iterdir()]
        except OSError as error:
            raise UnreadableError(f"folder {self.path} cannot be read ({error.strerror}); name a checkpoint") from error
        return {name: size for name in names if (size := self.size(name)) is not None}

    def size(self, name: str) -> int | None:
        """Return the bytes of a regular file; a link in a circle or a name that cannot be is not there."""
        try:
            found = (self.path / name).stat()
        except (OSError, ValueError):
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def read(self, name: str, *, at_most: int, start: int = 0) -> bytes:
        """Return part of a file."""
        try:
            with (self.path / name).open("rb") as handle:
                handle.seek(start)
                return handle.read(at_most)
        except OSError as error:
            raise UnreadableError(f"{self.path / name} cannot be read ({error.strerror}); check its rights") from error


def read_config(folder: Files) -> Json:
    """Return ``config.json``.

    Raises:
        UnreadableError: when it is missing, too large, or no JSON object.
    """
    raw = read_whole(folder, CONFIG, limit=_CONFIG_LIMIT)
    if raw is None:
        raise UnreadableError(f"there is no {CONFIG}; name a checkpoint's folder, or its config.json itself")
    return documents.parse(raw, name=CONFIG)


def read_whole(folder: Files, name: str, *, limit: int = _FILE_LIMIT) -> bytes | None:
    """Return a file's bytes; None when it is not there.

    Raises:
        UnreadableError: when it is larger than such a file can be.
    """
    size = folder.size(name)
    if size is None:
        return None
    if size > limit:
        raise UnreadableError(f"{name} has {size} bytes, more than such a file can have; copy the checkpoint again")
    return folder.read(name, at_most=limit)


def read_tokenizer(folder: Files) -> str | None:
    """Return the fingerprint of a folder's tokenizer; None when there is none.

    Raises:
        UnreadableError: when a tokenizer file is damaged.
    """
    return tokenizer.fingerprint(lambda name: read_whole(folder, name))


def read_weights(folder: Files) -> weights.Weights | None:
    """Return what index and headers say of a folder's weights; None when it holds neither.

    Raises:
        UnreadableError: when an index is no JSON, or a file is cut off.
    """
    raw = read_whole(folder, INDEX)
    index = weights.from_index(documents.parse(raw, name=INDEX), name=INDEX) if raw is not None else None
    there = {name: size for name, size in folder.sizes().items() if name.endswith(_SUFFIX)}
    looked_at = there if index is None or folder.is_near else {}
    merged = weights.merged(index, {name: _header(folder, name, size) for name, size in looked_at.items()})
    if index is None or merged is None or index.files <= set(there):
        return merged
    return weights.with_missing(merged, sorted(index.files - set(there)), is_metadata_only=not there)


def _header(folder: Files, name: str, size: int) -> weights.Weights:
    length = weights.header_length(folder.read(name, at_most=8), name=name, size=size)
    return weights.from_header(folder.read(name, at_most=length, start=8), name=name, size=size)


def read_target(folder: Files) -> TargetCheckpoint:
    """Return the facts of a target.

    Raises:
        UnreadableError: when a file is missing or damaged.
    """
    return target.read(read_config(folder), weights=read_weights(folder), tokenizer=read_tokenizer(folder))


def read_head(folder: Files) -> HeadCheckpoint:
    """Return the facts of a head; its manifest tells for which tokenizer it was trained, else a tokenizer beside it.

    Raises:
        UnreadableError: when a file is missing or damaged.
    """
    raw = read_whole(folder, MANIFEST, limit=_CONFIG_LIMIT)
    manifest = documents.parse(raw, name=MANIFEST) if raw is not None else {}
    said = manifest.get("target")
    trained_for = said if isinstance(said, dict) else {}
    origin = head.Origin(
        tokenizer_fingerprint=_digest(trained_for.get("tokenizerFingerprint")) or read_tokenizer(folder),
        target_digest=_digest(trained_for.get("digest")),
    )
    found = head.read(read_config(folder), weights=read_weights(folder), origin=origin)
    if _has_only_pickles(folder):
        pickled = problems.error(
            "HeadNotSafetensors",
            "the head's weights are no *.safetensors, and other formats run code when they are read; convert them",
        )
        return found.model_copy(update={"problems": [pickled, *found.problems][:16]})
    return found


def _digest(value: object) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", value) else None


def _has_only_pickles(folder: Files) -> bool:
    names = folder.sizes()
    return any(name.endswith((".bin", ".pt", ".pth", ".ckpt")) for name in names) and not any(
        name.endswith(_SUFFIX) for name in names
    )
