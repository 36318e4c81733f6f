"""What a container of the bed sees: an almost empty image, and the machine's own programs mounted over it.

There is no registry to pull a distribution from, and the machine already has one. An image of the bed is therefore a
skeleton of links and a few files; the node's runtime mounts ``/usr``, the running Python and the cache's virtual
environments read-only into every container. Pods need no hostPath volumes for it, so manifests are those of production.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from bedctl import layout

NON_ROOT = 65532

# Merged into /usr on current distributions; where one is a folder of its own it is mounted like /usr.
_TOP_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

# What programs below /usr look up outside it.
_SUPPORT = ("/etc/alternatives", "/etc/ssl", "/etc/ld.so.cache", "/etc/mime.types")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing in the skeleton: a folder, a link when ``target`` is set, a file when ``text`` is."""

    path: str
    mode: int = 0o755
    target: str = ""
    text: str | None = None
    owner: int = 0


def skeleton() -> list[Entry]:
    """Return the skeleton's entries, parents before children."""
    folders = ["dev", "etc", "home", "opt", "proc", "root", "run", "srv", "sys", "usr", "var", "var/lib", "var/log"]
    entries = [Entry(path=folder) for folder in folders]
    entries += [Entry(path=folder, mode=0o1777) for folder in ("tmp", "var/tmp")]
    entries.append(Entry(path="home/nonroot", owner=NON_ROOT))
    for name in _TOP_FOLDERS:
        path = Path("/") / name
        if path.is_symlink():
            entries.append(Entry(path=name, target=str(path.readlink())))
        elif path.is_dir():
            entries.append(Entry(path=name))
    users = ["root:x:0:0:root:/root:/bin/sh", f"nonroot:x:{NON_ROOT}:{NON_ROOT}:nonroot:/home/nonroot:/bin/sh"]
    groups = ["root:x:0:", f"nonroot:x:{NON_ROOT}:"]
    for name, lines in (("passwd", users), ("group", groups), ("nsswitch.conf", ["hosts: files dns"])):
        entries.append(Entry(path=f"etc/{name}", mode=0o644, text="\n".join(lines) + "\n"))
    return entries


def mounts(extra: tuple[str, ...]) -> list[dict[str, object]]:
    """Return the OCI mounts of every container: what the skeleton leaves out, and the folders asked for."""
    sources = ["/usr", *_own_top_folders(), *(path for path in _SUPPORT if Path(path).exists())]
    # The prefix of the interpreter, not of its virtual environment: those link to it.
    sources += [sys.base_prefix, str(environments()), *extra]
    outermost = [path for path in dict.fromkeys(sources) if not _is_below_another(path, sources)]
    return [
        {"destination": path, "type": "bind", "source": path, "options": ["rbind", "ro", "nosuid", "nodev"]}
        for path in outermost
    ]


def environments() -> Path:
    """Return the folder of virtual environments, which is mounted whole: some come after the node has started."""
    folder = layout.cache_root() / "venv"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def search_path() -> str:
    """Return PATH for the bed's images: the running Python first."""
    standard = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    return ":".join(dict.fromkeys([f"{sys.base_prefix}/bin", *standard]))


def _own_top_folders() -> list[str]:
    paths = [Path("/") / name for name in _TOP_FOLDERS]
    return [str(path) for path in paths if path.is_dir() and not path.is_symlink()]


def _is_below_another(path: str, sources: list[str]) -> bool:
    return any(path.startswith(other.rstrip("/") + "/") for other in sources)
