"""PersistentVolumes on the bed: folders of the machine, since nothing is provisioned."""

import shutil
from pathlib import Path

from bedctl import api
from bedctl.errors import BedError
from bedctl.record import Bed

# Claims are bound by size; the folder has no limit of its own.
CAPACITY = "100Gi"


def create(bed: Bed, name: str, *, source: Path | None, storage_class: str) -> Path:
    """Make a folder, a copy of ``source`` if given, and a volume of that name for it. Return the folder.

    All nodes see the folder at the same path, so the volume is ReadWriteMany, and every user may write.
    """
    folder = bed.layout.storage / name
    if folder.exists():
        raise BedError(f"Bed {bed.name} has a volume {name} already; take another name.")
    if source is None:
        folder.mkdir(parents=True)
    elif source.is_dir():
        shutil.copytree(source, folder)
    else:
        raise BedError(f"The folder {source} to copy does not exist; --from takes a folder.")
    _open_to_all(folder)
    api.connect(bed).create("/api/v1/persistentvolumes", _volume(name, folder, storage_class))
    return folder


def _volume(name: str, folder: Path, storage_class: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": CAPACITY},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }


def _open_to_all(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o777 if path.is_dir() else 0o666))
