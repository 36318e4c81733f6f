"""The controller on a real API server: a small room carried to its end, whoever is killed on the way."""

import asyncio

import pytest

import fakeroom
import harness
import killproxy
import kubeletless
import survival
from api import builders
from paceline.controller import lease
from paceline.planning import kinds

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
ROOM = {"PACELINE_ROOMS": "fakeroom:Relay"}


@pytest.fixture
def settings(settings):
    """Add what this module's operator needs."""
    return {**ROOM, **settings}


async def make_resource(api, namespace, name="run"):
    """Make the resource that the room acts on."""
    manifest = builders.training_job(name)
    manifest["metadata"]["namespace"] = namespace
    return await api.create(kinds.DRAFT_TRAINING_JOB, manifest)


def succeed(_pod):
    """Let a pod succeed."""
    return kubeletless.Play(phase="Succeeded", message="hello")


async def complete(api, namespace, *, name="run", within_s=60.0):
    """Wait until the room has nothing left to do, and the garbage collector neither."""
    async with asyncio.timeout(within_s):
        while True:
            stored = await api.get(kinds.DRAFT_TRAINING_JOB, namespace, name)
            jobs = await api.items(kinds.JOB, namespace)
            if (stored.get("status") or {}).get("phase") == "Complete" and not jobs:
                return stored
            await asyncio.sleep(0.1)


async def end_state(api, namespace):
    """Return what is left, without what the API server makes up."""
    kept = {}
    for kind in (kinds.CONFIG_MAP, kinds.SERVICE, kinds.JOB, kinds.POD):
        for one in await api.items(kind, namespace):
            meta = one["metadata"]
            if meta["name"] == "kube-root-ca.crt":
                continue
            # The hash in a name is of the owner's UID, which differs between runs.
            place = (kind.kind, meta["name"].rsplit("-", 1)[0])
            assert place not in kept, f"two of {place}"
            spec = one.get("spec") or {}
            kept[place] = (one.get("data"), spec.get("selector"), meta.get("annotations"))
    return kept


WANTED = {
    ("ConfigMap", "run-result"): ({"said": "hello"}, None, None),
    ("Service", "run-front"): (None, {"paceline.dev/training-job": "run", "paceline.dev/revision": "two"}, None),
}


async def test_room_is_carried_to_its_end(control_plane, api, namespace, settings, tmp_path):
    """Create, apply and delete, with the annotation of the first revision gone."""
    with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "log", **settings) as operator:
        await operator.ready()
        await make_resource(api, namespace)
        async with kubeletless.playing(api, namespace, succeed):
            stored = await complete(api, namespace)
        assert await end_state(api, namespace) == WANTED
        assert {one["type"]: one["reason"] for one in stored["status"]["conditions"]} == {
            "Accepted": "TargetRead",
            "Complete": "Published",
        }
        events = await api.server.request("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        ours = [one["reason"] for one in events["items"] if one["regarding"]["kind"] == "DraftTrainingJob"]
        assert sorted(ours) == ["NotPublished", "Published", "TargetRead"]
        assert operator.stop() == 0


async def test_settled_world_costs_no_write(control_plane, api, namespace, settings, tmp_path):
    """Not one mutating request for a resync of everything, a touched child and a restart; only the Lease is renewed."""
    async with killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied):
        quick = {**settings, "PACELINE_RESYNC": "1s"}
        with harness.run_operator(proxied, log=tmp_path / "log", **quick) as operator:
            await operator.ready()
            await make_resource(api, namespace)
            async with kubeletless.playing(api, namespace, succeed):
                await complete(api, namespace)
            await asyncio.sleep(1.0)
            writes, passes = len(proxy.writes), len(operator.lines("pass"))
            await asyncio.sleep(3.0)
            assert len(operator.lines("pass")) > passes
            operator.kill()
        with harness.run_operator(proxied, log=tmp_path / "log", **quick) as operator:
            await operator.ready()
            await operator.leading()
            await asyncio.sleep(2.0)
        assert proxy.writes[writes:] == []
        assert proxy.refused == []


@pytest.mark.parametrize("moment", list(killproxy.Moment))
async def test_sigkill_after_each_write_ends_in_the_same_state(
    control_plane, api, namespace, settings, tmp_path, moment
):
    """Each operator lives for one write; the end is the same, with no second Job."""
    async with killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied):
        await make_resource(api, namespace)
        async with kubeletless.playing(api, namespace, succeed):
            kills = await survival.killed_after_each_write(
                proxy,
                proxied,
                environment=settings,
                log=tmp_path / "log",
                moment=moment,
                is_done=lambda: complete(api, namespace, within_s=280),
            )
        assert kills >= 7
        assert await end_state(api, namespace) == WANTED
        assert len([one for one in proxy.writes if one.verb == "POST" and one.path.endswith("/jobs")]) == 1


async def test_two_operators_have_one_leader_and_the_other_takes_over(
    control_plane, api, namespace, settings, tmp_path
):
    """The follower is warm: it goes on where the killed leader stopped."""
    first_log, second_log = tmp_path / "first", tmp_path / "second"
    with harness.run_operator(control_plane.kubeconfig, log=first_log, **settings) as first:
        await first.ready()
        await first.leading()
        with harness.run_operator(control_plane.kubeconfig, log=second_log, **settings) as second:
            await second.ready()
            await make_resource(api, namespace)
            await harness.until(lambda: bool(first.lines("pass")), within_s=20)
            assert "paceline_leader 0.0" in second.ask("/metrics")[1]
            assert second.lines("pass") == []
            first.kill()
            async with kubeletless.playing(api, namespace, succeed):
                await complete(api, namespace)
            assert second.lines("lease_acquired")
    assert await end_state(api, namespace) == WANTED


async def test_stolen_lease_ends_the_process(control_plane, api, namespace, settings, tmp_path):
    """Non-zero, so that its container is started again as a follower."""
    with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "log", **settings) as operator:
        await operator.ready()
        await operator.leading()
        stolen = {"spec": {"holderIdentity": "somebody-else", "leaseDurationSeconds": 60}}
        await api.merge(lease.LEASE, namespace, "paceline-operator", stolen)
        assert await operator.ended() == 3
        assert operator.lines("lease_lost")


async def test_stopped_operator_releases_its_lease(control_plane, api, namespace, settings, tmp_path):
    """A rolling update leaves no gap."""
    with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "log", **settings) as operator:
        await operator.ready()
        await operator.leading()
        assert operator.stop() == 0
    found = await api.get(lease.LEASE, namespace, "paceline-operator")
    assert not found["spec"].get("holderIdentity")


async def test_foreign_job_is_untouched_and_told(control_plane, api, namespace, settings, tmp_path):
    """And the resource goes on when the name is free."""
    made = await make_resource(api, namespace)
    name = fakeroom_job_name(made)
    theirs = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "theirs"}]}},
        },
    }
    foreign = await api.create(kinds.JOB, theirs)
    with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "log", **settings) as operator:
        await operator.ready()
        await accepted(api, namespace, "ForeignObject")
        kept = await api.get(kinds.JOB, namespace, name)
        assert kept["metadata"]["uid"] == foreign["metadata"]["uid"]
        await api.delete(kinds.JOB, namespace, name)
        async with kubeletless.playing(api, namespace, succeed):
            await complete(api, namespace)
    assert await end_state(api, namespace) == WANTED


def fakeroom_job_name(resource):
    """Return the name of the Job that the room will want."""
    meta = resource["metadata"]
    return fakeroom.names.child(meta["name"], "step", meta["uid"])


async def accepted(api, namespace, reason):
    """Wait until Accepted has a reason."""
    async with asyncio.timeout(30):
        while True:
            stored = await api.get(kinds.DRAFT_TRAINING_JOB, namespace, "run")
            told = {one["type"]: one["reason"] for one in (stored.get("status") or {}).get("conditions") or ()}
            if told.get("Accepted") == reason:
                return
            await asyncio.sleep(0.1)
