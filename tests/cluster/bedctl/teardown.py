"""Taking a bed away: processes, namespaces, links and routes, cgroups, mounts, files.

Everything is looked for by the bed's name on the machine itself, so that it makes no difference whether the bed
ended in order, was killed, or lost its record. Down twice is the same as down once.
"""

import re
import shutil
from pathlib import Path

from bedctl import cgroups, host, layout, network, processes, record, shell
from bedctl.layout import Layout


def down(name: str) -> None:
    """Remove all that a bed of this name has left on the machine, once no other command works on that bed."""
    with record.exclusive(f"bed-{name}"):
        remove(name)


def remove(name: str) -> None:
    """Do the work of ``down`` for a caller that holds the bed's lock."""
    where = Layout(name=name)
    bed = record.load(name)
    namespaced = host.has_namespaces()
    namespaces = network.namespaces_of(name) if namespaced else []
    # Killing a node's first process takes its whole pid namespace along, containers included.
    processes.end(processes.marked(where))
    groups = _cgroups_of(where) if namespaced else []
    stray = {pid for namespace in namespaces for pid in network.pids_in(namespace)}
    for group in groups:
        stray |= cgroups.pids_in(group)
    processes.end(processes.identify(stray))
    if namespaced:
        link = bed.network.host_link if bed is not None and bed.namespaced else _orphan_link(namespaces)
        network.remove(namespaces, link)
        for group in groups:
            cgroups.remove(group)
        _unmount_below(where.root)
    if where.root.exists():
        shutil.rmtree(where.root)


def _cgroups_of(where: Layout) -> list[str]:
    return [group for number in range(1, layout.MAX_NODES + 1) if cgroups.exists(group := where.node_cgroup(number))]


def _orphan_link(namespaces: list[str]) -> str | None:
    """Find the host's cable by the address of its other end, for a bed whose record is lost."""
    for namespace in namespaces:
        if namespace.endswith("-cp"):
            shown = shell.run(["ip", "-n", namespace, "-4", "address", "show", "dev", network.BRIDGE])
            if found := re.search(r"inet 10\.(\d+)\.", shown):
                return layout.Network(index=int(found[1]) - layout.FIRST_OCTET).host_link
    return None


def _unmount_below(root: Path) -> None:
    """Unmount what a node may have left in the machine's own mount namespace; there is nothing in the usual case."""
    targets = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for target in sorted((target for target in targets if target.startswith(f"{root}/")), reverse=True):
        shell.run(["umount", "--lazy", target])
