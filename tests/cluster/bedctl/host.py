"""What this machine can do, and installing the few Debian packages that the bed needs."""

import os
import shutil
import sys
from pathlib import Path

from bedctl import shell

# Capability bits of linux/capability.h that a node cannot do without.
_NEEDED = {"CAP_NET_ADMIN": 12, "CAP_SYS_CHROOT": 18, "CAP_SYS_ADMIN": 21, "CAP_MKNOD": 27}
_NEEDED_FOR_NAMESPACES = ("CAP_NET_ADMIN", "CAP_SYS_ADMIN")

# Program and the Debian package that has it.
_PROGRAMS = {
    "ip": "iproute2",
    "nft": "nftables",
    "runc": "runc",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
}


def why_no_node() -> str | None:
    """Return the sentence that says why no node can run here, or nothing if one can."""
    if os.geteuid() != 0:
        return "A node needs root: run as root, or use the control plane alone (NODES=0)."
    missing = [name for name in _NEEDED if not _has(name)]
    if missing:
        return f"A node needs {', '.join(missing)}, which this process lacks; give the container these capabilities."
    if absent := _missing_packages():
        return f"A node needs programs that are not installed: apt-get install {' '.join(absent)}"
    if not _writable_cgroups():
        return "A node needs a writable /sys/fs/cgroup; mount it read-write."
    return None


def has_namespaces() -> bool:
    """Say whether a control plane gets a network of its own here; otherwise it takes free ports of loopback."""
    able = os.geteuid() == 0 and all(_has(name) for name in _NEEDED_FOR_NAMESPACES)
    return able and all(shutil.which(program) is not None for program in ("ip", "nsenter"))


def install_packages() -> None:
    """Install what a node needs and Debian has, if we may; where we may not, ``why_no_node`` tells what is missing."""
    packages = _missing_packages()
    if not packages or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    sys.stderr.write(f"installing {', '.join(packages)} by apt-get\n")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    shell.run(["apt-get", "update", "--quiet"], env=env)
    shell.run(["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", *packages], env=env)


def is_overlay(path: Path) -> bool:
    """Say whether a path is on overlayfs, on which containerd cannot stack another overlay."""
    best, kind = "", ""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, filesystem, *_ = line.split()
        inside = target == "/" or str(path) == target or str(path).startswith(target + "/")
        if inside and len(target) >= len(best):
            best, kind = target, filesystem
    return kind == "overlay"


def _missing_packages() -> list[str]:
    return sorted({package for program, package in _PROGRAMS.items() if shutil.which(program) is None})


def _has(capability: str) -> bool:
    return bool(_effective_capabilities() >> _NEEDED[capability] & 1)


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def _writable_cgroups() -> bool:
    """Look at the mounts' options: root passes any access check even where the mount is read-only."""
    options = [
        line.split()[3].split(",")
        for line in Path("/proc/self/mounts").read_text().splitlines()
        if line.split()[2] in {"cgroup", "cgroup2"}
    ]
    return bool(options) and all("rw" in option for option in options)
