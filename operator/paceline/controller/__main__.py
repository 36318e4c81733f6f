"""``paceline-operator``: run the controller of both kinds."""

import asyncio
import sys

import pydantic

from paceline.controller import logs, operator, rooms, settings


def main() -> int:
    """Run until told to stop; return the exit code: 0 stopped, 1 crashed, 2 misconfigured, 3 the lease was lost."""
    try:
        configured = settings.Settings.from_environment()
        logs.configure(configured.log_level)
        return asyncio.run(_run(configured))
    except pydantic.ValidationError as error:
        for problem in error.errors():
            field = "_".join(str(part) for part in problem["loc"]).upper()
            sys.stderr.write(f"{settings.PREFIX}{field}: {problem['msg']} (given: {problem['input']!r})\n")
        return 2
    except rooms.UnknownRoomError as error:
        sys.stderr.write(f"{error}\n")
        return 2


async def _run(configured: settings.Settings) -> int:
    return await operator.Process(configured).run()


if __name__ == "__main__":
    sys.exit(main())
