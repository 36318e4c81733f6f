"""Loading rooms by name."""

import dataclasses

import pytest

from controller import builders
from paceline.controller import rooms
from paceline.planning import kinds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the choosy room wants to know."""

    stage_image: str = "none"
    other: int = 3


class Plain:
    """A room that wants nothing."""

    kind = kinds.DRAFT_TRAINING_JOB


class Choosy:
    """A room with settings of its own."""

    kind = kinds.SPECULATIVE_DEPLOYMENT

    def __init__(self, settings: Wishes) -> None:
        self.settings = settings


def test_rooms_are_loaded_by_module_and_class():
    """With what their constructors ask for."""
    configured = builders.settings_for(rooms=(f"{__name__}:Plain", f"{__name__}:Choosy"), stage_image="stages:1")
    found = rooms.load(configured)
    assert set(found) == {"DraftTrainingJob", "SpeculativeDeployment"}
    assert found["SpeculativeDeployment"].settings == Wishes(stage_image="stages:1")


@pytest.mark.parametrize("name", ["nowhere.at.all:Room", f"{__name__}:Missing", "nonsense", ""])
def test_name_that_leads_nowhere_is_told(name):
    """With the name and how to write one."""
    with pytest.raises(rooms.UnknownRoomError, match="write module:Class"):
        rooms.load(builders.settings_for(rooms=(name,)))


def test_two_rooms_of_one_kind_are_refused():
    """They would undo each other's work."""
    with pytest.raises(rooms.UnknownRoomError, match="two rooms for DraftTrainingJob"):
        rooms.load(builders.settings_for(rooms=(f"{__name__}:Plain", f"{__name__}:Plain")))
