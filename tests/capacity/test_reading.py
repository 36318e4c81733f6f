"""What a forecast takes from nodes and pods."""

import pytest

from capacity import builders
from capacity.builders import GPU
from paceline.capacity import reading


def test_node_without_devices_comes_to_nothing() -> None:
    """Most nodes of a cluster are none of ours."""
    plain = builders.node("cpu-1")
    del plain["status"]["allocatable"][GPU]
    assert reading.node(plain) is None


@pytest.mark.parametrize(
    ("change", "usable"),
    [({}, True), ({"unschedulable": True}, False), ({"ready": "Unknown"}, False), ({"ready": "False"}, False)],
)
def test_cordoned_or_unready_node_is_not_usable(*, change: dict, usable: bool) -> None:
    """Its devices are there, and nothing may be sent to them."""
    found = reading.node(builders.node("gpu-1", **change))
    assert found is not None
    assert found.usable is usable


def test_soft_taints_keep_nobody_off() -> None:
    """PreferNoSchedule is a wish."""
    taints = [{"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "effect": "NoSchedule"}]
    found = reading.node(builders.node("gpu-1", taints=taints))
    assert found is not None
    assert [one.key for one in found.taints] == ["b"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_is_over_holds_nothing(phase: str) -> None:
    """Its node's devices are free again."""
    assert reading.holding(builders.pod("done", on="gpu-1", phase=phase)) is None


def test_pod_that_is_being_deleted_still_holds() -> None:
    """A server drains for a minute, and its GPUs with it."""
    ending = builders.pod("ending", on="gpu-1")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert reading.holding(ending) is not None


def test_where_a_pod_may_run_is_kept_only_while_it_waits() -> None:
    """A bound pod stays where it is."""
    selector = {"nodeSelector": {"pool": "a"}}
    waiting = reading.holding(builders.pod("waiting", phase="Pending", **selector))
    bound = reading.holding(builders.pod("bound", on="gpu-1", **selector))
    assert waiting is not None
    assert bound is not None
    assert (waiting.template, bound.template) == (selector, {})


def test_devices_of_containers_and_sidecars_add_up_and_init_steps_do_not() -> None:
    """A sidecar runs beside the containers; a plain init container is over when they start."""

    def container(gpus: int, **more: str) -> dict:
        return {"name": "one", "resources": {"limits": {GPU: gpus}}, **more}

    spec = {
        "initContainers": [container(2, restartPolicy="Always"), container(5)],
        "containers": [container(4), container(0)],
    }
    assert reading.needs(spec) == {GPU: 7}
    assert reading.needs({**spec, "containers": [container(8)]}) == {GPU: 10}


def test_kubernetes_own_resources_are_no_devices() -> None:
    """Only what a device plugin advertises is counted by whole pieces."""
    amounts = {"cpu": "8", "memory": "1Gi", "attachable-volumes.kubernetes.io/x": "2", "amd.com/gpu": "1k", GPU: "0"}
    assert reading.devices(amounts) == {"amd.com/gpu": 1000}


def test_parts_read_as_the_whole_objects_do() -> None:
    """What is held of a list until it is whole says the same, in a tenth of the memory."""
    taints = [{"key": "a", "effect": "NoSchedule"}]
    node = builders.node("gpu-1", taints=taints, unschedulable=True, labels={"pool": "a"})
    node["status"]["images"] = [{"names": ["x"]}] * 50
    assert reading.node(reading.node_part(node)) == reading.node(node)
    assert "images" not in reading.node_part(node)["status"]
    sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": {"limits": {GPU: "1"}}, "args": ["x"]}
    placed = {"nodeSelector": {"pool": "a"}, "tolerations": [{"operator": "Exists"}]}
    for one in (
        builders.pod("waits", initContainers=[sidecar], **placed),
        builders.pod("runs", on="gpu-1", priority=7),
        builders.pod("done", on="gpu-1", phase="Failed"),
    ):
        assert reading.holding(reading.pod_part(one)) == reading.holding(one)
        assert "args" not in str(reading.pod_part(one))
