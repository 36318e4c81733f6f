"""Where the demo runs: a bed of our own, kind, or a cluster that exists."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, Protocol

from demo import machine, manifests
from demo.cluster import Cluster
from demo.console import Console
from demo.flow import Images

BED: Final = "demo"
HUB_TARGET: Final = "hf://HuggingFaceTB/SmolLM2-135M-Instruct"
_VERSION: Final = "0.1.0"


class Site(Protocol):
    """A place to run in."""

    def start(self, console: Console) -> None:
        """Make it ready."""
        ...

    def cluster(self) -> Cluster:
        """Return the cluster."""
        ...

    def images(self) -> Images:
        """Return the images it can run."""
        ...

    def target(self) -> str:
        """Return the URI of the target model."""
        ...

    def how_to_use(self) -> str:
        """Return how a person reaches it."""
        ...

    def stop(self) -> None:
        """Take down what ``start`` made."""
        ...


def choose(name: str) -> Site:
    """Return the site that ``CLUSTER`` names.

    Raises:
        SystemExit: when there is none of that name.
    """
    if name == "embedded":
        return Embedded()
    if name == "kind":
        return Kind()
    if name == "existing":
        return Existing()
    raise SystemExit(f"CLUSTER={name} is not known; set CLUSTER to embedded, kind or existing")


class Embedded:
    """A bed on this machine; needs no Docker and no registry."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None

    def start(self, console: Console) -> None:
        """Build what is missing, then bring the bed up."""
        console.heading("Prepare this machine")
        materials = machine.prepare(console)
        console.progress("starting a Kubernetes control plane and node")
        self._cluster = machine.start_bed(BED, materials)
        console.line("a real Kubernetes runs: control plane, kubelet, containerd")

    def cluster(self) -> Cluster:
        """Return the bed."""
        if self._cluster is None:
            raise RuntimeError("start() comes first")
        return self._cluster

    def images(self) -> Images:
        """Return the bed's images."""
        return machine.bed_images()

    def target(self) -> str:
        """Return the model on the bed's volume."""
        return "pvc://models/smollm2-135m"

    def how_to_use(self) -> str:
        """Return the kubeconfig."""
        return f"KUBECONFIG={self.cluster().kubeconfig}; remove it with `make cluster-down BED={BED}`"

    def stop(self) -> None:
        """Remove the bed."""
        machine.teardown_bed(BED)


class Existing:
    """The cluster that KUBECONFIG names; images from a registry it can pull from."""

    def start(self, console: Console) -> None:
        """Make the namespace and the claims, by the default storage class."""
        console.heading("Prepare the cluster")
        cluster = self.cluster()
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": machine.NAMESPACE}})
        for name in ("training", "drafts"):
            claim = manifests.claim(name, "")
            del claim["spec"]["volumeName"], claim["spec"]["storageClassName"]
            claim["spec"]["accessModes"] = [os.environ.get("PACELINE_DEMO_ACCESS_MODE", "ReadWriteMany")]
            cluster.apply(claim)

    def cluster(self) -> Cluster:
        """Return the cluster of KUBECONFIG."""
        kubeconfig = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
        helm = shutil.which("helm")
        if helm is None or not kubeconfig.exists():
            raise SystemExit(f"CLUSTER=existing needs helm on PATH and a kubeconfig at {kubeconfig}; set KUBECONFIG")
        return Cluster.connect(kubeconfig=kubeconfig, helm=helm, namespace=machine.NAMESPACE)

    def images(self) -> Images:
        """Return the images named by PACELINE_REGISTRY."""
        registry = os.environ.get("PACELINE_REGISTRY")
        if not registry:
            raise SystemExit(
                "push what images/ builds where the cluster can pull it, and set PACELINE_REGISTRY to that"
            )
        return Images(
            operator=f"{registry}/operator:{_VERSION}",
            trainer=f"{registry}/trainer:{_VERSION}",
            engine=os.environ.get("PACELINE_ENGINE_IMAGE", f"{registry}/vllm-cpu:0.32.0"),
        )

    def target(self) -> str:
        """Return the model on the hub, unless told otherwise."""
        return os.environ.get("PACELINE_DEMO_TARGET", HUB_TARGET)

    def how_to_use(self) -> str:
        """Return where the resources are."""
        return f"kubectl -n {machine.NAMESPACE} get speculativedeployments,drafttrainingjobs"

    def stop(self) -> None:
        """Delete the demo's namespace; the operator stays installed."""
        self.cluster().delete_namespace(machine.NAMESPACE)


class Kind(Existing):
    """A kind cluster; builds the images of images/ with Docker and loads them."""

    def start(self, console: Console) -> None:
        """Create the cluster, build, load."""
        for program in ("docker", "kind"):
            if shutil.which(program) is None:
                raise SystemExit(f"CLUSTER=kind needs {program} on PATH; install it or use CLUSTER=embedded")
        console.heading("Prepare kind")
        root = machine.REPOSITORY
        console.progress("kind create cluster")
        os.environ.setdefault("PACELINE_REGISTRY", "localhost/paceline")
        _run("kind", "create", "cluster", "--name", BED, "--config", str(root / "kind-config.yaml"))
        images = self.images()
        for reference in (images.operator, images.trainer, images.engine):
            name = reference.rpartition("/")[2].partition(":")[0]
            console.progress(f"docker build {name}")
            _run("docker", "build", "-t", reference, "-f", str(root / "images" / name / "Dockerfile"), str(root))
            _run("kind", "load", "docker-image", "--name", BED, reference)
        os.environ.setdefault("PACELINE_DEMO_ACCESS_MODE", "ReadWriteOnce")
        super().start(console)

    def stop(self) -> None:
        """Delete the cluster."""
        _run("kind", "delete", "cluster", "--name", BED)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} failed: {done.stderr.strip()[-2000:]}")
