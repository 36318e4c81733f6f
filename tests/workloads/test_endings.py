"""The last minute of a serving pod: out of the endpoints first, then drained, then killed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.api.podparts import PodTemplate
from paceline.engines.base import ServeRequest, is_at_least
from paceline.engines.vllm import Vllm
from paceline.workloads import endings, pods


@given(grace_s=st.integers(3, 7200))
def test_lead_and_drain_fit_into_the_grace_period(grace_s: int) -> None:
    """The kill never comes before the drain's own end."""
    template = PodTemplate(termination_grace_period=f"{grace_s}s")
    found = endings.of(template)
    assert found.lead_s >= 1
    assert found.lead_s + found.drain_s < pods.grace_s(template) == grace_s


def test_usual_minute_is_spent_on_leaving_draining_and_ending() -> None:
    """Fifteen seconds for the balancers, forty for the streams, five to end."""
    found = endings.of(PodTemplate())
    assert (found.lead_s, found.drain_s) == (15, 40)
    assert found.lifecycle == {"preStop": {"sleep": {"seconds": 15}}}


@pytest.mark.parametrize(
    ("version", "drains"), [("0.17.1", False), ("0.18.0", True), ("0.33.0rc1", True), ("1.0", True), ("", False)]
)
def test_engine_is_told_to_drain_where_it_can(version: str, drains: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """An unknown flag would keep an older engine from starting at all."""
    request = ServeRequest(
        model="m", revision=None, trust_remote_code=False, tensor_parallel_size=1, port=8000,
        args=["--shutdown-timeout=5"], version=version, drain_s=40,
    )  # fmt: skip
    command = Vllm().command(request)
    assert ("--shutdown-timeout=40" in command) is drains
    assert command[-1] == "--shutdown-timeout=5", "a user's own comes last, and wins"


@given(version=st.text(max_size=20))
def test_any_text_is_some_version(version: str) -> None:
    """An unreadable version is an old one."""
    assert is_at_least(version, (0, 18)) in {True, False}
