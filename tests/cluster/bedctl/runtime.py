"""A node's container runtime: containerd's configuration, the base of every container, and the pod network."""

import json
import shutil
from pathlib import Path

from bedctl import artefacts, host, images, rootfs, shell
from bedctl.record import Bed

# Inside the node's mount namespace, where /run is its own.
SOCKET = "/run/containerd/containerd.sock"

# Filesystems and sandboxes that this machine has no use for; probing them costs a second at every start.
_DISABLED = (
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.erofs",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.nri.v1.nri",
    "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.internal.v1.tracing",
)


def write_config(bed: Bed, number: int) -> Path:
    """Write all that containerd reads at its start and return the path of its configuration."""
    folder = bed.layout.node_folder(number)
    (folder / "cni").mkdir(parents=True, exist_ok=True)
    (folder / "cni" / "10-bed.conflist").write_text(json.dumps(_pod_network(bed, number), indent=2) + "\n")
    (folder / "base-spec.json").write_text(json.dumps(_base_spec(bed), indent=2) + "\n")
    path = folder / "containerd.toml"
    path.write_text(_containerd_config(folder))
    return path


def _containerd_config(folder: Path) -> str:
    # containerd cannot put an overlay on an overlay, which is what the root of a Docker container is.
    snapshotter = "native" if host.is_overlay(folder) else "overlayfs"
    # Without CAP_SYS_RESOURCE runc cannot lower a score, and every sandbox would fail with an EOF on its pipe.
    return f"""version = 3
root = "{folder / "containerd"}"
state = "/run/containerd"
disabled_plugins = {json.dumps(list(_DISABLED))}
[grpc]
  address = "{SOCKET}"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "{snapshotter}"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{images.PAUSE}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{artefacts.CNI.folder}"]
    conf_dir = "{folder / "cni"}"
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = "{folder / "base-spec.json"}"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = "{shutil.which("runc")}"
        SystemdCgroup = false
"""


def _base_spec(bed: Bed) -> dict[str, object]:
    """Return containerd's own default for a container, with the machine's folders mounted into it."""
    spec: dict[str, object] = json.loads(shell.run([artefacts.CONTAINERD_PROGRAMS.program("ctr"), "oci", "spec"]))
    listed = spec["mounts"]
    assert isinstance(listed, list)
    spec["mounts"] = [*listed, *rootfs.mounts(bed.mounts)]
    # The default caps open files at 1024, which the CRI without a base spec does not.
    process = spec["process"]
    assert isinstance(process, dict)
    process.pop("rlimits", None)
    return spec


def _pod_network(bed: Bed, number: int) -> dict[str, object]:
    """Return a routed network: on a bridge, answers within a node would pass by the translation of Services."""
    return {
        "cniVersion": "1.0.0",
        "name": "bed",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/cni-ipam",
                    "ranges": [[{"subnet": bed.network.pods_of(number)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}, "backend": "nftables"},
        ],
    }
