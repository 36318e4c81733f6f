"""Writes: order, preconditions, adoption, and what is remembered of them."""

import pytest

from controller import builders, fakeserver
from paceline.controller import apiserver, errors, executor
from paceline.planning import kinds
from paceline.planning.plan import Amend, Apply, Create, Delete

PATH = apiserver.item(kinds.CONFIG_MAP, builders.NAMESPACE, "child")


@pytest.fixture
def server():
    """Return an empty API server."""
    return fakeserver.FakeServer()


@pytest.fixture
def world():
    """Return an empty cache."""
    return builders.World()


@pytest.fixture
def writes(server, world):
    """Return the executor under test."""
    return executor.Executor(
        server=server,
        store=world.cache,
        fresh=world.fresh,
        time=builders.FakeClock(),
        measured=world.measured,
        fence=lambda: None,
    )


def foreign(**meta):
    """Return a ConfigMap that is not ours."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"theirs": "1"}}


async def test_create_makes_the_object_and_postpones_the_key(server, world, writes):
    """Until the watch shows it, no pass may decide on the key."""
    await writes.carry_out(builders.KEY, [Create(manifest=builders.config_map())])
    assert PATH in server.objects
    assert not world.fresh.is_current(builders.KEY)


async def test_create_that_exists_and_is_ours_is_adopted(server, world, writes):
    """The answer of an earlier create was lost: the second finds the first's work."""
    server.put(PATH, builders.config_map())
    await writes.carry_out(builders.KEY, [Create(manifest=builders.config_map())])
    world.cache.put(kinds.CONFIG_MAP, dict(server.objects[PATH]))
    assert world.fresh.is_current(builders.KEY)


async def test_foreign_namesake_is_refused_and_untouched(server, writes):
    """It is told apart by its controller, never by its name."""
    server.put(PATH, foreign())
    with pytest.raises(
        errors.ForeignObjectError, match="shop/child exists and is not controlled by DraftTrainingJob run"
    ):
        await writes.carry_out(builders.KEY, [Create(manifest=builders.config_map())])
    assert server.objects[PATH]["data"] == {"theirs": "1"}


async def test_create_waits_for_a_namesake_of_ours_that_is_going(server, writes):
    """A suspended stage's Job is made again only when the old one is gone."""
    server.put(PATH, builders.config_map())
    server.objects[PATH]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with pytest.raises(errors.ConflictError, match="still being deleted"):
        await writes.carry_out(builders.KEY, [Create(manifest=builders.config_map())])


async def test_actions_after_a_failure_are_dropped(server, writes):
    """Order is part of a plan: evidence before the deletion of what it came from."""
    server.faults.append(lambda *_: fakeserver.refusal(500))
    actions = [Create(manifest=builders.config_map("first")), Create(manifest=builders.config_map("second"))]
    with pytest.raises(errors.UnavailableError):
        await writes.carry_out(builders.KEY, actions)
    assert len(server.writes) == 1


async def test_apply_carries_the_uid(server, writes):
    """A namesake made since is never touched."""
    server.put(PATH, builders.config_map())
    with pytest.raises(errors.ConflictError):
        await writes.carry_out(builders.KEY, [Apply(manifest=builders.config_map(a="b"), uid="another")])


async def test_first_apply_takes_the_create_over(server, writes):
    """Else a field left out of an apply would stay for ever, owned by the create."""
    await writes.carry_out(builders.KEY, [Create(manifest=builders.config_map(a="1"))])
    live = server.objects[PATH]["metadata"]
    await writes.carry_out(builders.KEY, [Apply(manifest=builders.config_map(a="2"), uid=live["uid"])])
    assert server.objects[PATH]["metadata"]["managedFields"] == [{"manager": "paceline", "operation": "Apply"}]
    assert server.objects[PATH]["data"] == {"a": "2"}


async def test_apply_that_holds_for_one_version_is_decided_anew_after_taking_over(server, world, writes):
    """Taking over made a version that nobody had decided on, and that others may have seen."""
    await writes.carry_out(builders.KEY, [Create(manifest=builders.config_map(a="1"))])
    live = server.objects[PATH]["metadata"]
    apply = Apply(manifest=builders.config_map(a="2"), uid=live["uid"], resource_version=live["resourceVersion"])
    with pytest.raises(errors.RetakenError):
        await writes.carry_out(builders.KEY, [apply])
    assert server.objects[PATH]["data"] == {"a": "1"}
    assert not world.fresh.is_current(builders.KEY)
    newer = server.objects[PATH]["metadata"]["resourceVersion"]
    again = Apply(manifest=builders.config_map(a="2"), uid=live["uid"], resource_version=newer)
    await writes.carry_out(builders.KEY, [again])
    assert server.objects[PATH]["data"] == {"a": "2"}


async def test_apply_on_a_moved_version_is_a_conflict(server, writes):
    """A selector flip holds only for the version it was decided on."""
    live = server.put(PATH, builders.config_map())["metadata"]
    server.put(PATH, {**server.objects[PATH], "data": {"a": "0"}})
    apply = Apply(manifest=builders.config_map(a="2"), uid=live["uid"], resource_version="1")
    with pytest.raises(errors.ConflictError):
        await writes.carry_out(builders.KEY, [apply])
    assert server.objects[PATH]["data"] == {"a": "0"}


async def test_object_that_our_watches_would_not_show_is_never_written(server, writes):
    """Without the label its key would wait for it in vain: a bug of a room, told at once."""
    unlabelled = builders.config_map()
    unlabelled["metadata"]["labels"] = {}
    with pytest.raises(ValueError, match="lacks the label"):
        await writes.carry_out(builders.KEY, [Create(manifest=unlabelled)])
    assert server.requests == []


async def test_delete_of_what_is_gone_succeeds(writes, world):
    """The wish is fulfilled."""
    gone = Delete(kind=kinds.CONFIG_MAP, namespace=builders.NAMESPACE, name="child", uid="u")
    assert await writes.carry_out(builders.KEY, [gone]) == 1
    assert world.fresh.is_current(builders.KEY)


async def test_delete_spares_a_namesake(server, writes):
    """The UID decides."""
    server.put(PATH, foreign())
    gone = Delete(kind=kinds.CONFIG_MAP, namespace=builders.NAMESPACE, name="child", uid="ours")
    with pytest.raises(errors.ConflictError):
        await writes.carry_out(builders.KEY, [gone])
    assert PATH in server.objects


ROUTE = apiserver.item(kinds.HTTP_ROUTE, builders.NAMESPACE, "llm")


def amend(live, *, version=None, is_last=False):
    """Return the action that changes a user's route."""
    meta = live["metadata"]
    return Amend(
        kind=kinds.HTTP_ROUTE,
        namespace=builders.NAMESPACE,
        name="llm",
        uid=meta["uid"],
        resource_version=version or meta["resourceVersion"],
        patch={"metadata": {"annotations": {"ours": None if is_last else "1"}}},
        is_last=is_last,
    )


async def test_amend_changes_what_it_names_and_is_waited_for(server, world, writes):
    """The object is somebody else's, so it carries no label of ours; the key waits for the watch all the same."""
    live = server.put(ROUTE, {"kind": "HTTPRoute", "metadata": {"annotations": {"theirs": "1"}}, "spec": {"rules": []}})
    await writes.carry_out(builders.KEY, [amend(live)])
    assert server.objects[ROUTE]["metadata"]["annotations"] == {"theirs": "1", "ours": "1"}
    assert server.objects[ROUTE]["spec"] == {"rules": []}
    assert not world.fresh.is_current(builders.KEY)


async def test_amend_of_a_moved_version_is_a_conflict(server, writes):
    """Lists in a patch are whole, so one that was decided on older ones would undo what its owner did since."""
    live = server.put(ROUTE, {"kind": "HTTPRoute"})
    with pytest.raises(errors.ConflictError):
        await writes.carry_out(builders.KEY, [amend(live, version="0")])


async def test_last_amend_gives_up_what_we_own(server, writes):
    """Else the owner's next apply would meet a conflict with us for ever."""
    theirs, status = {"manager": "search", "operation": "Apply"}, {"manager": "gw", "operation": "Update"}
    ours = {"manager": "paceline", "operation": "Update"}
    live = server.put(ROUTE, {"kind": "HTTPRoute", "metadata": {"managedFields": [theirs, ours, status]}})
    await writes.carry_out(builders.KEY, [amend(live, is_last=True)])
    assert server.objects[ROUTE]["metadata"]["managedFields"] == [theirs, status]


async def test_nothing_is_sent_without_the_lease(server, world):
    """The fence is asked before each write."""

    def lost():
        raise errors.LeaseLostError("lost")

    writes = executor.Executor(
        server=server,
        store=world.cache,
        fresh=world.fresh,
        time=builders.FakeClock(),
        measured=world.measured,
        fence=lost,
    )
    with pytest.raises(errors.LeaseLostError):
        await writes.carry_out(builders.KEY, [Create(manifest=builders.config_map())])
    assert server.requests == []
    assert world.fresh.is_current(builders.KEY)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.RefusedError),
        (401, errors.UnavailableError),
        (403, errors.RefusedError),
        (404, errors.NotFoundError),
        (409, errors.ConflictError),
        (422, errors.RefusedError),
        (429, errors.UnavailableError),
        (500, errors.UnavailableError),
        (503, errors.UnavailableError),
        (504, errors.UnavailableError),
    ],
)
async def test_each_status_is_sorted_by_who_must_act(server, world, writes, status, kind):
    """And leaves no debt in the freshness."""
    server.faults.append(lambda *_: fakeserver.refusal(status))
    with pytest.raises(kind):
        await writes.carry_out(builders.KEY, [Create(manifest=builders.config_map())])
    assert world.fresh.is_current(builders.KEY)


def test_retry_after_is_kept():
    """429 says how long to wait."""
    error = fakeserver.refusal(429, retry_after="7")
    assert isinstance(error, errors.UnavailableError)
    assert error.retry_after_s == 7.0


def test_namespace_on_its_way_out_is_nobodys_fault():
    """403 with that cause: our resource goes as well, so nobody is told to change anything."""
    body = {"reason": "Forbidden", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}
    assert isinstance(errors.from_status(403, body), errors.TransientError)
