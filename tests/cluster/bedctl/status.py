"""What runs of a bed, for people and for scripts."""

from bedctl import api, controlplane, node, record


def describe(name: str) -> dict[str, object]:
    """Return a bed's state as plain values; ``state`` is absent, running or broken."""
    bed = record.load(name)
    if bed is None:
        return {"bed": name, "state": "absent"}
    serves = controlplane.is_running(bed) and api.connect(bed).ready()
    nodes = {bed.layout.node_name(number): node.is_running(bed, number) for number in range(1, bed.nodes + 1)}
    return {
        "bed": name,
        "state": "running" if serves and all(nodes.values()) else "broken",
        "server": bed.server,
        "kubeconfig": str(bed.layout.kubeconfig),
        "programs": str(bed.layout.programs),
        "storage": str(bed.layout.storage),
        "logs": str(bed.layout.logs),
        "nodes": nodes,
        "mounts": list(bed.mounts),
    }
