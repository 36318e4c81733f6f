"""Where tests and the demo get a cluster from: ``CLUSTER=embedded|kind|existing``.

All three give a kubeconfig and take images; only here do they differ. The embedded bed is the one that works with
neither Docker nor a cluster at hand.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bedctl import artefacts, host, images, layout, node, record, shell, teardown, up
from bedctl.errors import BedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster that serves.

    ``no_node_because`` is the reason why no pod can run on it; None where pods run.
    """

    provider: str
    kubeconfig: Path
    programs: Path | None
    no_node_because: str | None

    def environment(self) -> dict[str, str]:
        """Return this process's environment, with KUBECONFIG and PATH such that kubectl and helm find the cluster."""
        path = os.environ.get("PATH", os.defpath)
        found = path if self.programs is None else f"{self.programs}{os.pathsep}{path}"
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": found}


class Provider(Protocol):
    """What a source of clusters can do. Each call may be repeated."""

    def up(self, *, nodes: int, mounts: tuple[str, ...]) -> Cluster:
        """Return a cluster that serves; ``nodes`` and ``mounts`` matter to the embedded bed alone."""

    def give(self, image: images.Image) -> None:
        """Let the cluster's nodes have an image of this name."""

    def down(self) -> None:
        """Take away what ``up`` made."""


def selected(name: str | None = None) -> Provider:
    """Return the provider that CLUSTER names, for the bed or kind cluster of that name, or that BED names."""
    choice, name = os.environ.get("CLUSTER") or "embedded", name or os.environ.get("BED") or "default"
    match choice:
        case "embedded":
            return Embedded(name=name)
        case "kind":
            return Kind(name=f"paceline-{name}")
        case "existing":
            return Existing()
    raise BedError(f"CLUSTER={choice} is not known; set embedded (the default), kind or existing.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The bed of this folder. Where the machine cannot host a node, the control plane alone runs."""

    name: str

    def up(self, *, nodes: int, mounts: tuple[str, ...]) -> Cluster:
        """Return the bed, started if need be, with nodes where the machine can host them."""
        if nodes:
            host.install_packages()
        reason = host.why_no_node() if nodes else "The bed was started without a node (NODES=0)."
        bed = up.up(name=self.name, nodes=0 if reason else nodes, mounts=mounts)
        return Cluster(
            provider="embedded",
            kubeconfig=bed.layout.kubeconfig,
            programs=bed.layout.programs,
            no_node_because=None if bed.nodes else reason,
        )

    def give(self, image: images.Image) -> None:
        """Build the image over the machine's own programs and import it on every node."""
        bed = record.load(self.name)
        if bed is None:
            raise BedError(f"There is no bed {self.name}; start it with `make cluster BED={self.name}`.")
        node.load(bed, images.build(image))

    def down(self) -> None:
        """Remove the bed and all that it left."""
        teardown.down(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind cluster, where Docker is there. Its images are those that ``images/`` builds, in the Docker daemon."""

    name: str

    def up(self, *, nodes: int, mounts: tuple[str, ...]) -> Cluster:
        """Return the kind cluster, created if need be."""
        del nodes, mounts  # kind-config.yaml says
        for program in ("docker", "kind", "kubectl"):
            if shutil.which(program) is None:
                raise BedError(f"CLUSTER=kind needs the program {program}; install it, or use CLUSTER=embedded.")
        kubeconfig = layout.cache_root() / "run" / f"{self.name}.kubeconfig"
        kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        where = ["--name", self.name, "--kubeconfig", str(kubeconfig)]
        if self.name in shell.run(["kind", "get", "clusters"]).split():
            shell.run(["kind", "export", "kubeconfig", *where])
        else:
            config = layout.source_root().parent.parent / "kind-config.yaml"
            shell.run(["kind", "create", "cluster", "--config", config, "--wait", "120s", *where])
        return Cluster(provider="kind", kubeconfig=kubeconfig, programs=_helm_folder(), no_node_because=None)

    def give(self, image: images.Image) -> None:
        """Load the image of that name from the Docker daemon."""
        shell.run(["kind", "load", "docker-image", image.name, "--name", self.name])

    def down(self) -> None:
        """Delete the kind cluster."""
        shell.run(["kind", "delete", "cluster", "--name", self.name])


@dataclass(frozen=True, slots=True)
class Existing:
    """A cluster that KUBECONFIG names. It pulls images as it always does, and nothing of it is taken away."""

    def up(self, *, nodes: int, mounts: tuple[str, ...]) -> Cluster:
        """Return the cluster, if it answers."""
        del nodes, mounts  # the cluster is as it is
        kubeconfig = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
        if not kubeconfig.is_file():
            raise BedError(f"CLUSTER=existing finds no kubeconfig at {kubeconfig}; set KUBECONFIG to one file.")
        kubectl = shutil.which("kubectl")
        if kubectl is None:
            raise BedError("CLUSTER=existing needs kubectl on PATH.")
        answer = subprocess.run(
            [kubectl, f"--kubeconfig={kubeconfig}", "--request-timeout=10s", "get", "nodes", "--output=name"],
            check=False,
            capture_output=True,
            text=True,
        )
        if answer.returncode != 0:
            raise BedError(f"The cluster of {kubeconfig} does not answer: {answer.stderr.strip()}")
        reason = None if answer.stdout.strip() else "The existing cluster has no node."
        return Cluster(provider="existing", kubeconfig=kubeconfig, programs=_helm_folder(), no_node_because=reason)

    def give(self, image: images.Image) -> None:
        """Do nothing: its nodes pull."""

    def down(self) -> None:
        """Do nothing: we did not make it."""


def _helm_folder() -> Path | None:
    """Return where helm is, if it is not on PATH: ours, built once."""
    if shutil.which("helm") is not None:
        return None
    artefacts.ensure([artefacts.HELM_PROGRAM])
    return artefacts.HELM_PROGRAM.folder
