"""The engine as the rest of Paceline knows it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from paceline.api.engine import EngineSpec
from paceline.api.speculation import SuffixSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """How a server drafts, resolved: a path instead of a source."""

    method: str
    """``eagle3`` or ``ngram``, the engine's own word."""
    num_speculative_tokens: int
    draft_path: str | None = None
    draft_revision: str | None = None
    draft_tensor_parallel_size: int | None = None
    ngram_min: int | None = None
    ngram_max: int | None = None
    suffix: SuffixSpec | None = None
    schedule: Sequence[tuple[int, int, int]] = ()
    """First and last number of requests in flight, and the tokens drafted at them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """A server that writes hidden states instead of speculating."""

    auxiliary_layers: tuple[int, ...]
    """Layer ids whose *inputs* are written; the last one is the input of the final norm, id = number of layers."""
    hidden_states_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRequest:
    """One server."""

    model: str
    """Folder, ``organisation/name`` or URI; also the first served name, by which regeneration loads the tokenizer."""
    revision: str | None
    trust_remote_code: bool
    tensor_parallel_size: int
    port: int
    args: Sequence[str] = ()
    speculation: Speculation | None = None
    extraction: Extraction | None = None
    version: str = ""
    """The engine's; empty where nothing depends on it."""
    drain_s: int = 0
    """Seconds that requests in flight get to end after SIGTERM; 0 leaves it to the engine, and vLLM aborts them."""


class Engine(Protocol):
    """What differs between engines."""

    def command(self, request: ServeRequest) -> list[str]:
        """Return the container's command line."""
        ...

    def completion_command(self, port: int) -> list[str]:
        """Return a command, run beside the engine, that succeeds once it has answered a real completion.

        The drafting path is part of it: more than one token is asked for.
        """
        ...

    @property
    def health_path(self) -> str:
        """HTTP path of the liveness answer. It does not prove that the engine decodes."""
        ...

    @property
    def metrics_path(self) -> str:
        """HTTP path of the Prometheus metrics."""
        ...


_NUMBERS = re.compile(r"[0-9]+")
_TAG = re.compile(r":v?(?P<version>[0-9]+\.[0-9]+(\.[0-9]+)?)")


def version_of(engine: EngineSpec) -> str:
    """Return the engine's version: what the spec says, else what the image's tag tells.

    Raises:
        ValueError: when neither tells it.
    """
    if engine.version:
        return engine.version
    found = _TAG.search(engine.image.rsplit("/", 1)[-1])
    if found is None:
        raise ValueError(
            f"spec.engine.version is missing and image {engine.image!r} does not tell it; "
            'set spec.engine.version, e.g. "0.33.0"'
        )
    return found["version"]


def is_at_least(version: str, since: tuple[int, int]) -> bool:
    """Return whether a version such as ``0.18.0rc1`` is of this release or a later one."""
    numbers = [int(one) for one in _NUMBERS.findall(version)[:2]]
    return tuple(numbers) >= since
