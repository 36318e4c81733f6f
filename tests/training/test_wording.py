"""Numbers and long texts in messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.api import base
from paceline.training import wording


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_800_000_000, "1.8 GB"), (35 * 10**12, "35.0 TB"), (10**19, "10000.0 PB")],
)
def test_size_reads_in_a_fitting_unit(count: int, text: str) -> None:
    """Bytes are told in the largest unit below them."""
    assert wording.size(count) == text


@given(st.integers(min_value=0, max_value=86400 * 365))
def test_duration_is_what_the_api_parses(seconds: int) -> None:
    """What is written to status can be read back."""
    assert base.parse_duration(wording.duration(seconds)).total_seconds() == seconds


@given(st.text(max_size=3000))
def test_clipped_text_fits_a_message(text: str) -> None:
    """No message is longer than the API takes."""
    assert len(wording.clip(text)) <= 1024
