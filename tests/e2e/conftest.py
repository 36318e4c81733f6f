"""A bed of its own for every end-to-end test, so that it meets nothing that other tests left."""

from collections.abc import Iterator

import pytest

from bedctl import host
from demo import machine, report
from demo.console import Console
from demo.flow import Flow

BED = "e2e"


@pytest.fixture
def flow(request: pytest.FixtureRequest) -> Iterator[Flow]:
    """Return the loop on a fresh cluster with a node; skipped, with the reason, where there can be no node.

    A test module may name its bed by ``BED``.
    """
    name = getattr(request.module, "BED", BED)
    reason = host.why_no_node()
    if reason is not None:
        pytest.skip(reason)
    console = Console()
    materials = machine.prepare(console)
    cluster = machine.start_bed(name, materials)
    yield Flow(
        cluster=cluster,
        console=console,
        story=report.Story(machine=machine.describe()),
        images=machine.bed_images(),
        target="pvc://models/smollm2-135m",
    )
    machine.teardown_bed(name)
