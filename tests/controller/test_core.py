"""The parts together, against an API server in memory: a small room is carried to its end whatever goes wrong."""

import asyncio
import contextlib

import pytest

import fakeroom
from controller import builders, fakeserver
from paceline.controller import apiserver, clock, core, errors, metrics
from paceline.planning import kinds

RESOURCE = apiserver.item(kinds.DRAFT_TRAINING_JOB, builders.NAMESPACE, "run")
FAST = {
    "resync": 3600.0,
    "backoff_base": 0.01,
    "backoff_max": 0.05,
    "lease_duration": 3.0,
    "lease_renew_deadline": 2.0,
    "lease_retry_period": 0.05,
}


async def no_pod(_url, *, limit_bytes):
    """Answer for pods: there is no network."""
    raise OSError(f"no network, {limit_bytes}")


def new_core(server, *, identity="me", lost=lambda _error: None, **settings):
    """Return a controller with the small room."""
    return core.Core(
        configured=builders.settings_for(identity=identity, **FAST, **settings),
        rooms={"DraftTrainingJob": fakeroom.Relay()},
        server=server,
        fetch=no_pod,
        time=clock.SystemClock(),
        measured=metrics.Metrics(),
        lost=lost,
    )


@contextlib.asynccontextmanager
async def running(one):
    """Run a controller for the length of a block."""
    task = asyncio.create_task(one.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
            await task


def new_world():
    """Return a server that holds one resource."""
    server = fakeserver.FakeServer()
    server.put(RESOURCE, builders.resource())
    return server


def play_kubelet(server):
    """Let the Job's pod succeed."""
    for path, job in tuple(server.objects.items()):
        if job["kind"] == "Job" and not job.get("status"):
            name = job["metadata"]["name"]
            labels = {**job["metadata"]["labels"], "batch.kubernetes.io/job-name": name}
            ended = {"state": {"terminated": {"message": "hello"}}}
            server.put(
                apiserver.item(kinds.POD, builders.NAMESPACE, f"{name}-0"),
                {"kind": "Pod", "metadata": {"labels": labels}, "status": {"containerStatuses": [ended]}},
            )
            server.put(path, {**job, "status": {"succeeded": 1}})


def is_complete(server):
    """Whether the room has nothing left to do."""
    play_kubelet(server)
    jobs = [one for one in server.objects.values() if one["kind"] == "Job"]
    return (server.objects[RESOURCE].get("status") or {}).get("phase") == "Complete" and not jobs


async def until_complete(server):
    """Wait for that."""
    await builders.eventually(lambda: is_complete(server), within_s=60.0)


def end_state(server):
    """Return what is left of children."""
    kept = {}
    for path, one in server.objects.items():
        if one["kind"] in ("ConfigMap", "Service", "Job"):
            kept[path] = {field: one.get(field) for field in ("spec", "data")}
    return kept


async def settle(server):
    """Wait until no request was made for a while."""
    seen = -1
    while seen != len(server.requests):
        seen = len(server.requests)
        await asyncio.sleep(0.1)


async def test_room_is_carried_to_its_end_and_then_left_alone():
    """A further pass in a settled world writes nothing."""
    server = new_world()
    one = new_core(server)
    async with running(one):
        await until_complete(server)
        await asyncio.sleep(0.2)
        before = [write for write in server.writes if "/leases/" not in write[1]]
        one.enqueue(builders.KEY)
        await asyncio.sleep(0.2)
        assert [write for write in server.writes if "/leases/" not in write[1]] == before
    assert len(end_state(server)) == 2


async def reference():
    """Return the end state, and the number of writes to it, of a run that nothing disturbs."""
    server = new_world()
    async with running(new_core(server)):
        await until_complete(server)
    return end_state(server), len([write for write in server.writes if "lease" not in write[1]])


@pytest.mark.parametrize("is_answered", [True, False])
async def test_crash_after_each_write_ends_in_the_same_state(is_answered):
    """The process dies right after its n-th write, with or without having seen the answer."""
    wanted, writes = await reference()
    for position in range(1, writes + 1):
        server = new_world()
        dead = asyncio.Event()
        count = 0
        request = server.request

        async def dying(verb, path, **rest):
            nonlocal count
            answer = await request(verb, path, **rest)  # noqa: B023 - called within this turn only
            if verb != "GET" and "lease" not in path:
                count += 1
                if count >= position:  # noqa: B023 - as above
                    dead.set()  # noqa: B023 - as above
                    if not is_answered:
                        await asyncio.Event().wait()
            return answer

        server.request = dying
        async with running(new_core(server)):
            # Two passes may merge into one, so the last few writes are not always made.
            await builders.eventually(lambda: dead.is_set() or is_complete(server), within_s=20.0)  # noqa: B023 - as above
        server.request = request
        async with running(new_core(server)):
            await until_complete(server)
        assert end_state(server) == wanted, f"after write {position}"


@pytest.mark.parametrize("status", [409, 429, 500, 504])
async def test_every_call_may_fail_once(status):
    """Conflict, overload, outage, time-out: on each call in turn; the end is the same."""
    wanted, writes = await reference()
    for position in range(2 * writes):
        server = new_world()
        server.faults.extend([lambda *_: None] * position)
        server.faults.append(lambda *_: fakeserver.refusal(status, reason="Conflict"))
        async with running(new_core(server)):
            await until_complete(server)
        assert end_state(server) == wanted, f"at call {position}"


async def test_held_back_watch_causes_no_second_create():
    """The cache does not show our Job yet: the pass waits for it and makes no other."""
    server = new_world()
    server.held.add("/apis/batch/v1/jobs")
    one = new_core(server)
    async with running(one):
        await builders.eventually(lambda: any(job["kind"] == "Job" for job in server.objects.values()))
        for _ in range(5):
            one.enqueue(builders.KEY)
            await asyncio.sleep(0.01)
        assert [path for verb, path in server.writes if verb == "POST" and "jobs" in path].__len__() == 1
        server.release()
        await until_complete(server)


async def test_two_instances_have_one_leader():
    """The follower keeps its cache warm and writes nothing."""
    server = new_world()
    first, second = new_core(server, identity="first"), new_core(server, identity="second")
    async with running(first), running(second):
        await until_complete(server)
        assert [first.lease.is_held, second.lease.is_held].count(True) == 1
        follower = second if first.lease.is_held else first
        assert follower.is_synced
        assert follower.work.depth() <= 1


async def test_lost_lease_is_told_at_once_and_ends_the_run():
    """Whoever may have been replaced stops before anything else of its own has ended."""
    server, told = new_world(), []
    one = new_core(server, lost=lambda error: told.append((error, task.done())))
    async with running(one) as task:
        await builders.eventually(lambda: one.lease.is_held)
        path = next(path for path in server.objects if "/leases/" in path)
        server.put(path, {**server.objects[path], "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15}})
        await asyncio.wait([task], timeout=10)
        failure = task.exception()
    assert isinstance(failure, BaseExceptionGroup)
    assert isinstance(told[0][0], errors.LeaseLostError)
    assert not told[0][1]


async def test_foreign_object_is_told_in_the_status():
    """And the resource goes on by itself when the name is free."""
    server = new_world()
    async with running(new_core(server)):
        await builders.eventually(lambda: any(job["kind"] == "Job" for job in server.objects.values()))
    path = next(path for path, one in server.objects.items() if one["kind"] == "Job")
    server = new_world()
    server.put(path, {"kind": "Job", "metadata": {}, "status": {}, "spec": {"foreign": True}})
    async with running(new_core(server)):
        await builders.eventually(lambda: _accepted(server) == ("False", "ForeignObject"))
        assert server.objects[path]["spec"] == {"foreign": True}
        server.drop(path)
        await until_complete(server)
        assert _accepted(server) == ("True", "TargetRead")


def _accepted(server):
    stored = (server.objects[RESOURCE].get("status") or {}).get("conditions") or ()
    return next(((one["status"], one["reason"]) for one in stored if one["type"] == "Accepted"), None)


async def test_rooms_bug_stops_neither_the_worker_nor_other_resources():
    """A crash is one resource's, retried ever more slowly."""
    server = new_world()
    broken = apiserver.item(kinds.DRAFT_TRAINING_JOB, builders.NAMESPACE, "broken")
    server.put(broken, {**builders.resource(uid="b"), "metadata": {"name": "broken", "uid": "b", "namespace": "shop"}})

    class Buggy(fakeroom.Relay):
        def reconcile(self, view, key, now):
            if key.name == "broken":
                raise RuntimeError("bug")
            return super().reconcile(view, key, now)

    # Each crash prints a traceback, which on a busy machine takes as long as the lease's usual deadline here.
    patient = {**FAST, "lease_duration": 120.0, "lease_renew_deadline": 90.0}
    one = core.Core(
        configured=builders.settings_for(**patient),
        rooms={"DraftTrainingJob": Buggy()},
        server=server,
        fetch=no_pod,
        time=clock.SystemClock(),
        measured=metrics.Metrics(),
        lost=lambda _error: None,
    )
    async with running(one):
        await until_complete(server)
