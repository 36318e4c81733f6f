"""Bringing a bed up, from whatever is there: nothing, the same bed running, or the remains of a killed one."""

import sys
import time
from pathlib import Path

from bedctl import (
    api,
    artefacts,
    certificates,
    controlplane,
    dns,
    host,
    images,
    layout,
    network,
    node,
    record,
    teardown,
)
from bedctl.errors import BedError
from bedctl.record import Bed


def up(*, name: str, nodes: int, mounts: tuple[str, ...]) -> Bed:
    """Return a bed of that name that serves, with at least that many Ready nodes.

    Raises:
        BedError: The machine cannot host it, or something did not start.
    """
    if nodes > layout.MAX_NODES:
        raise BedError(f"A bed has at most {layout.MAX_NODES} nodes, not {nodes}; set NODES=1 or NODES=2.")
    if nodes:
        host.install_packages()
    reason = host.why_no_node()
    if nodes and reason is not None:
        raise BedError(reason)
    artefacts.ensure((*artefacts.CONTROL_PLANE, *(artefacts.NODE if nodes else ())))
    with record.exclusive(f"bed-{name}"):
        bed = _running(name)
        if bed is None:
            teardown.remove(name)
            bed = _start_control_plane(name, nodes=nodes, mounts=_checked(mounts))
        _refuse_new_mounts(bed, mounts)
        return _add_nodes(bed, nodes)


def build() -> None:
    """Install and build every program that a bed needs here, and start nothing: without a node's where none can run."""
    host.install_packages()
    hosts_nodes = host.why_no_node() is None
    artefacts.ensure((*artefacts.CONTROL_PLANE, *(artefacts.NODE if hosts_nodes else ())))


def _running(name: str) -> Bed | None:
    """Return the bed if all of it runs. A bed of which a part has died is not repaired but made anew."""
    bed = record.load(name)
    if bed is None or not controlplane.is_running(bed):
        return None
    whole = all(node.is_running(bed, number) for number in range(1, bed.nodes + 1))
    whole = whole and (bed.nodes == 0 or dns.is_running(bed))
    return bed if whole and api.connect(bed).ready() else None


def _start_control_plane(name: str, *, nodes: int, mounts: tuple[str, ...]) -> Bed:
    bed = record.create(name=name, nodes=0, mounts=mounts)
    _say(bed, "starting the control plane")
    _link_programs(bed)
    bed.layout.storage.mkdir(mode=0o777, exist_ok=True)
    bed.layout.storage.chmod(0o777)
    certificates.ensure(bed.with_nodes(nodes), artefacts.BED.program("bed"))
    if bed.namespaced:
        network.create(bed)
    controlplane.start(bed, artefacts.BED.program("bed"))
    return bed


def _add_nodes(bed: Bed, nodes: int) -> Bed:
    """Start the nodes that are missing while the control plane comes up, then wait for all."""
    missing = range(bed.nodes + 1, nodes + 1)
    grown = bed.with_nodes(max(bed.nodes, nodes))
    if missing:
        certificates.ensure(grown, artefacts.BED.program("bed"))
        archives = images.standard()
        for number in missing:
            _say(bed, f"starting {bed.layout.node_name(number)}")
            # Recorded first: a node that is half there must not be taken for none.
            record.save(bed.with_nodes(number))
            node.start(grown, number, archives)
    controlplane.wait_ready(grown)
    if missing and not dns.is_running(bed):
        dns.start(grown, artefacts.DNS.program("dns"))
    for number in missing:
        node.wait_ready(grown, number)
    if missing:
        dns.wait_ready(grown)
    return grown


def _link_programs(bed: Bed) -> None:
    """Put kubectl and helm under their names into one folder."""
    bed.layout.programs.mkdir(parents=True, exist_ok=True)
    for name, target in (
        ("kubectl", artefacts.BED.program("bed")),
        ("helm", artefacts.HELM_PROGRAM.program("helm")),
    ):
        link = bed.layout.programs / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _checked(mounts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders by their full paths; a node with a mount whose source is missing starts no container."""
    for mount in mounts:
        if not Path(mount).is_dir():
            raise BedError(f"The folder {mount} to mount does not exist; create it before the bed starts.")
    return tuple(sorted({str(Path(mount).resolve()) for mount in mounts}))


def _refuse_new_mounts(bed: Bed, mounts: tuple[str, ...]) -> None:
    new = sorted(set(_checked(mounts)) - set(bed.mounts))
    if new and bed.nodes:
        raise BedError(
            f"Bed {bed.name} runs without the mounts {', '.join(new)}, and a running node takes no new ones; "
            f"take it down first, or use another name (BED=...)."
        )


def _say(bed: Bed, what: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} bed {bed.name}: {what}\n")
    sys.stderr.flush()
