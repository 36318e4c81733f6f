"""The run's folder on the shared volume: what is complete, whose it is, and how it becomes so in one step.

Work is complete when its done file names the digest of the inputs that are wanted now. Time stamps and the mere
presence of a file prove nothing. What two attempts of one run could write at once lies in folders fenced by the
attempt's name, and enters the shared part by a rename.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pydantic

from paceline.api import base, names, stages

_CHUNK_BYTES = 1 << 20

ResultT = TypeVar("ResultT", bound=base.ApiModel)


class Done(base.ApiModel, Generic[ResultT]):
    """Content of ``<stage>.done.json``."""

    input_digest: str
    folder: str
    """The stage's work folder, relative to the workspace."""
    result: ResultT


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The folder of one run, as one attempt sees it."""

    root: Path
    attempt: str
    """Unique to this pod; names everything that is not yet complete."""

    def folder(self, stage: str, input_digest: str) -> Path:
        """Return (made if missing) the folder of a stage's work on exactly these inputs."""
        folder = self.root / f"{stage.lower()}-{names.short(input_digest)}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def scratch(self, folder: Path) -> Path:
        """Return an empty folder that only this attempt writes to, beside what it will become part of."""
        scratch = folder / f".attempt-{self.attempt}"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        return scratch

    def finish(self, stage: str, done: Done[Any]) -> None:
        """Say that a stage's work is complete."""
        write_atomically(self.root / f"{stage.lower()}.done.json", names.canonical(done.wire()))

    def read_done(self, stage: str, kind: type[ResultT]) -> Done[ResultT] | None:
        """Return what a stage finished with, or None when it has not finished or its file is damaged."""
        try:
            text = (self.root / f"{stage.lower()}.done.json").read_bytes()
            return Done[kind].model_validate_json(text)  # type: ignore[valid-type]
        except (FileNotFoundError, pydantic.ValidationError):
            return None


def open_workspace(config: stages.StageConfig, *, attempt: str | None = None) -> Workspace:
    """Return the run's workspace; the attempt is the pod's name, which Kubernetes never gives twice."""
    name = attempt or os.environ.get("HOSTNAME") or secrets.token_hex(4)
    root = Path(config.workspace)
    root.mkdir(parents=True, exist_ok=True)
    return Workspace(root=root, attempt=name)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace ``path`` so that a reader, or a crash at any point, sees the old content or the new one."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with scratch.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    scratch.replace(path)
    sync_folder(path.parent)


def commit_folder(source: Path, target: Path) -> bool:
    """Move a finished folder into place; False when another attempt was first, whose folder is then kept."""
    for path in sorted(source.rglob("*")):
        if path.is_file() and not path.is_symlink():
            _sync_file(path)
    try:
        source.rename(target)
    except OSError:
        # A non-empty folder cannot be replaced by a rename: it is complete, since it came by one.
        if not target.is_dir():
            raise
        shutil.rmtree(source)
        return False
    sync_folder(target.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Make a rename inside ``folder`` survive a power cut, where the file system can."""
    # Network file systems refuse fsync on folders; there a rename is as durable as the server makes it.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sync_file(path: Path) -> None:
    with path.open("rb") as handle:
        os.fsync(handle.fileno())


def file_digest(path: Path) -> str:
    """Return ``sha256:<hex>`` of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while chunk := handle.read(_CHUNK_BYTES):
            digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"
