"""Exit codes, and the one error that commands raise to leave."""

from typing import Final

OK: Final = 0
FAILED: Final = 1
"""The command did what it was asked, and the answer is that it cannot be had."""
USAGE: Final = 2
"""The command line, or a file it names, is wrong; argparse uses the same."""
REFUSED: Final = 3
"""The command read everything, and what it read has errors: each is in the answer."""


class UsageError(Exception):
    """What was typed cannot be acted on; the text says what to change."""


class FailedError(Exception):
    """What was asked for could not be done; the text says why."""
