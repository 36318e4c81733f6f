"""Folders of a run, and paths that pods name."""

import pytest

from paceline.api.drafttrainingjob import DraftTrainingJobSpec
from paceline.training import places
from training import builders

PLACES = places.locate(DraftTrainingJobSpec.model_validate(builders.SPEC), builders.UID)


def test_workspace_is_of_this_run_alone() -> None:
    """Two runs with the same claim and sub-path share no folder."""
    other = places.locate(DraftTrainingJobSpec.model_validate(builders.SPEC), "another-uid")
    assert PLACES.workspace.path == builders.WORKSPACE
    assert other.workspace.path != PLACES.workspace.path


@pytest.mark.parametrize(
    "path", ["", "/etc", "/mnt/paceline/models/kimi", builders.WORKSPACE, f"{builders.WORKSPACE}/../x", "heads/1"]
)
def test_checkpoint_outside_the_workspace_is_not_believed(path: str) -> None:
    """A pod names a path; only those below its own workspace are used."""
    assert not PLACES.made_by_run(path)


def test_checkpoint_on_the_workspace_is_believed() -> None:
    """A head below the workspace is the run's own."""
    assert PLACES.made_by_run(f"{builders.WORKSPACE}/train-1/epoch..9")


@pytest.mark.parametrize("path", ["/mnt/paceline/heads", "/mnt/paceline/heads/kimi/../secret", "/mnt/paceline/work/x"])
def test_head_outside_the_output_has_no_uri(path: str) -> None:
    """Status never points at a place that the spec did not name."""
    assert PLACES.published_uri(path) is None


def test_published_head_is_named_by_its_claim() -> None:
    """The URI is what a SpeculativeDeployment would write."""
    assert PLACES.published_uri("/mnt/paceline/heads/kimi/0123456789ab") == "pvc://heads/kimi/0123456789ab"


def test_output_at_the_root_of_a_claim_is_named_too() -> None:
    """``pvc://CLAIM`` without a folder is an output like any other."""
    spec = DraftTrainingJobSpec.model_validate(builders.spec(output={"uri": "pvc://heads"}))
    assert places.locate(spec, builders.UID).published_uri("/mnt/paceline/heads/0123") == "pvc://heads/0123"
