"""Do the hidden states belong to the target? Rebuild its logits from them and see whether they name its own next token.

The last extracted layer is the input of the final norm. On a greedy answer the rebuilt logits' first choice at each
position is the token that the target wrote next, or ties with it within bfloat16's rounding; states of a wrong layer, a
wrong model or a torn file agree by chance only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paceline.stages import target_files
from paceline.stages.failures import PermanentError

if TYPE_CHECKING:
    import torch

_NORMS: Final = ("model.norm.weight", "language_model.model.norm.weight", "model.language_model.norm.weight")
_HEADS: Final = ("lm_head.weight", "language_model.lm_head.weight", "model.language_model.lm_head.weight")
_EMBEDDINGS: Final = (
    "model.embed_tokens.weight",
    "language_model.model.embed_tokens.weight",
    "model.language_model.embed_tokens.weight",
)
_DEFAULT_EPSILON: Final = 1e-6
_MOST_POSITIONS: Final = 128
"""Of one sample: each costs a product with the whole vocabulary."""
_SIGMAS: Final = 3.0
"""Standard deviations that a sample may fall below the wanted share: one healthy run in 700 at exactly that share."""
_ROUNDING: Final = 2.0**-7
"""Two logits this close, as a share of their size, are the same to bfloat16, whose fraction has 7 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The target's output layers."""

    norm: "torch.Tensor"
    """[hidden] float32."""
    head: "torch.Tensor"
    """[vocabulary, hidden] float32."""
    epsilon: float


def load_output(folder: Path) -> Output:
    """Return final norm and output matrix of a checkpoint; tied embeddings serve as the latter.

    Raises:
        PermanentError: when the checkpoint names them otherwise.
    """
    config = target_files.read_json(folder / target_files.CONFIG)
    config = config.get("text_config", config)
    return Output(
        norm=_load(folder, _NORMS),
        head=_load(folder, _HEADS + _EMBEDDINGS),
        epsilon=float(config.get("rms_norm_eps", _DEFAULT_EPSILON)),
    )


def count(output: Output, sample: Path, loss_mask: Sequence[int]) -> tuple[int, int]:
    """Return (agreeing, compared) positions of one sample.

    Args:
        output: the target's output layers.
        sample: safetensors file with ``hidden_states`` [tokens, layers, hidden] and ``token_ids`` [tokens].
        loss_mask: 1 where a token is the target's own; position i is compared when token i + 1 is.
    """
    import torch  # noqa: PLC0415 - only the trainer image has it
    from safetensors.torch import load_file  # noqa: PLC0415

    data = load_file(sample)
    tokens = data["token_ids"]
    own = torch.tensor(loss_mask[1 : len(tokens)]).nonzero().squeeze(-1)[:_MOST_POSITIONS]
    last = data["hidden_states"][own, -1].float()
    normed = last * torch.rsqrt(last.pow(2).mean(-1, keepdim=True) + output.epsilon) * output.norm
    logits = normed @ output.head.T
    top = logits.max(-1).values
    written = logits.gather(-1, tokens[own + 1].long().unsqueeze(-1)).squeeze(-1)
    return int((top - written <= top.abs() * _ROUNDING).sum()), len(own)


def is_enough(agreeing: int, compared: int, *, min_percent: int) -> bool:
    """Whether hidden states may be the target's: their share is not below the wanted one by more than chance.

    A position is right or wrong, so that ``compared`` of them scatter as a binomial does. A run of a few dozen answers
    does not fail for two ties; one with tens of thousands of positions has no such excuse. Nothing compared is not
    enough.
    """
    share = min_percent / 100.0
    slack = _SIGMAS * math.sqrt(share * (1.0 - share) * compared)
    return compared > 0 and agreeing >= share * compared - slack


def _load(folder: Path, names: Sequence[str]) -> "torch.Tensor":
    from safetensors import safe_open  # noqa: PLC0415 - only the trainer image has it

    found = target_files.find_tensor(folder, names)
    if found is None:
        raise PermanentError(
            f"the target's checkpoint has none of {', '.join(names)}; "
            "hidden states of this architecture cannot be checked yet, choose another target"
        )
    path, name = found
    with safe_open(path, framework="pt") as file:
        handle: Any = file
        return handle.get_tensor(name).float()
