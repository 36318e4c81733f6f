"""Own-write freshness: when the cache counts as new enough."""

from controller import builders
from paceline.controller import freshness
from paceline.planning import kinds

PLACE = (kinds.CONFIG_MAP, builders.NAMESPACE, "child")


def began(cached=None):
    """Return a freshness with one write under way, and whom it told."""
    told: list = []
    fresh = freshness.Freshness(caught_up=told.append)
    return fresh, fresh.begin(builders.KEY, place=PLACE, cached=cached, now=0.0), told


def test_write_in_flight_makes_key_stale():
    """While the answer is awaited nobody knows what the world is."""
    fresh, _, _ = began()
    assert not fresh.is_current(builders.KEY)


def test_watch_showing_the_version_makes_key_current():
    """The usual order: answer, then event."""
    fresh, ticket, told = began()
    fresh.written(ticket, builders.config_map(version="7"))
    assert not fresh.is_current(builders.KEY)
    fresh.observed(kinds.CONFIG_MAP, builders.config_map(version="7"), is_present=True)
    assert fresh.is_current(builders.KEY)
    assert told == [builders.KEY]


def test_watch_ahead_of_the_answer_counts():
    """The event, and somebody's change after it, may both come before the answer is read."""
    fresh, ticket, _ = began()
    for version in ("7", "8"):
        fresh.observed(kinds.CONFIG_MAP, builders.config_map(version=version), is_present=True)
    fresh.written(ticket, builders.config_map(version="7"))
    assert fresh.is_current(builders.KEY)


def test_older_event_does_not_count():
    """Versions are compared for equality only."""
    fresh, ticket, _ = began()
    fresh.written(ticket, builders.config_map(version="7"))
    fresh.observed(kinds.CONFIG_MAP, builders.config_map(version="5"), is_present=True)
    assert not fresh.is_current(builders.KEY)


def test_write_that_changed_nothing_is_current_at_once():
    """A no-op apply answers the version that the cache has, and no event follows."""
    fresh, ticket, _ = began(cached=builders.config_map(version="7"))
    fresh.written(ticket, builders.config_map(version="7"))
    assert fresh.is_current(builders.KEY)


def test_list_asked_for_after_the_answer_counts():
    """A list holds the write under whatever version it shows."""
    fresh, ticket, _ = began()
    fresh.written(ticket, builders.config_map(version="7"))
    mark = fresh.list_begins()
    fresh.listed(kinds.CONFIG_MAP, None, mark)
    assert fresh.is_current(builders.KEY)


def test_list_asked_for_before_the_answer_does_not_count():
    """It may have been read before the write."""
    fresh, ticket, _ = began()
    mark = fresh.list_begins()
    fresh.written(ticket, builders.config_map(version="7"))
    fresh.listed(kinds.CONFIG_MAP, None, mark)
    assert not fresh.is_current(builders.KEY)


def test_list_of_another_namespace_does_not_count():
    """Each namespace has a list of its own when the operator is confined."""
    fresh, ticket, _ = began()
    fresh.written(ticket, builders.config_map(version="7"))
    fresh.listed(kinds.CONFIG_MAP, "elsewhere", fresh.list_begins())
    assert not fresh.is_current(builders.KEY)


def test_delete_waits_until_the_object_is_going():
    """Absent, going, or another UID: each means that the delete shows."""
    fresh, ticket, _ = began()
    fresh.deleted(ticket, "uid-of-child", cached=builders.config_map(version="7"))
    assert not fresh.is_current(builders.KEY)
    going = builders.config_map(version="8")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    fresh.observed(kinds.CONFIG_MAP, going, is_present=True)
    assert fresh.is_current(builders.KEY)


def test_failed_write_leaves_no_debt():
    """What did not happen cannot be waited for."""
    fresh, ticket, told = began()
    fresh.dropped(ticket)
    assert fresh.is_current(builders.KEY)
    assert told == [builders.KEY]


def test_key_waits_for_the_last_of_two_writes():
    """One pass may write several objects."""
    fresh, first, told = began()
    second = fresh.begin(builders.KEY, place=(kinds.JOB, builders.NAMESPACE, "job"), cached=None, now=0.0)
    fresh.written(first, builders.config_map(version="7"))
    fresh.written(second, builders.config_map("job", version="9"))
    fresh.observed(kinds.CONFIG_MAP, builders.config_map(version="7"), is_present=True)
    assert told == []
    fresh.observed(kinds.JOB, builders.config_map("job", version="9"), is_present=True)
    assert told == [builders.KEY]


def test_write_never_shown_is_overdue():
    """A missed event must not postpone a key for ever."""
    fresh, ticket, _ = began()
    assert fresh.overdue(before_s=100.0) == set()  # unanswered: its own time-out ends it
    fresh.written(ticket, builders.config_map(version="7"))
    assert fresh.overdue(before_s=100.0) == {kinds.CONFIG_MAP}
