"""Names, addresses and paths of a bed.

Everything that a bed creates on the machine is named here, from the bed's name and its index alone: whatever is
left of a bed that was killed can be found again without any record of it.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from bedctl.errors import BedError

# Names end up in cgroup and network namespace names and in Kubernetes node names.
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")

# Each bed has 10.(160 + index).0.0/16 for itself. The range avoids what home routers, Docker and kind use.
FIRST_OCTET = 160
MAX_BEDS = 32
MAX_NODES = 9


def cache_root() -> Path:
    """Return the folder outside the clone that holds built programs, images and running beds."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    root = Path(base).resolve() / "paceline"
    for hidden in ("/run/", "/var/", "/proc/", "/sys/"):
        if str(root).startswith(hidden):
            raise BedError(
                f"The cache folder {root} lies below {hidden}, which a node hides; set XDG_CACHE_HOME elsewhere."
            )
    return root


def source_root() -> Path:
    """Return the folder ``tests/cluster``, where the Go modules are."""
    return Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The addresses of a bed in its own network namespaces, all in one /16."""

    index: int

    @property
    def _prefix(self) -> str:
        return f"10.{FIRST_OCTET + self.index}"

    @property
    def whole(self) -> str:
        """All addresses of the bed."""
        return f"{self._prefix}.0.0/16"

    @property
    def host(self) -> str:
        """The machine's own address on the bed's wire."""
        return f"{self._prefix}.0.1"

    @property
    def control_plane(self) -> str:
        """Where the API server and the name server listen."""
        return f"{self._prefix}.0.2"

    def node(self, number: int) -> str:
        """Return a node's address."""
        return f"{self._prefix}.0.{10 + number}"

    def pods_of(self, number: int) -> str:
        """Return the range of the pods of one node."""
        return f"{self._prefix}.{64 + number}.0/24"

    @property
    def pods(self) -> str:
        """The range of all pods."""
        return f"{self._prefix}.64.0/18"

    @property
    def services(self) -> str:
        """The range of the ClusterIPs."""
        return f"{self._prefix}.240.0/20"

    @property
    def api_service(self) -> str:
        """The ClusterIP of the Service `kubernetes`, always the first of its range."""
        return f"{self._prefix}.240.1"

    @property
    def host_link(self) -> str:
        """The name of the machine's end of the cable, at most 15 characters."""
        return f"plbed{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where a bed of this name keeps its state, and what its namespaces and cgroups are called."""

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BedError(
                f"The bed's name {self.name!r} is not usable; take at most 20 lower-case letters, digits and "
                "dashes, starting with a letter, e.g. BED=demo."
            )

    @property
    def root(self) -> Path:
        """The folder of everything else."""
        return cache_root() / "run" / self.name

    @property
    def record(self) -> Path:
        """The document of `record.Bed`."""
        return self.root / "bed.json"

    @property
    def pki(self) -> Path:
        """Keys, certificates and kubeconfigs."""
        return self.root / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.pki / "admin.kubeconfig"

    @property
    def logs(self) -> Path:
        """What the programs outside the nodes say."""
        return self.root / "logs"

    @property
    def pids(self) -> Path:
        """The recorded processes."""
        return self.root / "pids"

    @property
    def storage(self) -> Path:
        """The folder of all volumes."""
        return self.root / "storage"

    @property
    def programs(self) -> Path:
        """The folder to put on PATH: kubectl and helm."""
        return self.root / "bin"

    def node_folder(self, number: int) -> Path:
        """Return the folder of a node: configuration, logs, containers, pods."""
        return self.root / self.node_name(number)

    @staticmethod
    def node_name(number: int) -> str:
        """Return the name by which Kubernetes knows a node."""
        return f"node-{number}"

    @property
    def control_plane_namespace(self) -> str:
        """The control plane's network namespace."""
        return f"paceline-{self.name}-cp"

    def node_namespace(self, number: int) -> str:
        """Return the name of a node's network namespace."""
        return f"paceline-{self.name}-n{number}"

    def node_cgroup(self, number: int) -> str:
        """Return the name of a node's cgroup, the same in all hierarchies."""
        return f"paceline-{self.name}-n{number}"
