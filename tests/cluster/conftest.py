"""Clusters for tests.

``control_plane`` is a real API server with its controllers, ``cluster`` has a node that runs pods. Both are
``bedctl.provider.Cluster`` values, come from where CLUSTER says, and are brought up once a session. A bed of that
name that runs already is used and left running; one that the session started is taken down with it. Tests that need
a node are skipped, with the reason, where the machine cannot host one.
"""

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

import harness
from bedctl import provider, status
from bedctl.errors import BedError
from standin import served

Kubectl = Callable[..., str]


@pytest.fixture(scope="session")
def control_plane() -> Iterator[provider.Cluster]:
    """A real API server; it may have nodes or none."""
    yield from _cluster(nodes=0)


@pytest.fixture(scope="session")
def cluster(control_plane: provider.Cluster) -> provider.Cluster:
    """A cluster that runs pods."""
    del control_plane  # started first, so that it is the one that takes the bed down
    grown = _up(nodes=1)
    if grown.no_node_because is not None:
        pytest.skip(grown.no_node_because)
    return grown


@pytest.fixture
def kubectl(control_plane: provider.Cluster) -> Kubectl:
    """Run kubectl with some words, standard input by ``stdin``; returns its output and fails the test if it fails."""

    def call(*words: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            ["kubectl", *words],
            check=False,
            capture_output=True,
            text=True,
            input=stdin,
            env=control_plane.environment(),
        )
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    return call


@pytest.fixture
async def api(control_plane: provider.Cluster) -> AsyncIterator[harness.Api]:
    """The API server, with our kinds."""
    async with harness.connect(control_plane.kubeconfig) as opened:
        await harness.install_crds(opened)
        yield opened


@pytest.fixture
async def namespace(api: harness.Api) -> AsyncIterator[str]:
    """A namespace of the test's own."""
    async with harness.scratch_namespace(api) as name:
        yield name


@pytest.fixture
async def place(cluster: provider.Cluster, api: harness.Api, namespace: str, tmp_path: Path) -> AsyncIterator[str]:
    """A namespace with a target's files, on a bed whose node has the images of stand-ins (``standin/``)."""
    if cluster.provider != "embedded":
        pytest.skip("the stand-in's image is made for the embedded bed; set CLUSTER=embedded")
    bed = os.environ.get("BED") or "default"
    served.load_images(bed)
    async with served.target(api, namespace, bed=bed, folder=tmp_path):
        yield namespace


@pytest.fixture
def settings(namespace: str) -> dict[str, str]:
    """Environment that confines an operator and its Lease to the test's own namespace, as the chart does it."""
    return {"PACELINE_NAMESPACE": namespace, "PACELINE_NAMESPACES": namespace, "PACELINE_FORECAST": "false"}


def _cluster(*, nodes: int) -> Iterator[provider.Cluster]:
    chosen = provider.selected()
    found = isinstance(chosen, provider.Embedded) and status.describe(chosen.name)["state"] == "running"
    yield _up(nodes=nodes)
    if isinstance(chosen, provider.Embedded) and not found:
        chosen.down()


def _up(*, nodes: int) -> provider.Cluster:
    try:
        return provider.selected().up(nodes=nodes, mounts=())
    except BedError as error:
        pytest.fail(str(error), pytrace=False)
