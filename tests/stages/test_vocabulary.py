"""The draft vocabulary is the frequent part of the target's."""

import numpy as np
import pytest

from paceline.stages import vocabulary
from paceline.stages.failures import PermanentError


def test_only_learnt_tokens_are_counted():
    """Tokens of the prompt are never drafted."""
    assert vocabulary.count_tokens([{"input_ids": [5, 6, 6, 7], "loss_mask": [0, 1, 1, 1]}]) == {6: 2, 7: 1}


def test_most_frequent_tokens_are_chosen_then_the_lowest():
    """A vocabulary larger than what was seen is filled up."""
    assert vocabulary.choose({9: 5, 4: 7, 6: 1}, draft_size=2, target_size=10) == [4, 9]
    assert vocabulary.choose({9: 5}, draft_size=3, target_size=10) == [0, 1, 9]


def test_draft_larger_than_target_is_refused():
    """There are no such tokens."""
    with pytest.raises(PermanentError, match=r"draft\.vocabularySize 11"):
        vocabulary.choose({}, draft_size=11, target_size=10)


def test_maps_lead_back_to_the_chosen_tokens(tmp_path):
    """d2t is an offset, t2d a mask: the form that speculators and vLLM read."""
    chosen = [2, 5, 9]
    vocabulary.write_maps(
        chosen, target_size=10, draft_to_target=tmp_path / "d2t.npy", target_to_draft=tmp_path / "t2d.npy"
    )
    offsets, mask = np.load(tmp_path / "d2t.npy"), np.load(tmp_path / "t2d.npy")
    assert (np.arange(3) + offsets).tolist() == chosen
    assert np.flatnonzero(mask).tolist() == chosen
    assert mask.dtype == bool
