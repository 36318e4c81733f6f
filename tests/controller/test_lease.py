"""One leader: who may write, judged by our own monotonic clock."""

import asyncio

import pytest

from controller import builders, fakeserver
from paceline.controller import errors, lease, metrics

PATH = "/apis/coordination.k8s.io/v1/namespaces/paceline-system/leases/paceline-operator"


def claim(server, *, identity="me", time=None):
    """Return a process's claim to the lease."""
    return lease.Lease(
        server=server,
        configured=builders.settings_for(identity=identity),
        time=time or builders.FakeClock(),
        measured=metrics.Metrics(),
    )


async def test_first_process_makes_the_lease():
    """And may write at once."""
    server = fakeserver.FakeServer()
    ours = claim(server)
    with pytest.raises(errors.LeaseLostError):
        ours.check()
    await ours.acquire()
    ours.check()
    assert server.objects[PATH]["spec"]["holderIdentity"] == "me"


async def test_second_process_waits_the_whole_duration():
    """Counted from when it first saw the lease, whatever time is written in it."""
    server, time = fakeserver.FakeServer(), builders.FakeClock()
    await claim(server, identity="other", time=builders.FakeClock(-1e6)).acquire()
    await claim(server, time=time).acquire()
    assert sum(time.slept) == pytest.approx(16.0, abs=1.0)
    assert server.objects[PATH]["spec"]["holderIdentity"] == "me"
    assert server.objects[PATH]["spec"]["leaseTransitions"] == 2


async def test_renewed_lease_is_never_taken():
    """Each renewal starts the wait anew."""
    server, time = fakeserver.FakeServer(), builders.FakeClock()
    theirs = claim(server, identity="other")
    await theirs.acquire()
    ours = claim(server, time=time)
    for _ in range(20):
        assert not await ours._try()
        time.now += 10.0
        await theirs._renew()
        server.objects[PATH]["spec"]["renewTime"] = str(time.now)


async def test_released_lease_is_taken_at_once():
    """A rolling update leaves no gap of 15 seconds."""
    server, time = fakeserver.FakeServer(), builders.FakeClock()
    theirs = claim(server, identity="other")
    await theirs.acquire()
    await theirs.release()
    await claim(server, time=time).acquire()
    assert time.slept == []


async def test_lease_is_released_after_a_renewal_whose_answer_was_cut_off():
    """Stopping cancels a renewal under way; it may have arrived, and then the version we hold is an old one."""
    server, time = fakeserver.FakeServer(), builders.FakeClock()
    theirs = claim(server, identity="other")
    await theirs.acquire()
    server.put(PATH, {**server.objects[PATH], "kind": "Lease"})
    await theirs.release()
    await claim(server, time=time).acquire()
    assert time.slept == []


async def test_lease_that_another_took_is_not_released_for_them():
    """Who lost the lease has nothing to give up."""
    server = fakeserver.FakeServer()
    ours = claim(server)
    await ours.acquire()
    server.put(PATH, {**server.objects[PATH], "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15}})
    await ours.release()
    assert server.objects[PATH]["spec"]["holderIdentity"] == "other"


async def test_lease_expires_by_itself_at_the_renew_deadline():
    """A process that was stopped and goes on must not write, even before its loop noticed."""
    server, time = fakeserver.FakeServer(), builders.FakeClock()
    ours = claim(server, time=time)
    await ours.acquire()
    time.now += 10.0
    with pytest.raises(errors.LeaseLostError):
        ours.check()


async def test_outage_longer_than_the_deadline_loses_the_lease():
    """Retries within it are free."""
    server, time = fakeserver.FakeServer(), builders.FakeClock()
    ours = claim(server, time=time)
    await ours.acquire()
    server.faults.extend([lambda *_: fakeserver.refusal(503)] * 10)
    with pytest.raises(errors.LeaseLostError):
        await ours.hold()
    assert sum(time.slept) == 10.0


async def test_renewal_that_hangs_loses_the_lease():
    """The deadline bounds the call itself, not only the time between calls."""
    server = fakeserver.FakeServer()

    class Hanging(builders.FakeClock):
        def monotonic(self):
            return asyncio.get_running_loop().time() * 100

    ours = claim(server, time=Hanging())
    await ours.acquire()

    async def never(*_, **__):
        await asyncio.Event().wait()

    server.request = never
    with pytest.raises(errors.LeaseLostError, match="no renewal within 10"):
        await asyncio.wait_for(ours.hold(), 30)


async def test_lease_taken_by_another_is_lost():
    """Whoever took it is believed."""
    server = fakeserver.FakeServer()
    ours = claim(server)
    await ours.acquire()
    server.put(PATH, {**server.objects[PATH], "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15}})
    with pytest.raises(errors.LeaseLostError, match="held by other"):
        await ours.hold()


async def test_edited_lease_that_is_still_ours_is_kept():
    """An annotation is no change of leader."""
    server = fakeserver.FakeServer()
    ours = claim(server)
    await ours.acquire()
    server.put(PATH, {**server.objects[PATH], "kind": "Lease"})
    await ours._renew()
    ours.check()


async def test_renewal_carried_out_unheard_does_not_stand_in_the_way_of_the_next_ones():
    """The version it made is kept once read, so the try after a failed one does not meet the same conflict again."""
    server, time = fakeserver.FakeServer(), builders.FakeClock()
    ours = claim(server, time=time)
    await ours.acquire()
    time.now += 2.0
    server.lost_answers.append("cut off")
    with pytest.raises(errors.UnavailableError):
        await ours._renew()
    time.now += 2.0
    server.faults.extend([lambda *_: None, lambda *_: None, lambda *_: fakeserver.refusal(500)])
    with pytest.raises(errors.UnavailableError):
        await ours._renew()  # a conflict, the lease read, and a failure
    asked = len(server.requests)
    await ours._renew()
    assert [verb for verb, _ in server.requests[asked:]] == ["PUT"]
