"""The work queue's rules, driven by the clock alone."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from controller import builders
from paceline.controller import queue


def schedule() -> queue.Schedule[str]:
    """Return an empty schedule without jitter."""
    return queue.Schedule(backoff=queue.Backoff(base_s=1.0, max_s=8.0, jitter=lambda: 0.0))


def test_key_added_twice_is_taken_once():
    """Events about one resource merge."""
    due = schedule()
    due.add("a", 0.0)
    due.add("a", 1.0)
    assert due.take(2.0) == ("a", 2.0)
    assert due.take(2.0) is None


def test_key_in_work_is_not_handed_out_again():
    """A resource never has two passes at once."""
    due = schedule()
    due.add("a", 0.0)
    due.take(0.0)
    due.add("a", 0.0)
    assert due.take(0.0) is None


def test_key_dirtied_in_work_comes_back_when_done():
    """What changed during a pass is looked at after it."""
    due = schedule()
    due.add("a", 0.0)
    due.take(0.0)
    due.add("a", 1.0)
    due.done("a", 5.0)
    assert due.take(6.0) == ("a", 1.0)


def test_earliest_of_two_delays_counts():
    """A deadline is never pushed back by a later one."""
    due = schedule()
    due.add_at("a", 10.0)
    due.add_at("a", 5.0)
    due.add_at("a", 20.0)
    assert due.next_due() == 5.0
    assert due.take(4.9) is None
    assert due.take(5.0) == ("a", 0.0)
    assert due.next_due() is None


def test_change_goes_before_looks_whose_time_has_come():
    """An edit does not wait behind a thousand guards that look at their metrics."""
    due = schedule()
    due.add_at("guard", 1.0)
    due.add_at("another guard", 1.0)
    due.add("edited", 2.0)
    assert [due.take(2.0) for _ in range(3)] == [("edited", 0.0), ("guard", 1.0), ("another guard", 1.0)]


def test_look_that_waited_long_goes_before_changes():
    """A deadline is noticed also where changes never end."""
    due = schedule()
    due.add_at("deadline", 0.0)
    waited = []
    for second in range(10):
        due.add(f"change {second}", float(second))
        found = due.take(float(second))
        assert found is not None
        waited.append(found[0])
    assert waited.index("deadline") == queue.PATIENCE_S


def test_change_of_a_key_whose_time_had_come_is_one_pass():
    """A look and a change merge, and count as waiting since the look was due."""
    due = schedule()
    due.add_at("a", 1.0)
    due.add_at("b", 1.0)
    due.add("other", 1.5)
    assert due.take(1.5) == ("other", 0.0)
    due.add("b", 2.0)
    assert [due.take(2.0), due.take(2.0), due.take(2.0)] == [("b", 1.0), ("a", 1.0), None]


def test_failures_back_off_exponentially_up_to_the_limit():
    """A hopeless resource costs little."""
    due = schedule()
    assert [due.failed("a", 0.0) for _ in range(5)] == [1.0, 2.0, 4.0, 8.0, 8.0]


def test_success_forgets_failures():
    """The next failure starts with the shortest delay again."""
    due = schedule()
    due.failed("a", 0.0)
    due.failed("a", 0.0)
    due.succeeded("a")
    assert due.failed("a", 0.0) == 1.0


def test_retry_after_is_a_lower_bound():
    """An overloaded server's own wish wins over a shorter backoff."""
    assert schedule().failed("a", 0.0, at_least_s=30.0) == 30.0


def test_backoff_jitter_spreads_over_half_the_delay():
    """Many resources that failed together do not come back together."""
    assert queue.Backoff(base_s=4.0, max_s=100.0, jitter=lambda: 1.0).delay(0) == 2.0


def test_longest_wait_sees_ready_and_working_keys():
    """Stuck passes and keys nobody takes both show."""
    due = schedule()
    due.add("a", 0.0)
    due.take(10.0)
    due.add("b", 12.0)
    assert due.longest_wait(15.0) == 5.0


async def test_worker_wakes_when_a_delayed_key_is_due():
    """A waiting worker needs no event to notice a deadline."""
    work = queue.WorkQueue(clock=builders.FakeClock(), backoff=queue.Backoff(base_s=1, max_s=1))
    taking = asyncio.create_task(work.take())
    await asyncio.sleep(0)
    work.add_after("a", 0.0)
    assert (await asyncio.wait_for(taking, 5))[0] == "a"


@given(
    st.lists(st.tuples(st.sampled_from(["add", "later", "take", "done", "tick"]), st.sampled_from("abc")), max_size=60)
)
def test_no_wish_is_lost_and_no_key_is_doubled(steps):
    """Whatever the order: a wished key is ready, delayed, in work and dirty, or was taken after the wish."""
    due, now, working, wished = schedule(), 0.0, set(), set()
    for step, key in steps:
        now += 1.0
        if step == "add":
            due.add(key, now)
            wished.add(key)
        elif step == "later":
            due.add_at(key, now + 2.0)
            wished.add(key)
        elif step == "take":
            found = due.take(now)
            if found is not None:
                assert found[0] not in working
                working.add(found[0])
                wished.discard(found[0])
        elif step == "done" and key in working:
            due.done(key, now)
            working.discard(key)
    for key in sorted(working):
        due.done(key, now)
    while (found := due.take(now + 100.0)) is not None:
        wished.discard(found[0])
        due.done(found[0], now + 100.0)
    assert wished == set()


async def test_waiting_worker_can_always_be_cancelled():
    """Also when a key arrives in the same turn of the loop: a cancellation that is lost keeps a process alive."""
    for turns in range(6):
        work: queue.WorkQueue[str] = queue.WorkQueue(
            clock=builders.FakeClock(), backoff=queue.Backoff(base_s=1, max_s=8)
        )
        work.add_after("later", 60.0)
        worker = asyncio.create_task(work.take())
        await asyncio.sleep(0)
        work._changed.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        worker.cancel()
        await asyncio.wait([worker], timeout=5.0)
        assert worker.cancelled(), f"after {turns} turns"
