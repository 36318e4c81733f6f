"""The facts of a draft head, in every layout that is published: speculators, SpecForge, the original ones, and more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paceline.api.checkpoint import HeadCheckpoint, HeadType, LayerConvention, Presence, Problem
from paceline.checkpoints import auxiliary, head_weights, problems, support
from paceline.checkpoints import backbone as backbones
from paceline.checkpoints.documents import Json, Section
from paceline.checkpoints.weights import Weights

_LARGEST_VOCABULARY: Final = 16_777_216
_LARGEST_WINDOW: Final = 1_000_000_000
_PROBLEM_LIMIT: Final = 16
_AUX_KEYS: Final = ("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids")
_SPECULATORS: Final = {
    "eagle3": HeadType.EAGLE3_SPECULATORS,
    "eagle": HeadType.EAGLE1,
    "peagle": HeadType.PEAGLE,
    "dflash": HeadType.DFLASH,
    "dflash2": HeadType.DFLASH,
    "dspark": HeadType.DSPARK,
    "mtp": HeadType.MTP,
    "mlp_speculator": HeadType.MLP_SPECULATOR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a head's manifest, or a tokenizer beside it, says of the target it was trained for."""

    tokenizer_fingerprint: str | None = None
    target_digest: str | None = None


_UNKNOWN: Final = Origin()


def read(config: Json, *, weights: Weights | None = None, origin: Origin = _UNKNOWN) -> HeadCheckpoint:
    """Return what a head's files say; what is wrong with them is among the problems."""
    top = Section(values=config)
    decoder = top.section("transformer_layer_config") or top
    kind = _head_type(top, decoder, weights)
    facts = HeadCheckpoint(
        head_type=kind,
        architecture=next(iter(top.words("architectures")), ""),
        model_type=decoder.word("model_type"),
        hidden_size=_hidden_size(decoder, kind),
        target_hidden_size=top.size("target_hidden_size")
        or decoder.size("target_hidden_size")
        or _hidden_size(decoder, kind),
        vocabulary_size=decoder.size(*backbones.VOCABULARY_KEYS, limit=_LARGEST_VOCABULARY),
        draft_vocabulary_size=top.size("draft_vocab_size", limit=_LARGEST_VOCABULARY)
        or decoder.size("draft_vocab_size", limit=_LARGEST_VOCABULARY),
        layers=decoder.size(*backbones.LAYER_KEYS, limit=10_000),
        attention_heads=decoder.size(*backbones.HEAD_KEYS),
        kv_heads=decoder.size(*backbones.KV_HEAD_KEYS),
        window=decoder.size(*backbones.WINDOW_KEYS, limit=_LARGEST_WINDOW),
        aux_layer_ids=_aux_layer_ids(top),
        speculators="speculators_model_type" in top,
        target_layers=top.size("num_target_layers", limit=10_000),
        target_model_type=top.word("target_model_type"),
        quantization=_quantization(top),
        weights=Presence.UNKNOWN if weights is None else Presence.PRESENT,
        quantized_lm_head=bool(weights and head_weights.is_lm_head_quantized(weights)),
        tokenizer_fingerprint=origin.tokenizer_fingerprint,
        trained_for=origin.target_digest,
        **_of_verifier(top),
    )
    found = [*_broken(facts, top), *top.found]
    if weights is not None:
        found += [*weights.problems, *head_weights.check(facts, weights, flags=_flags(top))]
    return facts.model_copy(update={"problems": sorted(found, key=lambda one: one.severity.value)[:_PROBLEM_LIMIT]})


def _head_type(top: Section, decoder: Section, weights: Weights | None) -> HeadType:
    """Return how the head is built: by its architecture's name, and where that is an ordinary one, by what it has."""
    if "speculators_model_type" in top:
        return _SPECULATORS.get(top.word("speculators_model_type"), HeadType.UNKNOWN)
    architecture = next(iter(top.words("architectures")), "").lower()
    named = _by_name(top, architecture, model_type=top.word("model_type").lower())
    if named is HeadType.EAGLE3 and _reads_no_layers(top):
        return HeadType.EAGLE1
    if named is not None:
        return named
    layers = decoder.size(*backbones.LAYER_KEYS, limit=10_000)
    if "draft_vocab_size" in top and layers == 1:
        return HeadType.EAGLE3
    if not architecture.endswith(("forcausallm", "forconditionalgeneration")):
        return HeadType.UNKNOWN
    joins = head_weights.has_joint(weights) if weights and weights.names else layers == 1
    return HeadType.EAGLE1 if joins else HeadType.DRAFT_MODEL


def _by_name(top: Section, architecture: str, *, model_type: str) -> HeadType | None:  # noqa: PLR0911 - a table
    if model_type == "medusa" or "medusa" in architecture or "medusa_num_heads" in top:
        return HeadType.MEDUSA
    if model_type == "mlp_speculator" or architecture.startswith("mlpspeculator"):
        return HeadType.MLP_SPECULATOR
    if "dspark" in architecture:
        return HeadType.DSPARK
    if "dflash" in architecture or "dflash_config" in top:
        return HeadType.DFLASH
    if architecture.startswith("peagle") or top.flag("parallel_drafting"):
        return HeadType.PEAGLE
    if "eagle3" in architecture:
        return HeadType.EAGLE3_MLA if "deepseek" in architecture else HeadType.EAGLE3
    if architecture.startswith("eagle") or model_type == "eagle":
        return HeadType.EAGLE1
    if architecture.endswith(("mtp", "mtpmodel")) or model_type.endswith(("_mtp", "_assistant")):
        return HeadType.MTP
    return None


def _reads_no_layers(top: Section) -> bool:
    """Whether a head of EAGLE-3's name reads the last hidden state alone, as EAGLE-1 does."""
    inner = top.section("eagle_config")
    return any(one.flag("use_aux_hidden_state") is False for one in (inner, top) if one is not None)


def _hidden_size(decoder: Section, kind: HeadType) -> int | None:
    keys = ("emb_dim",) if kind is HeadType.MLP_SPECULATOR else ()
    return decoder.size(*keys, *backbones.HIDDEN_KEYS)


def _aux_layer_ids(top: Section) -> list[int] | None:
    """Return the layers from whichever place the layout has for them."""
    inner = top.section("eagle_config")
    for section in (top, inner):
        for key in _AUX_KEYS:
            ids = section.numbers(key) if section is not None else None
            if ids is not None:
                return ids
    return None


def _flags(top: Section) -> Mapping[str, bool]:
    """Return the norms that the configuration says the head has."""
    inner = top.section("eagle_config")
    places = [one for one in (top, inner) if one is not None]
    return {key: any(one.flag(key) is True for one in places) for key in ("norm_before_fc", "fc_norm")}


def _quantization(top: Section) -> str:
    section = top.section("quantization_config")
    return (section.word("quant_method") or "unnamed") if section else ""


def _of_verifier(top: Section) -> dict[str, Any]:
    """Return what the speculators format says of the target, or a Medusa head of its base model."""
    outer = top.section("speculators_config")
    verifier = outer.section("verifier") if outer else None
    if outer is None or verifier is None:
        return {"verifier": top.word("base_model_name_or_path")}
    return {
        "verifier": verifier.word("name_or_path"),
        "verifier_architectures": verifier.words("architectures"),
        "speculative_tokens": _speculative_tokens(outer),
    }


def _speculative_tokens(outer: Section) -> int | None:
    """Return the first proposal method's look-ahead: engines take the first, whatever is named the default."""
    methods = outer.values.get("proposal_methods")
    first = methods[0] if isinstance(methods, list) and methods else None
    return Section(values=first).size("speculative_tokens") if isinstance(first, dict) else None


def _broken(facts: HeadCheckpoint, top: Section) -> list[Problem]:
    """Return what makes a head unusable whatever the target."""
    if facts.head_type is HeadType.UNKNOWN:
        if facts.architecture in support.vllm().heads:
            message = f"config.json is a {facts.architecture}'s, of which only the name is known; nothing is checked"
            return [problems.warning("HeadUnchecked", f"{message}, a measured rollout will tell")]
        name = top.word("speculators_model_type") or facts.architecture or facts.model_type
        return [
            problems.error(
                "InvalidHead",
                f"config.json is of no known kind of draft head ({problems.quote(name)}); name a head's own folder",
            )
        ]
    found = [*_speculators_structure(facts, top), *_vocabularies(facts)]
    if facts.head_type is HeadType.EAGLE1 and "eagle3" in facts.architecture.lower():
        found.append(
            problems.warning(
                "HeadReadsNoAuxLayers",
                f"the head is named {facts.architecture} and reads no auxiliary layers (use_aux_hidden_state is "
                "false), so it is built as EAGLE-1 is: it reads the last hidden state alone; if it was trained with "
                "auxiliary layers, write them into eagle_config",
            )
        )
    elif facts.aux_layer_ids == [] and facts.head_type in auxiliary.READS_LAYERS:
        found.append(
            problems.warning(
                "HeadAuxLayersEmpty",
                "the head's list of auxiliary layers is empty, so the engine takes its own default; "
                "write the layers that it was trained with into its config.json",
            )
        )
    return found


def _speculators_structure(facts: HeadCheckpoint, top: Section) -> list[Problem]:
    """Return what vLLM would refuse as an invalid speculators configuration."""
    if not facts.speculators:
        return []
    lacking = [
        name
        for name, is_there in (
            ("transformer_layer_config", top.section("transformer_layer_config") is not None),
            ("speculators_config.proposal_methods[0].speculative_tokens", facts.speculative_tokens is not None),
            ("speculators_config.verifier.name_or_path", bool(facts.verifier)),
        )
        if not is_there
    ]
    if not lacking:
        return []
    return [
        problems.error(
            "InvalidHead",
            f"config.json is of the speculators format and lacks {problems.listed(lacking)}, without which vLLM does "
            "not start; publish the head again, or add them",
        )
    ]


def _vocabularies(facts: HeadCheckpoint) -> list[Problem]:
    draft, whole = facts.draft_vocabulary_size, facts.vocabulary_size
    if draft is None or whole is None or draft <= whole:
        return []
    return [
        problems.error(
            "InvalidHead",
            f"the head's draft vocabulary of {draft} exceeds its whole vocabulary of {whole}; correct "
            "draft_vocab_size in its config.json, or use another head",
        )
    ]


def registered_name(head: HeadCheckpoint) -> str:  # noqa: PLR0911 - one answer for each layout
    """Return the architecture that vLLM looks up for a head; empty where its registry is not asked.

    Source: ``vllm/transformers_utils/configs/eagle.py`` and ``configs/speculators/algos.py`` of 0.32.0.
    """
    name, decoder = head.architecture, "Qwen3" if head.model_type == "qwen3" else "Llama"
    match head.head_type:
        case HeadType.EAGLE3_SPECULATORS:
            return f"Eagle3{decoder}ForCausalLM"
        case HeadType.PEAGLE:
            return f"Peagle{decoder}ForCausalLM" if head.speculators else name
        case HeadType.EAGLE3 | HeadType.EAGLE3_MLA:
            return name if "eagle3" in name.lower() else f"Eagle3{name}"
        case HeadType.EAGLE1:
            return name if "eagle" in name.lower() else f"Eagle{name}"
        case HeadType.DSPARK:
            return name
        case HeadType.DFLASH:
            return name if "DFlash" in name else "DFlashDraftModel"
        case HeadType.MEDUSA:
            return "MedusaModel"
        case HeadType.MLP_SPECULATOR:
            return "MLPSpeculatorPreTrainedModel"
        case HeadType.MTP | HeadType.DRAFT_MODEL | HeadType.UNKNOWN:
            return ""


def convention(head: HeadCheckpoint, layers: int | None) -> LayerConvention:
    """Return what a head's auxiliary ids count."""
    if not head.aux_layer_ids or layers is None:
        return LayerConvention.INPUT if head.speculators else LayerConvention.UNKNOWN
    return auxiliary.convention(head.aux_layer_ids, layers=layers, speculators=head.speculators)


def methods(head: HeadCheckpoint) -> Sequence[str]:
    """Return the engine's words for how the head may be run; the first is the usual one."""
    match head.head_type:
        case HeadType.EAGLE1 if "eagle3" in head.architecture.lower():
            return ("eagle3", "eagle")
        case HeadType.EAGLE1 if head.weights is Presence.UNKNOWN and "eagle" not in head.architecture.lower():
            return ("eagle", "draft_model")
        case HeadType.EAGLE1:
            return ("eagle",)
        case HeadType.EAGLE3 | HeadType.EAGLE3_MLA | HeadType.EAGLE3_SPECULATORS | HeadType.PEAGLE:
            return ("eagle3",)
        case HeadType.UNKNOWN:
            return ()
        case _:
            return (head.head_type.value,)
