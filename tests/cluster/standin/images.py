"""The stand-in's image, and that of probe and inspection pods, for a bed: our code and its few dependencies."""

from pathlib import Path

from bedctl import images, rootfs
from demo import bedimages

ENGINE = "localhost/paceline/standin:v0.33.0"
"""The tag says which vLLM's command line it takes."""
STAGES = "localhost/paceline/stages:standin"
_PROGRAM = Path(__file__).parent / "program"
_SITE = "/opt/paceline"


def engine():
    """Return the engine's image: ``vllm`` is the stand-in."""
    return images.Image(
        name=ENGINE,
        env={"PATH": f"/opt/standin:{rootfs.search_path()}"},
        user="65532",
        layers={"/opt/standin": _PROGRAM},
    )


def stages():
    """Return the image of probe and inspection pods, without torch: neither of them needs it."""
    return images.Image(
        name=STAGES,
        env={
            "PYTHONPATH": f"{_SITE}/site:{_SITE}/dependencies",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": f"{_SITE}/bin:{rootfs.search_path()}",
        },
        user="65532",
        layers={
            f"{_SITE}/site/paceline": bedimages.REPOSITORY / "operator" / "paceline",
            f"{_SITE}/dependencies": bedimages.operator_dependencies(),
        },
    )
