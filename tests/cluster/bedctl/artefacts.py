"""The programs that a bed runs, each built once into the cache.

An artefact's folder is named by a digest of everything that decides its content: the version table below or the Go
module's files. A new input gives a new folder, so that nothing is ever rebuilt in place under a running bed, and a
build that was interrupted leaves only a draft that nobody looks at.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bedctl import layout, record, shell
from bedctl.errors import BedError

KUBERNETES = "1.36.3"
CONTAINERD = "v2.4.2"
CNI_PLUGINS = "v1.10.0"
HELM = "v4.3.1"

_VERSION_VARIABLES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """Programs that are built together.

    Exactly one of ``module`` (a folder beside this package) and ``packages`` (import paths with their version) says
    from what.
    """

    name: str
    programs: tuple[str, ...]
    link_flags: str = "-s -w"
    module: str = ""
    packages: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where its programs are, once built."""
        return layout.cache_root() / "programs" / f"{self.name}-{self._digest()}"

    def program(self, name: str) -> Path:
        """Return the path of one of its programs."""
        return self.folder / name

    def exists(self) -> bool:
        """Say whether it has been built from these inputs."""
        return all(self.program(name).exists() for name in self.programs)

    def _digest(self) -> str:
        digest = hashlib.sha256("\0".join([self.name, self.link_flags, *self.packages]).encode())
        for path in self._sources():
            digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
        return digest.hexdigest()[:12]

    def _sources(self) -> list[Path]:
        if not self.module:
            return []
        folder = layout.source_root() / self.module
        return [*sorted(folder.rglob("*.go")), folder / "go.mod", folder / "go.sum"]


def _kubernetes_link_flags() -> str:
    major, minor, _ = KUBERNETES.split(".")
    values = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    flags = [f"-X {package}.{name}={value}" for package in _VERSION_VARIABLES for name, value in values.items()]
    return " ".join(["-s -w", *flags])


def _from_plugins(*paths: str) -> tuple[str, ...]:
    return tuple(f"github.com/containernetworking/plugins/plugins/{path}@{CNI_PLUGINS}" for path in paths)


BED = Artefact(name="bed", programs=("bed", "pause"), module="bed", link_flags=_kubernetes_link_flags())
DNS = Artefact(name="dns", programs=("dns",), module="dns")
CONTAINERD_PROGRAMS = Artefact(
    name="containerd",
    programs=("containerd", "containerd-shim-runc-v2", "ctr"),
    packages=tuple(
        f"github.com/containerd/containerd/v2/cmd/{program}@{CONTAINERD}"
        for program in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    link_flags=f"-s -w -X github.com/containerd/containerd/v2/version.Version={CONTAINERD}",
)
CNI = Artefact(
    name="cni",
    programs=("ptp", "loopback", "host-local", "portmap"),
    packages=_from_plugins("main/ptp", "main/loopback", "ipam/host-local", "meta/portmap"),
)
HELM_PROGRAM = Artefact(
    name="helm",
    programs=("helm",),
    packages=(f"helm.sh/helm/v4/cmd/helm@{HELM}",),
    link_flags=f"-s -w -X helm.sh/helm/v4/internal/version.version={HELM}",
)

CONTROL_PLANE = (BED, HELM_PROGRAM)
NODE = (CONTAINERD_PROGRAMS, CNI, DNS)


def ensure(artefacts: Iterable[Artefact]) -> None:
    """Build those that are missing, one after another: each build uses all cores by itself."""
    missing = [artefact for artefact in artefacts if not artefact.exists()]
    if not missing:
        return
    if shutil.which("go") is None:
        names = ", ".join(artefact.name for artefact in missing)
        raise BedError(f"Go is needed once, to build {names}; install Go 1.26 or later and put `go` on PATH.")
    with record.exclusive("build"):
        for artefact in missing:
            if not artefact.exists():
                _build(artefact)


def _build(artefact: Artefact) -> None:
    sys.stderr.write(f"building {artefact.name} (once; into {artefact.folder})\n")
    sys.stderr.flush()
    artefact.folder.parent.mkdir(parents=True, exist_ok=True)
    # Left by builds that were killed: only one build runs at a time.
    for abandoned in artefact.folder.parent.glob(".draft-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=artefact.folder.parent))
    try:
        env = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(draft), "GOFLAGS": "-buildvcs=false"}
        flags = ["-trimpath", "-ldflags", artefact.link_flags]
        if artefact.module:
            source = layout.source_root() / artefact.module
            shell.run(["go", "build", *flags, "-o", f"{draft}/", "./..."], env=env, cwd=source)
        else:
            shell.run(["go", "install", *flags, *artefact.packages], env=env, cwd=draft)
        draft.chmod(0o755)
        draft.rename(artefact.folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
