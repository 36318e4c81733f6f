"""A node's root cgroup, in every hierarchy that the machine has.

The kubelet wants its root to exist, with the cpuset filled on version 1 and the controllers handed down on version 2.
"""

import time
from contextlib import suppress
from pathlib import Path

from bedctl.errors import BedError

# What the kubelet manages. Others (rdma, misc, hugetlb) may be absent and are not needed.
_CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "io")

# The kernel lets a cgroup go only after the last of its dead processes has been reaped.
REMOVE_TIMEOUT_S = 20.0


def create(name: str) -> None:
    """Make the cgroup in every hierarchy."""
    for root in _version1_roots():
        (root / name).mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (root / setting).exists():
                (root / name / setting).write_text((root / setting).read_text())
    for root in _version2_roots():
        (root / name).mkdir(exist_ok=True)
        available = (root / "cgroup.controllers").read_text().split()
        for controller in set(available).intersection(_CONTROLLERS):
            (root / "cgroup.subtree_control").write_text(f"+{controller}")
            (root / name / "cgroup.subtree_control").write_text(f"+{controller}")


def pids_in(name: str) -> set[int]:
    """Return all processes in the cgroup and below it."""
    pids: set[int] = set()
    for folder in _folders(name):
        with suppress(FileNotFoundError, OSError):
            pids.update(int(word) for word in (folder / "cgroup.procs").read_text().split())
    return pids


def remove(name: str) -> None:
    """Remove the cgroup everywhere, leaves first. Its processes must have been killed.

    Raises:
        BedError: Some process keeps it.
    """
    deadline = time.monotonic() + REMOVE_TIMEOUT_S
    while left := _folders(name):
        for folder in left:
            with suppress(OSError):
                folder.rmdir()
        if time.monotonic() > deadline:
            raise BedError(f"The cgroup {left[-1]} cannot be removed; see which processes its cgroup.procs names.")
        time.sleep(0.02)


def exists(name: str) -> bool:
    """Say whether any hierarchy has the cgroup."""
    return bool(_folders(name))


def _folders(name: str) -> list[Path]:
    """Return the cgroup's folders in all hierarchies, each after those below it."""
    folders: list[Path] = []
    for root in (*_version1_roots(), *_version2_roots()):
        if (root / name).is_dir():
            below = [path for path in (root / name).rglob("*") if path.is_dir()]
            folders += [*sorted(below, key=lambda path: len(path.parts), reverse=True), root / name]
    return folders


def _version1_roots() -> list[Path]:
    return _mounts("cgroup")


def _version2_roots() -> list[Path]:
    return _mounts("cgroup2")


def _mounts(kind: str) -> list[Path]:
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, filesystem, *_ = line.split()
        if filesystem == kind and target.startswith("/sys/fs/cgroup"):
            found.append(Path(target))
    return found
