"""List and watch against an API server in memory."""

import asyncio
import contextlib

from controller import builders, fakeserver
from paceline.controller import apiserver, reflector
from paceline.planning import kinds

PATH = apiserver.item(kinds.CONFIG_MAP, builders.NAMESPACE, "child")


@contextlib.asynccontextmanager
async def running(server, *, namespace=None, time=None):
    """Run a reflector of ConfigMaps until it has synced, and for the length of a block."""
    world = builders.World()
    one = reflector.Reflector(
        kind=kinds.CONFIG_MAP,
        namespace=namespace,
        server=server,
        store=world.cache,
        fresh=world.fresh,
        time=time or builders.FakeClock(),
        measured=world.measured,
    )
    task = asyncio.create_task(one.run())
    try:
        await builders.eventually(lambda: one.is_synced)
        yield world, one
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def held(world):
    """Return the versions that the cache holds, by name."""
    return {
        one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in world.cache.store(kinds.CONFIG_MAP).all()
    }


async def test_list_then_watch_keeps_the_cache_equal():
    """Added, modified, deleted."""
    server = fakeserver.FakeServer()
    server.put(PATH, builders.config_map())
    async with running(server) as (world, _):
        assert held(world) == {"child": "1"}
        server.put(PATH, builders.config_map(version="1", uid="uid-1", a="b"))
        await builders.eventually(lambda: held(world) == {"child": "2"})
        server.drop(PATH)
        await builders.eventually(lambda: held(world) == {})


async def test_how_far_it_has_told_follows_lists_and_events():
    """By that others know whether a picture of several watches is whole."""
    server = fakeserver.FakeServer()
    server.put(PATH, builders.config_map())
    async with running(server) as (_, one):
        assert one.told_to == 1
        server.drop(PATH)
        await builders.eventually(lambda: one.told_to == 2)


async def test_ended_watch_goes_on_where_it_was():
    """No new list, and nothing that happened in between is missed."""
    server = fakeserver.FakeServer()
    server.put(PATH, builders.config_map())
    async with running(server) as (world, _):
        server.break_watches()
        server.put(PATH, builders.config_map(a="b"))
        await builders.eventually(lambda: held(world) == {"child": "2"})
    assert [verb for verb, _ in server.requests].count("GET") == 1


async def test_expired_version_leads_to_a_new_list_that_tells_of_the_gone():
    """410: an object deleted unseen is told as deleted."""
    server = fakeserver.FakeServer()
    server.put(PATH, builders.config_map())
    async with running(server) as (world, _):
        server.drop(PATH, silently=True)
        server.break_watches(forget=True)
        await builders.eventually(lambda: held(world) == {})
    assert world.changes[-1] == ("ConfigMap/child", "1", None)


async def test_list_that_is_too_old_at_once_is_not_repeated_at_full_speed():
    """A server that answers 410 to every watch gets ever fewer lists; one that has recovered is watched as before."""
    server, time = fakeserver.FakeServer(), builders.FakeClock()
    async with running(server, time=time) as (world, _):
        server.refuse_watches()
        await builders.eventually(lambda: len(time.slept) >= 5)
        ended_early, *waits = time.slept
        assert ended_early == 1.0
        assert waits[0] <= 0.5 < waits[3]
        server.accept_watches()
        server.put(PATH, builders.config_map())
        await builders.eventually(lambda: "child" in held(world))


async def test_silent_watch_is_given_up_when_a_new_list_is_asked_for():
    """A dead peer never ends its watch: what it did not tell is listed at once, not after the silence limit."""
    server = fakeserver.FakeServer()
    server.held.add(PATH.rsplit("/", 1)[0])
    async with running(server) as (world, one):
        server.put(PATH, builders.config_map())
        one.relist()
        await builders.eventually(lambda: held(world) == {"child": "1"})
        server.release()
        server.put(PATH, builders.config_map(version="1", uid="uid-1", a="b"))
        await builders.eventually(lambda: held(world) == {"child": "2"})
    assert [verb for verb, _ in server.requests].count("GET") == 2


async def test_failed_lists_are_retried_with_backoff():
    """An outage at the start delays the sync and nothing else."""
    server, time = fakeserver.FakeServer(), builders.FakeClock()
    server.faults.extend([lambda *_: fakeserver.refusal(500), lambda *_: fakeserver.refusal(503)])
    async with running(server, time=time):
        assert len(time.slept) == 2
        assert time.slept[0] <= 0.5 < time.slept[1] * 2


async def test_children_are_selected_by_label_and_our_kinds_are_not():
    """What we did not make is neither fetched nor kept."""
    assert reflector.selector(kinds.POD) == "app.kubernetes.io/managed-by=paceline"
    assert reflector.selector(kinds.DRAFT_TRAINING_JOB) == ""
