"""OCI images made by hand, since there is neither a Docker daemon nor a registry.

Equal input gives an equal file, byte for byte: entries are sorted, owned by root and dated to the epoch. The file's
name carries the digest of the manifest, so a node that has it need not be given it again.
"""

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bedctl import artefacts, layout, rootfs
from bedctl.errors import BedError

BASE = "localhost/bed/base:1"
PAUSE = "localhost/bed/pause:1"

_OCI = "application/vnd.oci.image"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What an image says and holds.

    ``layers`` maps a path in the image to the folder or file on the host that is copied there.
    """

    name: str
    env: Mapping[str, str] = field(default_factory=dict)
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: str = ""
    workdir: str = "/"
    layers: Mapping[str, Path] = field(default_factory=dict)


def build(image: Image) -> Path:
    """Write the image as an OCI archive into the cache and return its path."""
    if ":" not in image.name.rpartition("/")[2]:
        raise BedError(f"The image name {image.name!r} has no tag; give one, e.g. {image.name}:dev")
    layers = [_skeleton_layer(), *(_folder_layer(target, source) for target, source in image.layers.items())]
    blobs = [gzip.compress(layer, compresslevel=1, mtime=0) for layer in layers]
    config = json.dumps(_config(image, layers), sort_keys=True).encode()
    manifest = json.dumps(_manifest(config, blobs), sort_keys=True).encode()
    index = json.dumps(_index(image.name, manifest), sort_keys=True).encode()
    digest = hashlib.sha256(index).hexdigest()
    target = layout.cache_root() / "images" / f"{_file_name(image.name)}-{digest[:12]}.tar"
    if not target.exists():
        _write(target, index, [config, manifest, *blobs])
    return target


def standard() -> list[Path]:
    """Return the images that every node gets: the sandbox of each pod, and one with nothing but the machine."""
    pause = Image(name=PAUSE, entrypoint=("/pause",), layers={"/pause": artefacts.BED.program("pause")})
    base = Image(name=BASE, command=("/usr/bin/sleep", "infinity"))
    return [build(pause), build(base)]


def _config(image: Image, layers: Sequence[bytes]) -> dict[str, object]:
    env = {"PATH": rootfs.search_path(), **image.env}
    settings: dict[str, object] = {
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Entrypoint": list(image.entrypoint),
        "Cmd": list(image.command),
        "WorkingDir": image.workdir,
        "User": image.user,
    }
    return {
        "architecture": _architecture(),
        "os": "linux",
        "config": {name: value for name, value in settings.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]},
    }


def _manifest(config: bytes, blobs: Sequence[bytes]) -> dict[str, object]:
    return {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _descriptor(f"{_OCI}.config.v1+json", config),
        "layers": [_descriptor(f"{_OCI}.layer.v1.tar+gzip", blob) for blob in blobs],
    }


def _index(name: str, manifest: bytes) -> dict[str, object]:
    return {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.index.v1+json",
        "manifests": [
            {
                **_descriptor(f"{_OCI}.manifest.v1+json", manifest),
                "platform": {"os": "linux", "architecture": _architecture()},
                "annotations": {
                    "io.containerd.image.name": name,
                    "org.opencontainers.image.ref.name": name.rpartition(":")[2],
                },
            }
        ],
    }


def _skeleton_layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in rootfs.skeleton():
            content = (entry.text or "").encode()
            info = tarfile.TarInfo(entry.path)
            info.mode, info.uid, info.gid = entry.mode, entry.owner, entry.owner
            if entry.target:
                info.type, info.linkname = tarfile.SYMTYPE, entry.target
            elif entry.text is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _folder_layer(target: str, source: Path) -> bytes:
    """Return a layer with the source below the target; compiled Python is left out, since it carries dates."""
    if not source.exists():
        raise BedError(f"The layer's source {source} does not exist; --layer takes SOURCE:TARGET.")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for parent in reversed(Path(target.strip("/")).parents[:-1]):
            _add(archive, str(parent), None)
        for path in _walk(source):
            relative = path.relative_to(source)
            _add(archive, str(Path(target.strip("/")) / relative), path)
    return buffer.getvalue()


def _walk(source: Path) -> Iterable[Path]:
    yield source
    if source.is_dir() and not source.is_symlink():
        yield from sorted(path for path in source.rglob("*") if "__pycache__" not in path.parts)


def _add(archive: tarfile.TarFile, name: str, path: Path | None) -> None:
    info = tarfile.TarInfo(name)
    if path is not None and path.is_symlink():
        info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
        archive.addfile(info)
    elif path is None or path.is_dir():
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(info)
    else:
        content = path.read_bytes()
        info.size, info.mode = len(content), 0o755 if path.stat().st_mode & 0o100 else 0o644
        archive.addfile(info, io.BytesIO(content))


def _write(target: Path, index: bytes, blobs: Sequence[bytes]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(".new")
    with tarfile.open(draft, mode="w") as archive:
        for name, content in (("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'), ("index.json", index)):
            _add_bytes(archive, name, content)
        for content in blobs:
            _add_bytes(archive, f"blobs/sha256/{hashlib.sha256(content).hexdigest()}", content)
    draft.replace(target)


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def _descriptor(kind: str, content: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _architecture() -> str:
    machine = os.uname().machine
    return _ARCHITECTURES.get(machine, machine)


def _file_name(image_name: str) -> str:
    return image_name.replace("/", "_").replace(":", "_")
