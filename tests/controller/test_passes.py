"""One pass over one resource, and how soon the next one is made."""

from types import SimpleNamespace

import pytest

from controller import builders, fakeserver
from paceline.controller import apiserver, executor, passes, queue, statuses, view
from paceline.planning import kinds
from paceline.planning.plan import Apply, Create, Plan

FAILED_BEFORE = 5


class TwoWrites:
    """A room that wants two ConfigMaps."""

    kind = kinds.DRAFT_TRAINING_JOB

    def reconcile(self, _view, _key, _now):
        """Return both writes."""
        made = (Create(manifest=builders.config_map("first")), Create(manifest=builders.config_map("second")))
        return Plan(actions=made)

    def polled(self, _view, _key):
        """Return nobody."""
        return ()


class Hasty(TwoWrites):
    """A room that has nothing to do, and wants to look again at once."""

    def reconcile(self, _view, _key, _now):
        """Return the wish alone."""
        return Plan(requeue_after_s=0.0)


@pytest.fixture
def server():
    """Return an empty API server."""
    return fakeserver.FakeServer()


@pytest.fixture
def work():
    """Return a queue in which the key has failed several times in a row."""
    made = queue.WorkQueue(
        clock=builders.FakeClock(), backoff=queue.Backoff(base_s=1.0, max_s=1000.0, jitter=lambda: 0.0)
    )
    for _ in range(FAILED_BEFORE):
        made.failed(builders.KEY)
    return made


@pytest.fixture
def room():
    """Return the room of the passes."""
    return TwoWrites()


@pytest.fixture
def one(server, work, room):
    """Return passes over the room."""
    world, time = builders.World(), builders.FakeClock()
    world.cache.put(kinds.DRAFT_TRAINING_JOB, builders.resource())
    writes = executor.Executor(
        server=server,
        store=world.cache,
        fresh=world.fresh,
        time=time,
        measured=world.measured,
        fence=lambda: None,
    )
    return passes.Passes(
        passes.Equipment(
            rooms={"DraftTrainingJob": room},
            look=lambda: view.CacheView(known=world.cache, heard=None, fleet=None),
            fresh=world.fresh,
            work=work,
            writes=writes,
            stored=statuses.StatusWriter(writes=writes),
            told=None,
            polls=SimpleNamespace(want=lambda _key, _polls: None),
            time=time,
            measured=world.measured,
        )
    )


@pytest.mark.parametrize("status", [409, 422, 500])
async def test_pass_that_wrote_something_before_it_failed_is_soon_repeated(server, work, one, status):
    """It got further: with every second call failing, a plan of ten writes must not wait for minutes between two."""
    server.faults.extend([lambda *_: None, lambda *_: fakeserver.refusal(status)])
    assert await one.run(builders.KEY) in (passes.Outcome.RETRIED, passes.Outcome.REFUSED)
    assert work.failed(builders.KEY) == 2.0


async def test_pass_that_wrote_nothing_backs_off_ever_more(server, work, one):
    """Nothing is better than before."""
    server.faults.append(lambda *_: fakeserver.refusal(500))
    assert await one.run(builders.KEY) is passes.Outcome.RETRIED
    assert work.failed(builders.KEY) == 2.0 ** (FAILED_BEFORE + 1)


async def test_pass_that_only_took_over_is_repeated_when_it_shows_and_counts_as_no_failure(server, work, room, one):
    """The decision is taken once more, on the version that taking over made."""
    path = apiserver.item(kinds.CONFIG_MAP, builders.NAMESPACE, "first")
    await server.request("POST", path.rsplit("/", 1)[0], body=builders.config_map("first"))
    live = server.objects[path]["metadata"]
    apply = Apply(manifest=builders.config_map("first"), uid=live["uid"], resource_version=live["resourceVersion"])
    room.reconcile = lambda *_: Plan(actions=(apply,), status={"phase": "Running"})
    assert await one.run(builders.KEY) is passes.Outcome.POSTPONED
    assert not any(verb == "PATCH" and where.endswith("/status") for verb, where in server.writes)
    one.caught_up(builders.KEY)
    assert work.depth() == 1


@pytest.mark.parametrize("room", [Hasty()])
async def test_room_that_wants_to_look_again_at_once_is_put_off(work, one):
    """A wait that is over, while nothing follows from it, would keep the process busy for ever."""
    work._clock.now += 1000.0
    await work.take()
    await one.run(builders.KEY)
    work.done(builders.KEY)
    assert work._schedule.take(work._clock.monotonic()) is None
