"""Status writes: only differences, only on what was seen, never twice in vain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import builders, fakeserver
from paceline.controller import apiserver, errors, executor, statuses
from paceline.planning import kinds

PATH = apiserver.item(kinds.DRAFT_TRAINING_JOB, builders.NAMESPACE, "run")
documents = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abcd"), documents), st.dictionaries(st.sampled_from("abcd"), documents))
def test_merge_patch_leads_from_one_document_to_the_other(before, after):
    """RFC 7396, as the API server reads it."""
    assert fakeserver._merged(before, statuses.merge_patch(before, after)) == after


@pytest.fixture
def server():
    """Return an API server with one resource."""
    found = fakeserver.FakeServer()
    found.put(PATH, builders.resource())
    return found


@pytest.fixture
def writer(server):
    """Return the writer under test."""
    world = builders.World()
    writes = executor.Executor(
        server=server,
        store=world.cache,
        fresh=world.fresh,
        time=builders.FakeClock(),
        measured=world.measured,
        fence=lambda: None,
    )
    return statuses.StatusWriter(writes=writes)


async def test_equal_status_is_not_written(server, writer):
    """A settled world costs no request."""
    assert await writer.write(builders.KEY, builders.resource(status={"a": 1}), {"a": 1}) is None
    assert server.writes == []


async def test_field_no_longer_said_is_removed(server, writer):
    """A status is the whole truth, not a collection of remarks."""
    server.put(PATH, builders.resource(status={"old": 1, "kept": 2}))
    await writer.write(builders.KEY, server.objects[PATH], {"kept": 2})
    assert server.objects[PATH]["status"] == {"kept": 2}


async def test_moved_resource_is_a_conflict(server, writer):
    """A status computed from an older spec is never stored."""
    stale = builders.resource(version="1")
    server.put(PATH, builders.resource(status={"theirs": 1}))
    with pytest.raises(errors.ConflictError):
        await writer.write(builders.KEY, stale, {"ours": 1})


async def test_status_the_schema_prunes_is_written_once(server, writer):
    """A field that the stored schema lacks must not cost a write a pass."""

    class Pruning(fakeserver.FakeServer):
        def _change(self, where, path, body, content_type):
            body["status"].pop("unknown", None)
            return super()._change(where, path, body, content_type)

    server.__class__ = Pruning
    wanted = {"known": 1, "unknown": 2}
    assert await writer.write(builders.KEY, server.objects[PATH], wanted) is not None
    assert await writer.write(builders.KEY, server.objects[PATH], wanted) is None
    assert len(server.writes) == 1


def test_refusal_becomes_the_accepted_condition():
    """The rest of what the room said stays."""
    ready = {"type": "Progressing", "status": "True", "reason": "Training", "message": "", "lastTransitionTime": "t"}
    wanted, news = statuses.refused(
        {"conditions": [ready], "phase": "Running"},
        builders.resource(),
        reason="ForeignObject",
        message="taken",
        now=0.0,
    )
    assert [(one["type"], one["status"]) for one in wanted["conditions"]] == [
        ("Accepted", "False"),
        ("Progressing", "True"),
    ]
    assert wanted["phase"] == "Running"
    assert [(event.reason, event.warning) for event in news] == [("ForeignObject", True)]


def test_refusal_said_again_is_no_news():
    """Neither the time nor an event moves."""
    first, _ = statuses.refused(None, builders.resource(), reason="ForeignObject", message="taken", now=0.0)
    again, news = statuses.refused(
        None, builders.resource(status=first), reason="ForeignObject", message="taken", now=99.0
    )
    assert again == first
    assert news == []
