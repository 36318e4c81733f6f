"""The facts of a target."""

from collections.abc import Sequence
from typing import Final

from paceline.api.checkpoint import Problem, TargetCheckpoint
from paceline.checkpoints import backbone as backbones
from paceline.checkpoints import mtp, problems, support
from paceline.checkpoints.backbone import Backbone
from paceline.checkpoints.documents import Json, Section, printable
from paceline.checkpoints.weights import Weights

_LARGEST_VOCABULARY: Final = 16_777_216
_LARGEST_WINDOW: Final = 1_000_000_000
_PROBLEM_LIMIT: Final = 16


def read(config: Json, *, weights: Weights | None = None, tokenizer: str | None = None) -> TargetCheckpoint:
    """Return what a target's files say; what is wrong with them is among the problems.

    Args:
        config: its ``config.json``.
        weights: names of its tensors; None when no index was read.
        tokenizer: fingerprint of its tokenizer, if that was read.
    """
    top = Section(values=config)
    architectures, model_type = top.words("architectures"), top.word("model_type")
    no_target = _no_target(top, architectures, model_type)
    backbone = None if no_target else backbones.find(top)
    if backbone is None:
        wrong = no_target or problems.error(
            "InvalidTarget",
            "config.json: the text backbone cannot be found: no section has num_hidden_layers, hidden_size and "
            "vocab_size; name a causal language model's own config.json",
        )
        return TargetCheckpoint(
            architectures=architectures, model_type=model_type, problems=[wrong, *top.found][:_PROBLEM_LIMIT]
        )
    facts = _of_backbone(top, backbone, weights=weights)
    found = [*_unknown_sizes(facts), *top.found, *(weights.problems if weights else ())]
    return facts.model_copy(
        update={"tokenizer_fingerprint": tokenizer, "problems": _with_errors_first(found)[:_PROBLEM_LIMIT]}
    )


def _no_target(top: Section, architectures: Sequence[str], model_type: str) -> Problem | None:
    """Return why a configuration is of another kind of model altogether."""
    table = support.vllm()
    drafts = {*table.heads, *table.unregistered_heads}
    if "speculators_model_type" in top or drafts & set(architectures) or model_type in {"medusa", "mlp_speculator"}:
        return problems.error(
            "InvalidTarget", "config.json is a draft head's, not a target's; pass it with --head, or correct target.uri"
        )
    if top.flag("is_encoder_decoder"):
        return problems.error(
            "InvalidTarget",
            "config.json is an encoder-decoder's; only a causal language model's decoding can be drafted",
        )
    return None


def _of_backbone(top: Section, backbone: Backbone, *, weights: Weights | None) -> TargetCheckpoint:
    text = backbone.section
    layers = text.size(*backbones.LAYER_KEYS, limit=10_000)
    heads = text.size(*backbones.HEAD_KEYS)
    inner = text.words("architectures") if text.path else []
    architectures = top.words("architectures")
    latent = text.size("kv_lora_rank") is not None
    return TargetCheckpoint(
        architectures=architectures,
        model_type=top.word("model_type"),
        text_path=printable(text.path),
        text_model_type=text.word("model_type") or top.word("model_type"),
        text_architectures=inner,
        hidden_size=text.size(*backbones.HIDDEN_KEYS),
        layers=layers,
        vocabulary_size=text.size(*backbones.VOCABULARY_KEYS, limit=_LARGEST_VOCABULARY),
        attention_heads=heads,
        kv_heads=_kv_heads(text, heads),
        head_dim=text.size("head_dim", "attention_head_dim", "kv_channels"),
        latent_attention=latent,
        other_heads=[number for key in backbones.OTHER_HEAD_KEYS if (number := text.size(key))],
        window=text.size(*backbones.WINDOW_KEYS, limit=_LARGEST_WINDOW),
        experts=_first_size(backbone, backbones.EXPERT_KEYS),
        experts_per_token=_first_size(backbone, backbones.EXPERTS_PER_TOKEN_KEYS),
        tied_embeddings=bool(text.flag("tie_word_embeddings")) or bool(top.flag("tie_word_embeddings")),
        quantization=_quantization(backbone),
        remote_code=isinstance(top.values.get("auto_map"), dict),
        weights_bytes=weights.bytes if weights else None,
        mtp=mtp.read(backbone, architectures=[*inner, *architectures], layers=layers, weights=weights),
    )


def _kv_heads(text: Section, heads: int | None) -> int | None:
    """Return the heads of keys and values; Falcon's multi-query flag means one, and no key means as many as queries."""
    said = text.size(*backbones.KV_HEAD_KEYS)
    if said is not None:
        return said
    return 1 if text.values.get("multi_query") is True else heads


def _first_size(backbone: Backbone, keys: Sequence[str]) -> int | None:
    """Return a number of experts; multimodal ones list it by modality, the text's first."""
    text = backbone.section
    for key in keys:
        value = text.values.get(key)
        if isinstance(value, list) and value and isinstance(value[0], int) and not isinstance(value[0], bool):
            return value[0] if 1 <= value[0] <= 1_048_576 else None  # noqa: PLR2004 - the bound of a width
    return text.size(*keys)


def _quantization(backbone: Backbone) -> str:
    """Return how weights are quantised, such as ``compressed-tensors 4 bit`` or ``modelopt NVFP4``; empty for not."""
    section = next(
        (one.section("quantization_config") for one in backbone.nearest_first if _has_quantization(one)), None
    )
    if section is None:
        return ""
    algorithm = section.word("quant_algo") or section.word("fmt")
    bits = section.values.get("bits", _grouped_bits(section))
    words = [section.word("quant_method") or "unnamed", algorithm, f"{bits} bit" if isinstance(bits, int) else ""]
    return " ".join(filter(None, words))[:256]


def _has_quantization(section: Section) -> bool:
    return isinstance(section.values.get("quantization_config"), dict)


def _grouped_bits(section: Section) -> int | None:
    """Return the bits of the first group of a compressed-tensors configuration."""
    groups = section.values.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    inner = first.get("weights") if isinstance(first, dict) else None
    bits = inner.get("num_bits") if isinstance(inner, dict) else None
    return bits if isinstance(bits, int) and not isinstance(bits, bool) and 0 < bits <= 64 else None  # noqa: PLR2004


def _unknown_sizes(facts: TargetCheckpoint) -> list[Problem]:
    """Return a note on sizes that the file leaves to its class; without layers there is no target."""
    if facts.layers is None:
        return [
            problems.error(
                "InvalidTarget",
                f"config.json: {facts.text_path or 'the document'} has no usable num_hidden_layers; "
                "name a causal language model's own config.json",
            )
        ]
    named = {"hidden_size": facts.hidden_size, "vocab_size": facts.vocabulary_size}
    missing = [key for key, value in named.items() if value is None]
    if not missing:
        return []
    return [
        problems.warning(
            "SizesUnknown",
            f"config.json does not tell {problems.listed(missing)}, so heads are not checked against it and nothing "
            "can be estimated; use the checkpoint's whole config.json",
        )
    ]


def _with_errors_first(found: Sequence[Problem]) -> list[Problem]:
    return sorted(found, key=lambda one: one.severity.value)
