"""Names of the beds that modules of tests bring up for themselves."""

import os


def own(name: str) -> str:
    """Return a bed's name that no other worker of the same run has: two would take each other's bed down."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    return f"{name}-{worker}" if worker else name
