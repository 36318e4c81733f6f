"""Kubernetes events about our resources."""

from controller import builders, fakeserver
from paceline.controller import events, metrics
from paceline.planning.plan import Event

PATH = "/apis/events.k8s.io/v1/namespaces/shop/events"


async def record(server, *told, version="7"):
    """Record events of one transition."""
    recorder = events.Recorder(server=server, instance="me", time=builders.FakeClock(), measured=metrics.Metrics())
    for event in told:
        await recorder.record(builders.KEY, builders.resource(), event, version=version)


async def test_event_points_to_the_resource():
    """So that kubectl describe shows it."""
    server = fakeserver.FakeServer()
    await record(server, Event(reason="Published", message="done", warning=True))
    (posted,) = server.objects.values()
    assert posted["regarding"]["uid"] == builders.OWNER_UID
    assert (posted["type"], posted["reason"], posted["note"]) == ("Warning", "Published", "done")


async def test_event_of_the_same_transition_is_told_once():
    """A pass repeated after a crash names it the same."""
    server = fakeserver.FakeServer()
    told = Event(reason="Published", message="done")
    await record(server, told, told)
    assert len(server.objects) == 1
    await record(server, told, version="8")
    assert len(server.objects) == 2


async def test_lost_event_fails_no_pass():
    """It is a courtesy, not a fact."""
    server = fakeserver.FakeServer()
    server.faults.append(lambda *_: fakeserver.refusal(503))
    await record(server, Event(reason="Published", message="done"))


async def test_long_note_is_cut_at_a_character():
    """1,024 bytes are allowed, and half a letter is not."""
    server = fakeserver.FakeServer()
    await record(server, Event(reason="Published", message="é" * 1000))
    (posted,) = server.objects.values()
    assert posted["note"] == "é" * 512
