"""Environment of the trainer's child processes."""

import os
from typing import Final

from paceline.stages.cpu import hardware

_DEFAULTS: Final = {
    # Progress bars would fill the log; progress travels as events.
    "TQDM_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # A thread that waits for another one sleeps soon instead of spinning: beside other processes on two cores this was
    # measured at two and a half times the speed, and alone it costs nothing that can be seen.
    "GOMP_SPINCOUNT": "1000",
}


def variables() -> dict[str, str]:
    """Return this process's environment with defaults for what it does not set."""
    # The trainer's data loader falls back to one thread when nobody names a number.
    return {**_DEFAULTS, "OMP_NUM_THREADS": str(hardware.cores()), **os.environ}
