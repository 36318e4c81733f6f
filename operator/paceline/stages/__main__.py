"""``python -m paceline.stages NAME``: one stage, as a pod's main process."""

import argparse
import sys
from pathlib import Path

from paceline.api import stages
from paceline.podside import termination
from paceline.stages import runner


def main() -> int:
    """Parse the command line and run the stage."""
    parser = argparse.ArgumentParser(prog="paceline.stages", description=__doc__)
    parser.add_argument("stage", choices=sorted(runner.PROGRAMS))
    parser.add_argument("--config", type=Path, default=Path(stages.CONFIG_PATH))
    parser.add_argument("--port", type=int, default=stages.PROGRESS_PORT, help="where /progress is answered")
    parser.add_argument("--report", type=Path, default=termination.TERMINATION_LOG, help="where the result is written")
    args = parser.parse_args()
    return runner.main(args.stage, args.config, port=args.port, report_path=args.report)


if __name__ == "__main__":
    sys.exit(main())
