"""Condition types and reasons are API: their form is checked, and what was published stays."""

import re

import pytest

from paceline.api import conditions

REASONS = [*conditions.TrainingReason, *conditions.RolloutReason]


@pytest.mark.parametrize("reason", sorted({str(reason) for reason in REASONS}))
def test_reason_is_a_word_in_camel_case_that_does_not_call_itself_reason(reason: str) -> None:
    """kubectl wait, alerts and people all match on it."""
    assert re.fullmatch(r"[A-Z][A-Za-z]{3,40}", reason)
    assert not reason.endswith("Reason")


def test_condition_of_the_longest_message_is_read() -> None:
    """A condition that cannot be read back would stop its resource for ever."""
    raw = {
        "type": "Accepted",
        "status": "True",
        "reason": "TargetRead",
        "message": "m" * 32768,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    assert conditions.Condition.model_validate(raw).message == raw["message"]
