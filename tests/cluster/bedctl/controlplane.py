"""The control plane: its flags, and starting the one process that it is."""

import json
import urllib.error
from pathlib import Path

from bedctl import api, artefacts, processes
from bedctl.errors import BedError
from bedctl.record import Bed

NAME = "control-plane"

# Ready after 2.5 to 7 s on two idle cores; a machine that builds at the same time takes several times that.
READY_TIMEOUT_S = 90.0


def start(bed: Bed, program: Path) -> None:
    """Start the process; ``wait_ready`` tells when it serves."""
    config = bed.layout.root / "control-plane.json"
    config.write_text(json.dumps(_config(bed), indent=2) + "\n")
    enter = ["nsenter", f"--net=/run/netns/{bed.layout.control_plane_namespace}", "--"] if bed.namespaced else []
    processes.start(bed.layout, NAME, [*enter, program, NAME, config])


def wait_ready(bed: Bed) -> None:
    """Wait for /readyz, and for the default ServiceAccount, without which no pod can be created."""
    log = bed.layout.logs / f"{NAME}.log"
    client = api.connect(bed)

    def serves() -> bool:
        if processes.recorded(bed.layout, NAME) is None:
            raise BedError(
                f"The control plane ended early. The end of {log}:\n{log.read_text(errors='replace')[-1500:]}"
            )
        return client.ready()

    def accounts_exist() -> bool:
        try:
            client.get("/api/v1/namespaces/default/serviceaccounts/default")
        except (BedError, urllib.error.URLError):
            return False
        return True

    api.wait_until(serves, what="The API server's readiness", timeout_s=READY_TIMEOUT_S, look_at=log)
    api.wait_until(accounts_exist, what="The default ServiceAccount", timeout_s=READY_TIMEOUT_S, look_at=log)


def restart(bed: Bed) -> None:
    """Kill the process, etcd with it, and start it again on the same data; return when it serves.

    etcd does not sync to disk, but what it wrote is in the kernel's hands, which outlives the process.
    """
    running = processes.recorded(bed.layout, NAME)
    processes.end([running] if running is not None else [])
    start(bed, artefacts.BED.program("bed"))
    wait_ready(bed)


def is_running(bed: Bed) -> bool:
    """Say whether its process runs; it may not serve yet."""
    return processes.recorded(bed.layout, NAME) is not None


def _config(bed: Bed) -> dict[str, object]:
    etcd = f"http://127.0.0.1:{bed.etcd_port}"
    return {
        "etcdDir": str(bed.layout.root / "etcd"),
        "etcdURL": etcd,
        "kubeconfig": str(bed.layout.kubeconfig),
        "apiServer": _api_server_flags(bed, etcd),
        "controllerManager": _controller_manager_flags(bed),
        "scheduler": _client_flags(bed, "scheduler", bed.scheduler_port),
    }


def _api_server_flags(bed: Bed, etcd: str) -> list[str]:
    pki = bed.layout.pki
    # On loopback no pod will ever look for the API's Service, and its validation refuses loopback endpoints.
    where = (
        ["--bind-address=0.0.0.0", f"--advertise-address={bed.api_address}", "--endpoint-reconciler-type=lease"]
        if bed.namespaced
        else ["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"]
    )
    return [
        *where,
        f"--etcd-servers={etcd}",
        f"--secure-port={bed.api_port}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--service-cluster-ip-range={bed.network.services}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'kubelet-client.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        # Without it, logs and exec ask a name server for the node's name.
        "--kubelet-preferred-address-types=InternalIP",
        f"--requestheader-client-ca-file={pki / 'ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / 'front-proxy.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy.key'}",
    ]


def _controller_manager_flags(bed: Bed) -> list[str]:
    pki = bed.layout.pki
    return [
        *_client_flags(bed, "controller-manager", bed.controller_manager_port),
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki / 'sa.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        f"--service-cluster-ip-range={bed.network.services}",
        # A lost node is NotReady after 7 s instead of 52 s, which tests of faults wait for.
        "--node-monitor-grace-period=8s",
        "--node-monitor-period=1s",
    ]


def _client_flags(bed: Bed, user: str, port: int) -> list[str]:
    kubeconfig = bed.layout.pki / f"{user}.kubeconfig"
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--leader-elect=false",
        # The defaults of 20 to 30 calls a second double the time to the default ServiceAccount.
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ]
