#!/usr/bin/env python3
"""Make the environment that lint, types and tests run in, and print its folder.

It lies in the cache, keyed by the lock and the interpreter: a changed lock makes a new folder, an unchanged one costs a
look at a marker file. Standard library only, since this is the first thing that runs on a bare machine.

    python requirements/dev_env.py          # prints .../dev-<key>
    python requirements/dev_env.py --lock   # rewrites operator.lock and dev.lock from pyproject.toml
"""

import argparse
import shutil
import sys
from pathlib import Path

import cpu_env

ROOT = cpu_env.HERE.parent


def main() -> int:
    """Build the environment where it is missing, or rewrite the locks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lock", action="store_true", help="resolve the dependencies again")
    if parser.parse_args().lock:
        compile_locks()
    else:
        print(ensure())
    return 0


def ensure() -> Path:
    """Return the environment's folder, built first where its marker is missing."""
    lock = (cpu_env.HERE / "dev.lock").read_bytes()
    key = cpu_env.digest(lock, sys.version.encode(), sys.base_prefix.encode())
    venv = cpu_env.cache_root() / f"dev-{key}"
    with cpu_env.exclusive(venv):
        if not (venv / cpu_env.MARKER).exists():
            build(venv)
    return venv


def build(venv: Path) -> None:
    """Build in place, since entry scripts hold absolute paths; only the marker makes it count."""
    cpu_env.say(f"building {venv}")
    shutil.rmtree(venv, ignore_errors=True)
    try:
        import ensurepip  # noqa: F401, PLC0415 - asked for, since Debian splits it off and venv fails half-way without
    except ModuleNotFoundError:
        raise SystemExit("this Python has no ensurepip; on Debian or Ubuntu: apt-get install python3-venv") from None
    cpu_env.run(sys.executable, "-m", "venv", venv)
    pip = (venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    cpu_env.run(*pip, "--no-deps", "-r", cpu_env.HERE / "dev.lock")
    (venv / cpu_env.MARKER).touch()


def compile_locks() -> None:
    """Resolve the operator's own dependencies, then those of development on top."""
    uv = cpu_env.ensure_uv()
    compiling = (uv, "pip", "compile", "--quiet", "--no-header", "--universal", "--python-version", "3.11")
    project = ROOT / "pyproject.toml"
    cpu_env.run(*compiling, project, "-o", cpu_env.HERE / "operator.lock")
    cpu_env.run(*compiling, project, "--extra", "dev", "-o", cpu_env.HERE / "dev.lock")


if __name__ == "__main__":
    sys.exit(main())
