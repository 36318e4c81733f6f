"""The table of ways in which an engine's container fails: what shows it, whether another try may help, what to change.

The rows lie in ``faults.toml``, so that a failure that was seen is a change of data. A row is a line that an engine
prints late, since little more than the end of its log is seen. Rows whose cause is the GPU's memory are looked for
first; of the others the lowest line of the log counts, and the first row that knows it.

Sources: vLLM's own messages, recorded from 0.32 in ``tests/engines/failures``; the public reports named beside rows.
"""

import importlib.resources
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pydantic


class Nature(StrEnum):
    """Whether another try may help."""

    PERMANENT = "Permanent"
    MEMORY = "Memory"  # the GPU's: only while no other pod gives it back
    TRANSIENT = "Transient"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way to fail."""

    name: str
    """CamelCase, for people and tests."""
    nature: Nature
    remedy: str
    """What to change, as a sentence."""
    said: str = ""
    """The telling part of the log, one line; empty when Kubernetes told it."""


class _Entry(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    name: str
    nature: Nature
    remedy: str
    source: str = ""
    """The public report of it, where there is one."""

    @property
    def fault(self) -> Fault:
        """The row as what it shows."""
        return Fault(name=self.name, nature=self.nature, remedy=self.remedy)


class Row(_Entry):
    """What a line of a log shows."""

    patterns: tuple[str, ...]
    """Regular expressions, one of which is found in the line."""

    @property
    def pattern(self) -> str:
        """All of them as one."""
        return "|".join(self.patterns)


class _Told(_Entry):
    reasons: tuple[str, ...]
    """Of the waiting container, or of the event."""
    says: str = ""
    """A part of an event's message; empty for any."""


class _Table(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    log: tuple[Row, ...]
    waiting: tuple[_Told, ...]
    event: tuple[_Told, ...]


def _read() -> _Table:
    text = importlib.resources.files("paceline.engines").joinpath("faults.toml").read_text(encoding="utf-8")
    return _Table.model_validate(tomllib.loads(text))


_TABLE: Final = _read()
ROWS: Final = _TABLE.log
WAITING: Final[dict[str, Fault]] = {reason: one.fault for one in _TABLE.waiting for reason in one.reasons}
"""By the reason of a container that waits."""
EVENTS: Final[tuple[tuple[str, str, Fault], ...]] = tuple(
    (reason, one.says, one.fault) for one in _TABLE.event for reason in one.reasons
)
"""Warnings about a pod whose volumes do not come: reason, part of the message, what it shows; the first counts."""
OUT_OF_MEMORY: Final = Fault(
    name="OutOfMemory",
    nature=Nature.TRANSIENT,
    remedy="Raise engine.podTemplate.resources.limits.memory, in which /dev/shm (sharedMemory) counts",
)
