"""A target's own multi-token prediction: whether its configuration declares it, and whether its weights hold it.

The two disagree in both directions. MiniMax-M2 declares three modules and ships none; Qwen3-Next has one and no key for
it; quantisers and fine-tunes drop the layer and keep the key, and an engine that trusts the key then drafts from
uninitialised memory.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from paceline.api.checkpoint import MtpFacts, Presence
from paceline.checkpoints import problems, support
from paceline.checkpoints.backbone import Backbone
from paceline.checkpoints.documents import Section
from paceline.checkpoints.weights import Weights

# Keys by which a model of no known family may declare its modules. ``n_predict`` is not among them: it is a head's.
_COMMON_KEYS: Final = (
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "num_mtp_modules",
    "num_mtp_layers",
    "n_mtp_layers",
    "num_predict_layers",
    "mtp_config.num_nextn_predict_layers",
)
# Module trees that hold MTP layers, and how their names go on.
_TREES: Final = (
    re.compile(r"(?:^|\.)mtp\.layers\.(?P<module>[0-9]{1,5})\.(?P<rest>.+)"),
    re.compile(r"(?:^|\.)mtp\.(?P<module>[0-9]{1,5})\.(?P<rest>.+)"),
    re.compile(r"(?:^|\.)mtp_layers\.(?P<module>[0-9]{1,5})\.(?P<rest>.+)"),
    re.compile(r"(?:^|\.)mtp_block\.(?P<module>[0-9]{1,5})\.(?P<rest>.+)"),
)
_SHARED: Final = re.compile(r"(?:^|\.)mtp(?:_layers)?\.(?P<rest>[a-z_]+)(?:\.|$)")
_ERNIE_JOINT: Final = re.compile(r"(?:^|\.)mtp_linear_proj\.(?P<module>[0-9]{1,5})\.")
_LAYER: Final = re.compile(r"(?:^|\.)layers\.(?P<layer>[0-9]{1,5})\.(?P<part>[a-z_]+)(?:\.|$)")
# What merges the next token's embedding with the hidden state, by whatever name.
_JOINTS: Final = frozenset({"fc", "eh_proj", "e_proj", "h_proj", "input_proj", "linear_proj", "proj"})
_NORMS: Final = frozenset({"enorm", "hnorm"})
# Beside these, every part of a module is its transformer block.
_NO_BLOCK: Final = _JOINTS | _NORMS | {"shared_head", "embed_tokens", "norm", "final_layernorm", "emb", "head"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """MTP modules among tensor names."""

    complete: int = 0
    partial: str = ""
    """What an incomplete one has, for a message."""


def read(backbone: Backbone, *, architectures: Sequence[str], layers: int | None, weights: Weights | None) -> MtpFacts:
    """Return the facts.

    Args:
        backbone: where the text model is configured.
        architectures: of the text model and of what surrounds it.
        layers: depth of the text model; later layers in the weights are MTP's.
        weights: names of the tensors; None when no index was read.
    """
    types = [word for section in backbone.nearest_first if (word := section.word("model_type"))]
    family = support.family_of(types, architectures)
    modules, evidence = _declared(backbone, family, types)
    found = find_modules(weights.names, layers=layers) if weights and weights.names else None
    return MtpFacts(
        declared=modules > 0,
        evidence="; ".join(filter(None, [evidence, found.partial if found else ""]))[:1024],
        family=family.name if family else "",
        modules=modules,
        weights=Presence.UNKNOWN if found is None else Presence.PRESENT if found.complete else Presence.ABSENT,
        complete_modules=found.complete if found else 0,
    )


def _declared(backbone: Backbone, family: support.Family | None, types: Sequence[str]) -> tuple[int, str]:
    """Return how many modules the configuration declares, and where."""
    if family and family.off:
        off = next((section for section in backbone.nearest_first if section.flag(family.off) is False), None)
        if off is not None:
            return 0, f"{off.name(family.off)} = false"
    keys = family.keys if family else ()
    places = list(_places(backbone, (*keys, *(key for key in _COMMON_KEYS if key not in keys))))
    for section, key in places:
        if section.values[key] is not None:
            said = f"{section.name(key)} = {problems.quote(section.values[key])}"
            return (section.count(key) or 0), _with_switch(backbone, family, said)
    if places:
        section, key = places[0]
        return 0, f"{section.name(key)} = null"
    kind = types[0] if types else "none"
    if family and family.default:
        return family.default, f"no key, implied by model_type {kind}"
    return 0, f"key absent, model_type {kind}"


def _with_switch(backbone: Backbone, family: support.Family | None, said: str) -> str:
    if family is None or not family.off:
        return said
    on = next((one.name(family.off) for one in backbone.nearest_first if one.flag(family.off) is True), "")
    return f"{on} = true, {said}" if on else said


def _places(backbone: Backbone, keys: Iterable[str]) -> Iterable[tuple[Section, str]]:
    """Yield where one of ``keys`` is set, even to null, from the text model outwards."""
    for key in keys:
        outer, _, inner = key.rpartition(".")
        for section in backbone.nearest_first:
            place = section.section(outer) if outer else section
            if place is not None and inner in place:
                yield place, inner


def find_modules(names: Iterable[str], *, layers: int | None) -> Found:
    """Return the MTP modules that tensor names amount to.

    A module needs what joins embedding and hidden state, and a transformer block or the joint's two norms: in the
    layout of DeepSeek, where it is a layer behind the last, a joint with its norms tells it.
    """
    behind: dict[int, set[str]] = defaultdict(set)
    trees: dict[str, set[str]] = defaultdict(set)
    shared: set[str] = set()
    for name in names:
        if "mtp" in name:
            _sort_tree(name, trees, shared)
        elif layers is not None and (match := _LAYER.search(name)) and int(match["layer"]) >= layers:
            behind[int(match["layer"])].add(match["part"])
    last = {layer: parts for layer, parts in behind.items() if parts & (_NORMS | _JOINTS)}
    complete = sum(1 for parts in last.values() if parts >= _NORMS and _is_joined(parts))
    complete += sum(
        1 for parts in trees.values() if _is_joined(parts | shared) and (parts - _NO_BLOCK or parts >= _NORMS)
    )
    if complete or not (last or trees or shared):
        return Found(complete=complete)
    seen = sorted(set().union(shared, *last.values(), *trees.values()))
    return Found(partial=f"of an MTP module the weights hold only {problems.listed(seen[:6])}")


def _sort_tree(name: str, trees: dict[str, set[str]], shared: set[str]) -> None:
    if match := _ERNIE_JOINT.search(name):
        trees[match["module"]].add("linear_proj")
        return
    for pattern in _TREES:
        if match := pattern.search(name):
            trees[match["module"]].add(match["rest"].partition(".")[0])
            return
    if match := _SHARED.search(name):
        shared.add(match["rest"])


def _is_joined(parts: set[str]) -> bool:
    """Whether embedding and hidden state are joined: by one matrix, or by DeepSeek-V4's two."""
    return bool(parts & (_JOINTS - {"e_proj", "h_proj"})) or {"e_proj", "h_proj"} <= parts
