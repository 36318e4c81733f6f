"""Which inference engine runs a model, and how: shared by serving, by regeneration and by extraction."""

from enum import StrEnum
from typing import Annotated, ClassVar

import pydantic

from paceline.api.base import ApiModel, Cel, list_field, text
from paceline.api.podparts import PodTemplate

EngineVersion = Annotated[str, text(max_length=32, pattern=r"^[0-9]+\.[0-9]+(\.[0-9]+)?([.+-][A-Za-z0-9.]+)?$")]
EngineArgument = Annotated[str, text(max_length=4096)]

# Flags that the operator owns: an argument that repeats one would quietly win over the resource.
# vLLM reads --some_flag as --some-flag, and --flag.key=value as one key of a flag that takes JSON.
_OWNED = (
    "^(-tp|--(speculative-.*|kv-transfer-config|tensor-parallel-size|model|revision|trust-remote-code|host|port))"
    "([=.].*)?$"
)
_VERSION_IN_TAG = ":v?[0-9]+[.][0-9]+([.][0-9]+)?([-.+][A-Za-z0-9.-]*)?(@.*)?$"


class EngineName(StrEnum):
    """The engines that can be driven."""

    VLLM = "vLLM"


class EngineSpec(ApiModel):
    """One engine: image, version, parallelism and the pods it runs in."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            rule=f"has(self.version) || self.image.matches('{_VERSION_IN_TAG}')",
            message='version is missing and the image\'s tag does not tell it; set version, e.g. "0.33.0"',
        ),
        Cel(
            rule=f"!has(self.args) || !self.args.exists(a, a.replace('_', '-').matches('{_OWNED}'))",
            message="args must not set the model, its revision or code, speculation, KV transfer, parallelism, host or "
            "port; use the fields of the spec",
        ),
    )

    name: EngineName = EngineName.VLLM
    image: Annotated[str, text(max_length=512)]
    """Image whose entry point or PATH has the engine's command. A digest pins it."""
    version: EngineVersion | None = None
    """Version of the engine, when the image's tag does not tell it. Checked against the running engine."""
    tensor_parallel_size: Annotated[int, pydantic.Field(ge=1, le=64)] = 1
    args: Annotated[list[EngineArgument], list_field(max_items=64)] = []
    """Further arguments of the server, one a list item, e.g. ``--max-model-len=32768``."""
    pod_template: PodTemplate = PodTemplate()
