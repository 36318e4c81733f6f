"""``paceline``, and ``kubectl paceline`` where kubectl finds it."""

import argparse
import os
import sys
from collections.abc import Sequence

from paceline.cli import exits, inspect, judge, metrics, probe, schedule

_DESCRIPTION = "Try what the operator decides, on recorded or freshly measured data."
_COMMANDS = (inspect, metrics, judge, schedule, probe)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code; ``exits`` tells what each stands for."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; what Python would still flush at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.OK
    except exits.UsageError as error:
        print(f"paceline: {error}", file=sys.stderr)
        return exits.USAGE
    except exits.FailedError as error:
        print(f"paceline: {error}", file=sys.stderr)
        return exits.FAILED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paceline", description=_DESCRIPTION)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.register(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
