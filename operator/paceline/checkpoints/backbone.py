"""Finds the language model inside a configuration: at the top, or one or two levels down in a multimodal wrapper."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from paceline.checkpoints.documents import Section

LAYER_KEYS: Final = ("num_hidden_layers", "num_layers", "n_layers", "n_layer")
HIDDEN_KEYS: Final = ("hidden_size", "n_embd", "d_model", "dim")
HEAD_KEYS: Final = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEAD_KEYS: Final = (
    "num_key_value_heads",
    "num_attention_groups",  # Step
    "multi_query_group_num",  # ChatGLM
    "num_kv_heads",
    "n_head_kv",
)
VOCABULARY_KEYS: Final = ("vocab_size", "padded_vocab_size", "n_vocab")
WINDOW_KEYS: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
    "model_max_length",
)
EXPERT_KEYS: Final = (
    "n_routed_experts",
    "num_local_experts",
    "num_experts",
    "moe_num_experts",
    "num_moe_experts",
    "n_experts",
)
EXPERTS_PER_TOKEN_KEYS: Final = (
    "num_experts_per_tok",
    "experts_per_token",
    "moe_top_k",
    "moe_topk",
    "top_k_experts",
    "moe_k",
)
# Linear attention and state-space layers are divided by these.
OTHER_HEAD_KEYS: Final = ("linear_num_key_heads", "linear_num_value_heads", "mamba_num_heads")

# The names that wrappers in use give their language model, tried in this order before any other.
_USUAL: Final = (
    "text_config",
    "llm_config",
    "language_config",
    "language_model_config",
    "text_model_config",
    "lm_config",
    "thinker_config",
)
# Parts that have layers and a width of their own and are not the model that decodes text.
_NOT_TEXT: Final = (
    "vision", "visual", "vit", "image", "audio", "speech", "talker", "token2wav", "code2wav", "codec", "encoder",
    "projector", "perceiver", "qformer", "quantization", "rope", "mtp", "draft", "eagle", "speculators",
    "transformer_layer",
)  # fmt: skip
_DEPTH: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Backbone:
    """The section that holds the text model's sizes, and the sections around it, from the inside out."""

    section: Section
    around: tuple[Section, ...]

    @property
    def nearest_first(self) -> tuple[Section, ...]:
        """The text model's section, then what surrounds it."""
        return (self.section, *self.around)


def find(top: Section) -> Backbone | None:
    """Return where the language model is configured; None when nothing that looks like one is there.

    An inner section wins over the document: where a wrapper repeats sizes at the top, engines read the inner ones.
    """
    inner = next(_inside(top, around=(top,), depth=_DEPTH), None)
    if inner is not None:
        return inner
    return Backbone(section=top, around=()) if _has_layers(top) else None


def _inside(section: Section, *, around: tuple[Section, ...], depth: int) -> Iterator[Backbone]:
    if depth == 0:
        return
    children = sorted(
        (child for child in section.sections() if _may_be_text(child)),
        key=lambda child: _USUAL.index(_key(child)) if _key(child) in _USUAL else len(_USUAL),
    )
    for child in children:
        yield from _inside(child, around=(child, *around), depth=depth - 1)
        if _has_layers(child) and (_key(child) in _USUAL or _has_all_sizes(child)):
            yield Backbone(section=child, around=around)


def _key(section: Section) -> str:
    return section.path.rpartition(".")[2]


def _may_be_text(section: Section) -> bool:
    return not any(word in _key(section).lower() for word in _NOT_TEXT)


def _has_layers(section: Section) -> bool:
    return any(section.values.get(key) is not None for key in LAYER_KEYS)


def _has_all_sizes(section: Section) -> bool:
    """Whether a section of an unusual name is surely a language model."""
    sizes = (LAYER_KEYS, HIDDEN_KEYS, VOCABULARY_KEYS)
    return all(any(section.values.get(key) is not None for key in keys) for keys in sizes)
