"""What is known of a bed between two commands: one JSON document in its folder.

Only choices are kept (index, ports, mounts, number of nodes). What runs is asked of the machine, never read from
here.
"""

import contextlib
import fcntl
import ipaddress
import json
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from bedctl import host, shell
from bedctl.errors import BedError

# By name: a bed's `layout` is a property here and would hide the module.
from bedctl.layout import MAX_BEDS, Layout, Network, cache_root


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """A bed's choices.

    ``namespaced`` is false for a control plane that runs without root, on loopback and on ports that were free.
    """

    name: str
    index: int
    namespaced: bool
    nodes: int
    mounts: tuple[str, ...]
    api_port: int
    etcd_port: int
    controller_manager_port: int
    scheduler_port: int

    @property
    def layout(self) -> Layout:
        """Its names and paths."""
        return Layout(name=self.name)

    @property
    def network(self) -> Network:
        """Its addresses."""
        return Network(index=self.index)

    @property
    def api_address(self) -> str:
        """Where the API server listens."""
        return self.network.control_plane if self.namespaced else "127.0.0.1"

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://{self.api_address}:{self.api_port}"

    def with_nodes(self, nodes: int) -> "Bed":
        """Return the same bed with another number of nodes."""
        return replace(self, nodes=nodes)


def load(name: str) -> Bed | None:
    """Return the recorded bed of that name, or nothing if there is none or its record is torn."""
    try:
        document = json.loads(Layout(name=name).record.read_text())
        return Bed(**{**document, "mounts": tuple(document["mounts"])})
    except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
        return None


def save(bed: Bed) -> None:
    """Store the record in one step: a reader sees the old one or the new one."""
    path = bed.layout.record
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(asdict(bed), indent=2) + "\n")
    draft.replace(path)


@contextlib.contextmanager
def exclusive(purpose: str) -> Iterator[None]:
    """Hold a lock of the whole cache, so that no two commands do the same thing at once."""
    path = cache_root() / f"{purpose}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def create(*, name: str, nodes: int, mounts: tuple[str, ...]) -> Bed:
    """Choose index and ports for a new bed and record them."""
    with exclusive("index"):
        bed = _choose(name=name, nodes=nodes, mounts=mounts)
        save(bed)
    return bed


def _choose(*, name: str, nodes: int, mounts: tuple[str, ...]) -> Bed:
    namespaced = host.has_namespaces()
    ports = (6443, 2379, 10257, 10259) if namespaced else _free_ports(4)
    return Bed(
        name=name,
        index=_free_index() if namespaced else 0,
        namespaced=namespaced,
        nodes=nodes,
        mounts=mounts,
        api_port=ports[0],
        etcd_port=ports[1],
        controller_manager_port=ports[2],
        scheduler_port=ports[3],
    )


def names() -> list[str]:
    """Return the names of all beds that have a record."""
    return sorted(path.parent.name for path in (cache_root() / "run").glob("*/bed.json"))


def _free_index() -> int:
    taken = {bed.index for bed in map(load, names()) if bed is not None}
    routed = _routed_networks()
    for index in range(MAX_BEDS):
        wanted = ipaddress.ip_network(Network(index=index).whole)
        if index not in taken and not any(wanted.overlaps(network) for network in routed):
            return index
    raise BedError("All 32 address ranges for beds are in use; remove beds with `bedctl down --bed NAME`.")


def _routed_networks() -> list[ipaddress.IPv4Network]:
    """Return what the machine routes anyway, the default route left out."""
    networks = []
    for line in shell.run(["ip", "-4", "route", "show", "table", "all"]).splitlines():
        words = [word for word in line.split() if word not in {"local", "broadcast", "unreachable", "blackhole"}]
        with contextlib.suppress(ValueError):
            network = ipaddress.IPv4Network(words[0])
            if network.prefixlen > 0:
                networks.append(network)
    return networks


def _free_ports(count: int) -> tuple[int, ...]:
    """Return ports that were free a moment ago; all are held until the last is chosen, so they differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for candidate in sockets:
            candidate.bind(("127.0.0.1", 0))
        return tuple(candidate.getsockname()[1] for candidate in sockets)
