"""How much a machine tries: a little with every change, and with ``--hypothesis-profile=long`` a night's worth."""

import hypothesis

_USUAL = 100


def sized(examples: int, *, steps: int) -> hypothesis.settings:
    """Return settings for ``examples`` under the usual profile, and for as many times more as another profile asks."""
    times = hypothesis.settings.default.max_examples / _USUAL
    return hypothesis.settings(
        max_examples=max(1, round(examples * times)),
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much],
    )
