"""The cluster's name server: CoreDNS in the control plane's namespace, where every pod reaches it without a Service."""

import socket
from pathlib import Path

from bedctl import api, processes
from bedctl.errors import BedError
from bedctl.record import Bed

NAME = "dns"
DOMAIN = "cluster.local"

PORT = 53
START_TIMEOUT_S = 30.0


def start(bed: Bed, program: Path) -> None:
    """Start it once the API server is ready. It answers cluster names only: pods have no way to the internet."""
    corefile = bed.layout.root / "Corefile"
    corefile.write_text(
        f"""{DOMAIN} in-addr.arpa {{
    errors
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {bed.layout.pki / "dns.kubeconfig"} bed
        pods insecure
        ttl 2
    }}
}}
"""
    )
    namespace = f"--net=/run/netns/{bed.layout.control_plane_namespace}"
    processes.start(bed.layout, NAME, ["nsenter", namespace, "--", program, "-conf", corefile])


def wait_ready(bed: Bed) -> None:
    """Wait until it listens, which it does once it has read all Services."""
    log = bed.layout.logs / f"{NAME}.log"

    def listens() -> bool:
        if processes.recorded(bed.layout, NAME) is None:
            raise BedError(f"The name server ended early. The end of {log}:\n{log.read_text(errors='replace')[-1500:]}")
        with socket.socket() as connection:
            connection.settimeout(1.0)
            return connection.connect_ex((bed.network.control_plane, PORT)) == 0

    api.wait_until(listens, what="The name server's start", timeout_s=START_TIMEOUT_S, look_at=log)


def is_running(bed: Bed) -> bool:
    """Say whether its process runs."""
    return processes.recorded(bed.layout, NAME) is not None
