"""Environment of the trainer's child processes."""

import os

from paceline.stages.cpu import hardware


def variables() -> dict[str, str]:
    """Return this process's environment, with what the trainer's tools need in a pod.

    A target is a folder or a pinned commit that is already in the cache, so nothing is fetched in mid-run; progress
    bars would fill the log; and the tools' data loader falls back to one thread when nobody names a number.
    """
    threads = str(hardware.cores())
    return {"TQDM_DISABLE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": threads, **os.environ}
