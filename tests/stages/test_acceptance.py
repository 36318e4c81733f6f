"""Acceptance is a difference of counters; what cannot be counted is no acceptance."""

import pytest

from paceline.stages import acceptance
from paceline.stages.failures import PermanentError, TransientError
from stages import builders

MODEL = "/models/target"


def _read(**fields):
    return acceptance.read(builders.scrape(**fields), MODEL)


def test_length_and_positions_come_from_the_difference():
    """Counts from before the evaluation do not matter."""
    measured = acceptance.between(_read(drafts=100, accepted=(90, 10)), _read(drafts=300, accepted=(190, 60)))
    assert measured.length == pytest.approx(1.75)
    assert measured.by_position == pytest.approx((0.5, 0.25))


def test_positions_that_appear_later_start_at_zero():
    """A server shows a position's counter only once something was accepted there."""
    measured = acceptance.between(_read(drafts=0, accepted=()), _read(drafts=10, accepted=(5,)))
    assert measured.by_position == pytest.approx((0.5,))


def test_restart_loses_the_counts():
    """Counters that went back belong to another process."""
    with pytest.raises(TransientError, match="restarted"):
        acceptance.between(_read(drafts=300, accepted=(10,)), _read(drafts=20, accepted=(5,)))


def test_no_drafts_means_the_head_is_not_used():
    """A head that loads and never drafts must not be published."""
    with pytest.raises(PermanentError, match="drafted nothing"):
        acceptance.between(_read(drafts=5, accepted=(1,)), _read(drafts=5, accepted=(1,)))


def test_server_without_speculation_is_told_so():
    """No such series is not zero acceptance."""
    text = f'vllm:generation_tokens_total{{model_name="{MODEL}"}} 5.0\n'
    with pytest.raises(PermanentError, match="without speculation"):
        acceptance.read(text, MODEL)


def test_error_page_is_tried_again():
    """A proxy's answer is no measurement."""
    with pytest.raises(TransientError, match="cannot be used"):
        acceptance.read("<html>502</html>", MODEL)
