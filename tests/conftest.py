"""What holds for every test: in which order they run, and that each may take as long as its kind does.

The order inside a kind stays random, so that tests cannot lean on one another.
"""

import os

import hypothesis
import pytest

# How long an example takes is the machine's matter, not the code's: a deadline would fail tests under load. A change is
# tried on the same examples every time, so that what fails is the change's doing; the long profile goes elsewhere.
hypothesis.settings.register_profile("paceline", deadline=None, derandomize=True)
# For a night: pytest --hypothesis-profile=long tests/machine
hypothesis.settings.register_profile("long", deadline=None, max_examples=20_000)
hypothesis.settings.load_profile("paceline")

# Tests that run side by side (pytest -n 2) have a test bed each. Said here, before any module of tests reads BED.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ["BED"] = f"{os.environ.get('BED') or 'default'}-{worker}"

# Seconds that one test of the kind may take; the first that fits counts. Longer means that it hangs.
_LIMITS_S = {"e2e": 3600, "ml": 900, "cluster": 600}
_ORDER = ("unit", "cluster", "ml", "e2e")


def _kind(item: pytest.Item) -> str:
    """Return the dearest kind that a test is marked with."""
    return next((name for name in _LIMITS_S if item.get_closest_marker(name)), "unit")


@pytest.hookimpl(trylast=True)  # after pytest-randomly has shuffled
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order tests by what they cost, and limit each by its kind unless it says its own limit.

    One after the other the cheap ones come first, so that a fault shows early; side by side those come first that may
    take longest, so that none is left over at the end.

    Those marked ``chaos`` are left out unless they are named: by ``-m chaos``, or one by one.
    """
    if "chaos" not in config.option.markexpr and not any("::" in given for given in config.args):
        left_out = [item for item in items if item.get_closest_marker("chaos")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
    for item in items:
        kind = _kind(item)
        if kind in _LIMITS_S and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_LIMITS_S[kind]))
    items.sort(key=_longest_first if worker else lambda item: _ORDER.index(_kind(item)))


def _longest_first(item: pytest.Item) -> float:
    limit = item.get_closest_marker("timeout")
    return -limit.args[0] if limit else 0.0
