"""The memory of a run."""

import pytest

from paceline.api.drafttrainingjob import Stage
from paceline.planning import plan
from paceline.training import results
from training import builders


@pytest.mark.parametrize("last", list(Stage))
def test_record_survives_its_config_map(last: Stage) -> None:
    """What is written is what is read, for the result of every stage."""
    record = builders.record(*builders.before(last), last, started_at=builders.at(0))
    assert results.read(builders.remembered(record)) == record


@pytest.mark.parametrize("data", [{}, {"record.json": ""}, {"record.json": "{"}, {"record.json": '{"entries": 3}'}])
def test_damaged_config_map_remembers_nothing(data: dict[str, str]) -> None:
    """Whatever somebody made of it, the run starts over instead of failing for ever."""
    assert results.read({"data": data}) == results.Record()


def test_nothing_is_written_when_nothing_changed() -> None:
    """An equal record asks for no write."""
    record = builders.record(Stage.INSPECT)
    assert results.write(builders.resource(), builders.remembered(record), record) is None
    assert results.write(builders.resource(), None, results.Record()) is None


def test_overwriting_carries_uid_and_version() -> None:
    """A decision on an old view must be refused by the API server."""
    before = builders.remembered(builders.record(Stage.INSPECT))
    action = results.write(builders.resource(), before, builders.record(Stage.INSPECT, Stage.PREPARE))
    assert isinstance(action, plan.Apply)
    assert (action.uid, action.resource_version) == ("record-uid", "7")


def test_first_memory_is_created_and_owned() -> None:
    """The ConfigMap goes with its DraftTrainingJob."""
    action = results.write(builders.resource(), None, builders.record(Stage.INSPECT))
    assert isinstance(action, plan.Create)
    assert plan.controller_uid(action.manifest) == builders.UID


def test_current_stage_is_the_first_without_a_result() -> None:
    """Stages are gone through in their order."""
    assert results.Record().current is Stage.INSPECT
    assert builders.record(Stage.INSPECT, Stage.PREPARE).current is Stage.EXTRACT
    assert builders.record(*Stage).current is None


def test_remembered_uids_stay_bounded() -> None:
    """A pod preempted for the hundredth time does not grow the record."""
    uids: tuple[str, ...] = ()
    for number in range(100):
        uids = results.remember(uids, f"pod-{number}")
    assert len(uids) == 32
    assert uids[-1] == "pod-99"
