"""Settings from the environment."""

import pydantic
import pytest

from paceline.controller import settings


def test_environment_is_read_with_durations_and_lists():
    """As a chart writes them."""
    found = settings.Settings.from_environment(
        {"PACELINE_NAMESPACES": "a, b", "PACELINE_RESYNC": "5m", "PACELINE_WORKERS": "3", "OTHER": "x"}
    )
    assert (found.namespaces, found.resync, found.workers) == (("a", "b"), 300.0, 3)


def test_empty_value_is_the_default():
    """A chart's empty value is no value."""
    assert settings.Settings.from_environment({"PACELINE_NAMESPACES": ""}).namespaces == ()


def test_lease_times_out_of_order_are_refused():
    """A leader that gives up after another began is two leaders."""
    with pytest.raises(pydantic.ValidationError, match="must be below PACELINE_LEASE_RENEW_DEADLINE"):
        settings.Settings.from_environment({"PACELINE_LEASE_RENEW_DEADLINE": "20s"})


@pytest.mark.parametrize("value", ["soon", "-5s", ""])
def test_wrong_duration_names_its_field(value):
    """And an empty one is left out."""
    if value:
        with pytest.raises(pydantic.ValidationError, match="resync"):
            settings.Settings.from_environment({"PACELINE_RESYNC": value})


def test_each_process_has_an_identity_of_its_own():
    """A restarted container must not take its predecessor's lease for its own."""
    assert settings.Settings().identity != settings.Settings().identity
