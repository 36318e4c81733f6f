"""Running other programs, with errors that show what they said."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bedctl.errors import BedError


def run(command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a program to its end and return what it printed.

    Raises:
        BedError: It could not be started or exited non-zero; the message carries its last words.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True, env=env, cwd=cwd)
    except FileNotFoundError as error:
        raise BedError(f"The program {words[0]} is not installed; docs/testbed.md lists what the bed needs.") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise BedError(f"`{' '.join(words)}` failed with {done.returncode}: {said}")
    return done.stdout


def succeeds(command: Sequence[str | Path]) -> bool:
    """Say whether the program exits with 0; whatever it prints is dropped."""
    return subprocess.run([str(word) for word in command], check=False, capture_output=True).returncode == 0
