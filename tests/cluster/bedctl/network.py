"""The bed's wires.

The control plane's namespace holds a bridge; the host and every node have one cable to it. The bridge is not on the
host, where the filter rules of a Docker daemon would see its traffic. The host reaches pods and Services by routes
through the first node; nothing is translated, so pods see the true source addresses. Pods do not reach the internet.
"""

import time

from bedctl import shell
from bedctl.errors import BedError
from bedctl.record import Bed

BRIDGE = "br0"


def create(bed: Bed) -> None:
    """Make the control plane's namespace with its bridge, and the host's cable to it."""
    namespace, addresses = bed.layout.control_plane_namespace, bed.network
    shell.run(["ip", "netns", "add", namespace])
    _inside(namespace, "link", "set", "lo", "up")
    _inside(namespace, "link", "add", BRIDGE, "type", "bridge")
    _inside(namespace, "address", "add", f"{addresses.control_plane}/24", "dev", BRIDGE)
    _inside(namespace, "link", "set", BRIDGE, "up")
    _ip("link", "add", addresses.host_link, "type", "veth", "peer", "name", "host", "netns", namespace)
    _inside(namespace, "link", "set", "host", "master", BRIDGE, "up")
    _ip("address", "add", f"{addresses.host}/24", "dev", addresses.host_link)
    _ip("link", "set", addresses.host_link, "up")
    _inside(namespace, "route", "add", "default", "via", addresses.host)


def add_node(bed: Bed, number: int) -> None:
    """Make a node's namespace and its cable, and tell everyone the way to its pods."""
    namespace, addresses = bed.layout.node_namespace(number), bed.network
    hub, port = bed.layout.control_plane_namespace, f"node{number}"
    shell.run(["ip", "netns", "add", namespace])
    _inside(namespace, "link", "set", "lo", "up")
    _inside(namespace, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", hub)
    _inside(hub, "link", "set", port, "master", BRIDGE, "up")
    _inside(namespace, "address", "add", f"{addresses.node(number)}/24", "dev", "eth0")
    _inside(namespace, "link", "set", "eth0", "up")
    _inside(namespace, "route", "add", "default", "via", addresses.host)
    shell.run(["nsenter", f"--net=/run/netns/{namespace}", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
    _route(addresses.pods_of(number), via=addresses.node(number), namespaces=(None, hub))
    for other in range(1, number):
        _route(addresses.pods_of(number), via=addresses.node(number), namespaces=(bed.layout.node_namespace(other),))
        _route(addresses.pods_of(other), via=addresses.node(other), namespaces=(namespace,))
    if number == 1:
        _route(addresses.services, via=addresses.node(number), namespaces=(None, hub))


def namespaces_of(bed_name: str) -> list[str]:
    """Return the network namespaces that a bed of this name has now, whoever made them."""
    found = []
    for line in shell.run(["ip", "netns", "list"]).splitlines():
        name = line.split()[0]
        if name.rpartition("-")[0] == f"paceline-{bed_name}":
            found.append(name)
    return found


def pids_in(namespace: str) -> list[int]:
    """Return the processes of a network namespace."""
    return [int(word) for word in shell.run(["ip", "netns", "pids", namespace]).split()]


def remove(namespaces: list[str], host_link: str | None) -> None:
    """Remove namespaces with all that is in them, and the host's cable with its routes."""
    if host_link is not None and shell.succeeds(["ip", "link", "show", host_link]):
        _ip("link", "delete", host_link)
    for namespace in namespaces:
        shell.run(["ip", "netns", "delete", namespace])


def wait_gone(host_link: str, timeout_s: float = 10.0) -> None:
    """Wait until the kernel has taken a cable away whose other end's namespace is gone."""
    deadline = time.monotonic() + timeout_s
    while shell.succeeds(["ip", "link", "show", host_link]):
        if time.monotonic() > deadline:
            raise BedError(f"The link {host_link} is still there; remove it with `ip link delete {host_link}`.")
        time.sleep(0.05)


def _route(destination: str, *, via: str, namespaces: tuple[str | None, ...]) -> None:
    for namespace in namespaces:
        where = [] if namespace is None else ["-n", namespace]
        shell.run(["ip", *where, "route", "replace", destination, "via", via])


def _ip(*words: str) -> None:
    shell.run(["ip", *words])


def _inside(namespace: str, *words: str) -> None:
    shell.run(["ip", "-n", namespace, *words])
