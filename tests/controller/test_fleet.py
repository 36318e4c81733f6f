"""The small cache of devices, and what a controller does without the permission to read nodes."""

import asyncio

from capacity import builders as devices
from controller import builders, fakeserver
from controller.test_core import new_core, running
from paceline.controller import errors, fleet, metrics
from paceline.planning import kinds


def test_snapshot_stays_the_same_until_devices_change() -> None:
    """A node's heartbeat is no news."""
    store = fleet.FleetStore(measured=metrics.Metrics())
    store.put(kinds.NODE, devices.node("gpu-1"))
    before = store.snapshot()
    beat = devices.node("gpu-1")
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:00Z"
    store.put(kinds.NODE, beat)
    store.put(kinds.POD, {"metadata": {"name": "web", "uid": "u"}, "spec": {"containers": [{"name": "web"}]}})
    assert store.snapshot() is before
    store.put(kinds.POD, devices.pod("server", on="gpu-1"))
    assert store.snapshot().holdings.keys() == {"uid-of-server"}


def test_pod_that_ends_or_goes_frees_its_devices() -> None:
    """By its phase, by a delete, and by a list that lacks it."""
    store = fleet.FleetStore(measured=metrics.Metrics())
    for name in ("a", "b", "c"):
        store.put(kinds.POD, devices.pod(name, on="gpu-1"))
    store.put(kinds.POD, devices.pod("a", on="gpu-1", phase="Succeeded"))
    store.remove(kinds.POD, devices.pod("b", on="gpu-1"))
    assert store.snapshot().holdings.keys() == {"uid-of-c"}
    store.replace(kinds.POD, None, [], mark=1)
    assert not store.snapshot().holdings


def claim(name: str, *modes: str, bound: tuple[str, ...] = ()) -> dict[str, object]:
    """Return a volume claim."""
    meta = {"name": name, "namespace": "models", "uid": name}
    return {"metadata": meta, "spec": {"accessModes": list(modes)}, "status": {"accessModes": list(bound)}}


def test_only_volumes_that_one_node_or_pod_has_alone_are_kept() -> None:
    """By what the bound volume allows, and by what was asked for until then."""
    store = fleet.FleetStore(measured=metrics.Metrics())
    for one in (claim("a", "ReadWriteOnce"), claim("b", "ReadWriteMany"), claim("c", "ReadWriteOncePod")):
        store.put(kinds.PERSISTENT_VOLUME_CLAIM, one)
    assert store.snapshot().claims == {("models", "a"): "ReadWriteOnce", ("models", "c"): "ReadWriteOncePod"}
    store.put(kinds.PERSISTENT_VOLUME_CLAIM, claim("a", "ReadWriteOnce", bound=("ReadWriteOnce", "ReadOnlyMany")))
    store.remove(kinds.PERSISTENT_VOLUME_CLAIM, claim("c", "ReadWriteOncePod"))
    assert store.snapshot().claims == {}
    assert store.slim(kinds.PERSISTENT_VOLUME_CLAIM, claim("b", "ReadWriteMany")) is None


async def test_passes_wait_for_the_devices_too() -> None:
    """Else the first pass after a start would find no node at all."""
    server = fakeserver.FakeServer()
    server.put("/api/v1/nodes/gpu-1", {**devices.node("gpu-1"), "kind": "Node"})
    one = new_core(server, forecast=True)
    async with running(one):
        await builders.eventually(lambda: one.is_synced)
        known = one.look().fleet()
    assert known is not None
    assert known.nodes.keys() == {"gpu-1"}


async def test_without_permission_nothing_is_known_and_passes_run() -> None:
    """A role in one namespace shows no nodes: scheduling deadlines alone decide."""
    server = fakeserver.FakeServer()
    refused = errors.RefusedError("nodes is forbidden")
    server.denied["/api/v1/nodes"] = refused
    one = new_core(server, forecast=True)
    async with running(one):
        await builders.eventually(lambda: one.is_synced)
        await asyncio.sleep(0)
        assert one.look().fleet() is None


async def test_without_permission_to_read_claims_the_devices_are_known_all_the_same() -> None:
    """Then a deadline finds out what a volume holds up."""
    server = fakeserver.FakeServer()
    server.put("/api/v1/nodes/gpu-1", {**devices.node("gpu-1"), "kind": "Node"})
    server.denied["/api/v1/persistentvolumeclaims"] = errors.RefusedError("persistentvolumeclaims is forbidden")
    one = new_core(server, forecast=True)
    async with running(one):
        await builders.eventually(lambda: one.is_synced)
        known = one.look().fleet()
    assert known is not None
    assert known.nodes.keys() == {"gpu-1"}


async def test_slowest_watch_tells_how_far_a_picture_of_several_namespaces_reaches() -> None:
    """What one namespace has told says nothing of what another has not told yet; one watch alone tells all."""
    server = fakeserver.FakeServer()
    several = new_core(server, namespaces=(builders.NAMESPACE, "other"))
    async with running(several):
        await builders.eventually(lambda: several.is_synced)
        before = several.look().told_to(kinds.CONFIG_MAP)
        server.put(f"/api/v1/namespaces/{builders.NAMESPACE}/configmaps/child", builders.config_map())
        store = several.cache.store(kinds.CONFIG_MAP)
        await builders.eventually(lambda: store.get(builders.NAMESPACE, "child") is not None)
        assert several.look().told_to(kinds.CONFIG_MAP) == before
        server.put("/api/v1/namespaces/other/configmaps/child", builders.config_map())
        await builders.eventually(lambda: several.look().told_to(kinds.CONFIG_MAP) != before)
    alone = new_core(server, namespaces=(builders.NAMESPACE,), identity="other")
    assert alone.look().told_to(kinds.CONFIG_MAP) is None
