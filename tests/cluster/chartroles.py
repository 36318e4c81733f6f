"""The chart's roles and bindings, as Helm renders them, on a real API server."""

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

CHART = Path(__file__).resolve().parents[2] / "charts" / "paceline"
RELEASE = "rights"


def roles(control_plane, namespace, *values):
    """Return the chart's roles and bindings."""
    environment = control_plane.environment()
    if shutil.which("helm", path=environment["PATH"]) is None:
        pytest.skip("helm is not there; `make cluster` builds it")
    words = ["helm", "template", RELEASE, CHART, "--namespace", namespace, "--show-only", "templates/rbac.yaml"]
    done = subprocess.run(
        [*words, *(word for value in values for word in ("--set", value))],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def apply(control_plane, documents):
    """Apply documents with kubectl."""
    subprocess.run(
        ["kubectl", "apply", "-f", "-"],
        check=True,
        input=yaml.safe_dump_all(documents),
        text=True,
        env=control_plane.environment(),
    )


@contextlib.contextmanager
def applied(control_plane, documents):
    """Apply documents, and delete them at the end of the block: a ClusterRole has no namespace to go with."""
    apply(control_plane, documents)
    try:
        yield
    finally:
        subprocess.run(
            ["kubectl", "delete", "-f", "-", "--wait=false"],
            check=True,
            input=yaml.safe_dump_all(documents),
            text=True,
            env=control_plane.environment(),
        )
