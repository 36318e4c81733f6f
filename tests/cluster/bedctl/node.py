"""A node: the configuration of kubelet and kube-proxy, and the namespaces that they run in."""

import json
import sys
from pathlib import Path

from bedctl import api, artefacts, cgroups, dns, network, processes, runtime, shell
from bedctl.errors import BedError
from bedctl.record import Bed

READY_TIMEOUT_S = 90.0


def start(bed: Bed, number: int, images: list[Path]) -> None:
    """Make the node's network and cgroup and start its first process, which starts the rest."""
    layout = bed.layout
    folder, name = layout.node_folder(number), layout.node_name(number)
    folder.mkdir(parents=True, exist_ok=True)
    network.add_node(bed, number)
    cgroups.create(layout.node_cgroup(number))
    (folder / "resolv.conf").write_text(f"nameserver {bed.network.control_plane}\n")
    (folder / "kubelet.json").write_text(json.dumps(_kubelet_config(bed, number), indent=2) + "\n")
    (folder / "kube-proxy.json").write_text(json.dumps(_proxy_config(bed, number), indent=2) + "\n")
    plan = folder / "init.json"
    plan.write_text(json.dumps(_init_plan(bed, number, images), indent=2) + "\n")
    namespace = f"--net=/run/netns/{layout.node_namespace(number)}"
    # When `unshare` is killed the kernel kills its child, and with the first process of a pid namespace all others.
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL"]
    init = Path(__file__).with_name("node_init.py")
    processes.start(layout, name, ["nsenter", namespace, "--", *unshare, "--", sys.executable, "-I", init, plan])


def wait_ready(bed: Bed, number: int) -> None:
    """Wait until the API server says that the node is Ready."""
    layout = bed.layout
    name = layout.node_name(number)
    client = api.connect(bed)

    def ready() -> bool:
        if processes.recorded(layout, name) is None:
            log = layout.logs / f"{name}.log"
            raise BedError(f"{name} ended early. The end of {log}:\n{log.read_text(errors='replace')[-1500:]}")
        return is_ready(client, name)

    log = layout.node_folder(number) / "kubelet.log"
    api.wait_until(ready, what=f"The readiness of {name}", timeout_s=READY_TIMEOUT_S, look_at=log)


def is_ready(client: api.Client, name: str) -> bool:
    """Say whether the API server knows the node as Ready."""
    try:
        status = client.get(f"/api/v1/nodes/{name}")["status"]
    except (BedError, OSError):
        return False
    return any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", []))


def is_running(bed: Bed, number: int) -> bool:
    """Say whether the first process of the node runs."""
    return processes.recorded(bed.layout, bed.layout.node_name(number)) is not None


def lose(bed: Bed, number: int) -> None:
    """Kill a node as a power cut would: kubelet, runtime and every container at once. It does not come back."""
    running = processes.recorded(bed.layout, bed.layout.node_name(number))
    processes.end([running] if running is not None else [])


def enter(bed: Bed, number: int) -> list[str]:
    """Return the command that runs another one inside the node.

    Raises:
        BedError: The node does not run.
    """
    outer = processes.recorded(bed.layout, bed.layout.node_name(number))
    children = processes.children_of(outer) if outer is not None else []
    if not children:
        raise BedError(f"{bed.layout.node_name(number)} of bed {bed.name} does not run; start it with `bedctl up`.")
    return ["nsenter", f"--target={children[0]}", "--mount", "--net", "--pid", "--"]


def load(bed: Bed, archive: Path) -> None:
    """Give an image to every node of the bed."""
    ctr = [str(artefacts.CONTAINERD_PROGRAMS.program("ctr")), "--address", runtime.SOCKET, "--namespace", "k8s.io"]
    for number in range(1, bed.nodes + 1):
        shell.run([*enter(bed, number), *ctr, "images", "import", archive.resolve()])


def _init_plan(bed: Bed, number: int, images: list[Path]) -> dict[str, object]:
    """Return what the node's first process does, in order."""
    layout = bed.layout
    folder, name = layout.node_folder(number), layout.node_name(number)
    bed_program = str(artefacts.BED.program("bed"))
    kubelet = [
        bed_program,
        "kubelet",
        f"--config={folder / 'kubelet.json'}",
        f"--kubeconfig={layout.pki / f'{name}.kubeconfig'}",
        f"--hostname-override={name}",
        f"--node-ip={bed.network.node(number)}",
        f"--root-dir={folder / 'kubelet'}",
    ]
    return {
        "folder": str(folder),
        "path": str(artefacts.CONTAINERD_PROGRAMS.folder),
        "containerd": ["containerd", "--config", str(runtime.write_config(bed, number))],
        "socket": runtime.SOCKET,
        "images": [str(image) for image in images],
        "server": bed.server,
        "kubelet": kubelet,
        "kube-proxy": [bed_program, "kube-proxy", f"--config={folder / 'kube-proxy.json'}"],
    }


def _kubelet_config(bed: Bed, number: int) -> dict[str, object]:
    layout = bed.layout
    folder, pki, name = layout.node_folder(number), layout.pki, layout.node_name(number)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": bed.network.node(number),
        "healthzBindAddress": "127.0.0.1",
        "containerRuntimeEndpoint": f"unix://{runtime.SOCKET}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.node_cgroup(number)}",
        "enforceNodeAllocatable": ["pods"],
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / f"{name}.crt"),
        "tlsPrivateKeyFile": str(pki / f"{name}.key"),
        "clusterDNS": [bed.network.control_plane],
        "clusterDomain": dns.DOMAIN,
        "resolvConf": str(folder / "resolv.conf"),
        "podLogsDir": str(folder / "pod-logs"),
        "volumePluginDir": str(folder / "volume-plugins"),
        # Images are imported by hand and could not be pulled again: none may be collected.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.inodesFree": "1%",
        },
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
        "makeIPTablesUtilChains": False,
    }


def _proxy_config(bed: Bed, number: int) -> dict[str, object]:
    name = bed.layout.node_name(number)
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "bindAddress": bed.network.node(number),
        "hostnameOverride": name,
        "clientConnection": {"kubeconfig": str(bed.layout.pki / "proxy.kubeconfig")},
        # Callers from outside the pods' range are translated, so that answers come back through this node.
        "clusterCIDR": bed.network.pods,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # The tables' sizes belong to the machine, not to this node.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
