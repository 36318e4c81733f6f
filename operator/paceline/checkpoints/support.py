"""Which engine version can do what: read from a packaged table, so that a new version is a change of data.

The table says what was seen in which source. Between two versions that were looked at nothing is claimed: the answer is
then UNKNOWN, which warns and forbids nothing.
"""

import functools
import importlib.resources
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import pydantic

_ENGINE: Final = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_-]{0,31})(==v?(?P<version>[0-9]+(\.[0-9]+){1,3}\S{0,32}))?")

Version = tuple[int, ...]


class Support(StrEnum):
    """Whether an engine can do something."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def _parse(text: object) -> object:
    return parse_version(text) if isinstance(text, str) else text


TableVersion = Annotated[Version, pydantic.BeforeValidator(_parse)]


class _Row(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    source: str = ""


class Family(_Row):
    """Target models whose own MTP layers the engine maps in one way."""

    name: str
    model_types: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    keys: tuple[str, ...]
    """Where the number of modules stands, tried in this order."""
    default: int = 0
    """What the engine takes when no key is there."""
    off: str = ""
    """A switch that, when false, turns the modules off whatever their number."""
    usable_modules: int | None = None
    """How many the engine loads, where that is fewer than declared."""
    mapped_from: TableVersion | None = None
    """First version that was seen to map it; None for never."""
    absent_through: TableVersion | None = None
    """Last version that was seen not to."""
    verify: str = ""
    """Why even declared and mapped modules are doubtful until their weights were seen."""

    def matches(self, model_types: Sequence[str], architectures: Sequence[str]) -> bool:
        """Whether a target is of this family."""
        return bool(set(self.model_types) & set(model_types) or set(self.architectures) & set(architectures))


class AllowList(_Row):
    """Text model types that may have EAGLE-3: one holds when it is *part* of the target's."""

    since: TableVersion
    before: TableVersion
    parts: tuple[str, ...]


class Gap(_Row):
    """Model types that pass the list although their class cannot do it."""

    model_types: tuple[str, ...]
    before: TableVersion


class Interface(_Row):
    """Top-level architectures whose class can hand out auxiliary hidden states."""

    since: TableVersion
    architectures: tuple[str, ...]


class HeadArchitecture(_Row):
    """A draft architecture in the engine's registry."""

    since: TableVersion | None = None


class Table(pydantic.BaseModel):
    """All that is known of one engine."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    engine: str
    sources: dict[str, str]
    mtp: tuple[Family, ...]
    allow_lists: tuple[AllowList, ...]
    gaps: tuple[Gap, ...]
    interface: Interface
    heads: dict[str, HeadArchitecture]
    unregistered_heads: dict[str, str]
    methods: dict[str, HeadArchitecture]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine at a version; without one, the newest that the table knows is meant."""

    name: str = "vllm"
    version: Version | None = None
    text: str = ""
    """The version as it was written."""

    @property
    def title(self) -> str:
        """What messages call it."""
        name = {"vllm": "vLLM", "sglang": "SGLang"}.get(self.name, self.name)
        return f"{name} {self.text}".rstrip()

    @property
    def table(self) -> Table | None:
        """What is known of it; None for an engine without a table."""
        return vllm() if self.name == "vllm" else None


NEWEST_VLLM: Final = Engine()


def parse_engine(text: str) -> Engine:
    """Return the engine in ``vllm==0.18.0`` or ``vllm``.

    Raises:
        ValueError: when it is neither.
    """
    found = _ENGINE.fullmatch(text)
    if found is None:
        raise ValueError(f"engine {text!r} is not understood; write it like vllm==0.18.0")
    version = found["version"]
    return Engine(name=found["name"].lower(), version=parse_version(version) if version else None, text=version or "")


def parse_version(text: str) -> Version:
    """Return the numbers at the start of a version; what follows them (``rc1``, ``+cpu``) is left out.

    Raises:
        ValueError: when it does not start with a number, or with one that no release has.
    """
    found = re.match(r"v?([0-9]{1,6}(?:\.[0-9]{1,6}){0,3})", text)
    if found is None:
        raise ValueError(f"version {text!r} is not understood; write it like 0.18.0")
    return tuple(int(number) for number in found[1].split("."))


@functools.cache
def vllm() -> Table:
    """Return the table of vLLM."""
    raw = importlib.resources.files("paceline.checkpoints").joinpath("vllm.json").read_text(encoding="utf-8")
    return Table.model_validate_json(raw)


def family_of(model_types: Sequence[str], architectures: Sequence[str]) -> Family | None:
    """Return the MTP family of a target; the type decides before the architecture does.

    Kimi-K2 carries DeepSeek-V3's architecture name and none of its MTP layers.
    """
    families = vllm().mtp
    by_type = next((one for one in families if one.matches(model_types, ())), None)
    return by_type or next((one for one in families if one.matches((), architectures)), None)


def family_named(name: str) -> Family | None:
    """Return a family by its name."""
    return next((one for one in vllm().mtp if one.name == name), None)


def maps_mtp(engine: Engine, family: Family | None) -> Support:
    """Return whether the engine can draft with a family's own MTP layers."""
    if engine.table is None:
        return Support.UNKNOWN
    if family is None or family.mapped_from is None:
        return Support.NO
    if engine.version is None or engine.version >= family.mapped_from:
        return Support.YES
    if family.absent_through is not None and _within(engine.version, family.absent_through):
        return Support.NO
    return Support.UNKNOWN


def takes_eagle3(engine: Engine, *, text_model_type: str, architectures: Sequence[str]) -> Support:
    """Return whether the engine hands a target's hidden states to an EAGLE-3 head, or to extraction."""
    table = engine.table
    if table is None:
        return Support.UNKNOWN
    if engine.version is None or engine.version >= table.interface.since:
        known = set(table.interface.architectures) & set(architectures)
        # What a newer version has learnt since is not known here.
        return Support.YES if known else Support.UNKNOWN if _is_newer(engine, table) else Support.NO
    ruling = next((one for one in table.allow_lists if one.since <= engine.version < one.before), None)
    if ruling is None:
        last = table.allow_lists[-1]
        listed = any(part in text_model_type for part in last.parts)
        return Support.UNKNOWN if engine.version < last.since else Support.YES if listed else Support.UNKNOWN
    if not any(part in text_model_type for part in ruling.parts):
        return Support.NO
    lacking = any(gap for gap in table.gaps if engine.version < gap.before and _is_of(text_model_type, gap))
    return Support.UNKNOWN if lacking else Support.YES


def first_with_eagle3(engine: Engine, *, text_model_type: str, architectures: Sequence[str]) -> str:
    """Return the first version known to take EAGLE-3 for a target, such as ``0.18``; empty when none is."""
    table = engine.table
    if table is None:
        return ""
    if set(table.interface.architectures) & set(architectures):
        later = [one.since for one in table.allow_lists if any(part in text_model_type for part in one.parts)]
        return _text(min([*later, table.interface.since]))
    listed = [one.since for one in table.allow_lists if any(part in text_model_type for part in one.parts)]
    return _text(min(listed)) if listed else ""


def has_head(engine: Engine, architecture: str) -> Support:
    """Return whether the engine's registry has a draft architecture."""
    table = engine.table
    if table is None:
        return Support.UNKNOWN
    if architecture in table.unregistered_heads:
        return Support.NO
    row = table.heads.get(architecture)
    if row is None:
        return Support.UNKNOWN if _is_newer(engine, table) else Support.NO
    return _since(engine, row.since)


def has_method(engine: Engine, method: str) -> Support:
    """Return whether the engine knows a way to draft, or ``extract_hidden_states``."""
    row = engine.table.methods.get(method) if engine.table else None
    return _since(engine, row.since) if row else Support.UNKNOWN


def since(engine: Engine, *, head: str = "", method: str = "") -> str:
    """Return the version from which a draft architecture or a method is there; empty when that is not known."""
    if engine.table is None:
        return ""
    row = engine.table.heads.get(head) or engine.table.methods.get(method)
    return _text(row.since) if row and row.since else ""


def _since(engine: Engine, first: Version | None) -> Support:
    if engine.version is None or first is None:
        return Support.YES
    return Support.YES if engine.version >= first else Support.NO


def _is_newer(engine: Engine, table: Table) -> bool:
    """Whether a version is beyond the one whose source the table was made from."""
    return (
        engine.version is not None
        and not _within(engine.version, table.interface.since)
        and (engine.version > table.interface.since)
    )


def _within(version: Version, bound: Version) -> bool:
    """Whether a version is at most ``bound``, all patches of ``bound`` included."""
    return version[: len(bound)] <= bound


def _is_of(text_model_type: str, gap: Gap) -> bool:
    return any(text_model_type.startswith(one) for one in gap.model_types)


def _text(version: Version) -> str:
    return ".".join(str(number) for number in version)
