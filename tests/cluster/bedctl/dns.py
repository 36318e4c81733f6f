"""The cluster's name server: CoreDNS in the control plane's namespace, where every pod reaches it without a Service."""

from pathlib import Path

from bedctl import processes
from bedctl.record import Bed

NAME = "dns"
DOMAIN = "cluster.local"


def start(bed: Bed, program: Path) -> None:
    """Start it once the API server is ready. It answers cluster names only: pods have no way to the internet."""
    corefile = bed.layout.root / "Corefile"
    corefile.write_text(
        f"""{DOMAIN} in-addr.arpa {{
    bind {bed.network.control_plane}
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
