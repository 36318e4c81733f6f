"""Asking the bed's Go program for keys: Python's standard library can check certificates but not sign them."""

import json
from pathlib import Path

from bedctl import shell
from bedctl.record import Bed


def ensure(bed: Bed, program: Path) -> None:
    """Write the keys and kubeconfigs that are missing in the bed's ``pki`` folder."""
    layout, addresses = bed.layout, bed.network
    names = ["localhost", "127.0.0.1", addresses.api_service, bed.api_address]
    service = ["kubernetes", "default", "svc", "cluster.local"]
    names += [".".join(service[:length]) for length in range(1, len(service) + 1)]
    nodes = {layout.node_name(number): addresses.node(number) for number in range(1, bed.nodes + 1)}
    config = layout.root / "certificates.json"
    config.write_text(json.dumps({"dir": str(layout.pki), "server": bed.server, "serverNames": names, "nodes": nodes}))
    shell.run([program, "certificates", config])
