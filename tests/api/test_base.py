"""Durations, and what all documents share."""

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.api import base


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("45s", timedelta(seconds=45)),
        ("20m", timedelta(minutes=20)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1h0m5s", timedelta(hours=1, seconds=5)),
        ("0s", timedelta()),
    ],
)
def test_durations_are_read(text: str, span: timedelta) -> None:
    """Go's notation, as everywhere in Kubernetes."""
    assert base.parse_duration(text) == span


@pytest.mark.parametrize("text", ["", "5", "5d", "m", "1m1h", "-5s", "1.5h", " 5s", "5s\n"])
def test_other_texts_are_refused_with_the_notation(text: str) -> None:
    """The message shows how to write one."""
    with pytest.raises(ValueError, match="write it like 1h30m, 20m or 45s"):
        base.parse_duration(text)


@given(st.from_regex(base.DURATION_PATTERN, fullmatch=True).filter(lambda text: len(text) > 1))
def test_what_the_schema_accepts_can_be_read(text: str) -> None:
    """The pattern in the schema and the parser are two spellings of one rule."""
    assert base.parse_duration(text) >= timedelta()


def test_unknown_fields_are_ignored_and_unset_ones_left_out() -> None:
    """An older operator reads what a newer one wrote."""

    class Note(base.ApiModel):
        some_text: base.ShortText
        more: base.ShortText | None = None

    assert Note.model_validate({"someText": "a", "unheardOf": 1}).wire() == {"someText": "a"}


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (base.LABEL_PATTERN, ["a", "a-1"], ["", "-a", "a-", "A", "a.b"]),
        (base.SUBDOMAIN_PATTERN, ["a", "a.b-c"], ["", ".a", "a.", "A"]),
    ],
)
def test_name_patterns_accept_what_kubernetes_accepts(pattern: str, good: list[str], bad: list[str]) -> None:
    """RFC 1123."""
    assert all(re.search(pattern, text) for text in good)
    assert not any(re.search(pattern, text) for text in bad)
