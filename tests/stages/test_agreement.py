"""The extraction gate: what share of rebuilt logits that name the target's next token is enough."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.api.drafttrainingjob import ExtractionSpec
from paceline.stages import agreement

DEFAULT = ExtractionSpec().min_agreement_percent


@pytest.mark.parametrize(
    ("percent", "compared", "enough"),
    [
        (99.9, 25_600, True),
        (99.61, 256, True),
        (95.95, 25_600, False),
        (95.95, 2_000, False),
        (98.0, 25_600, False),
        (55.86, 256, False),
        (0.0, 0, False),
    ],
    ids=[
        "measured-on-an-h200",
        "measured-on-a-cpu",
        "slightly-wrong-tensor-of-vllm-50815",
        "the-same-in-a-small-run",
        "two-in-a-hundred",
        "one-layer-early",
        "nothing-compared",
    ],
)
def test_healthy_states_pass_and_slightly_wrong_ones_do_not(percent, compared, enough):
    """By default: a tensor that was captured slightly wrong trains well and is hardly accepted, so it ends here."""
    agreeing = round(percent / 100 * compared)
    assert agreement.is_enough(agreeing, compared, min_percent=DEFAULT) is enough


@given(st.integers(1, 30_000), st.integers(50, 100), st.data())
def test_more_agreement_is_never_worse(compared, min_percent, data):
    """And the wanted share itself is always enough."""
    agreeing = data.draw(st.integers(0, compared))
    if agreement.is_enough(agreeing, compared, min_percent=min_percent):
        assert agreement.is_enough(min(agreeing + 1, compared), compared, min_percent=min_percent)
    if 100 * agreeing >= min_percent * compared + 1:
        assert agreement.is_enough(agreeing, compared, min_percent=min_percent)
