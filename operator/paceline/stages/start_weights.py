"""Lays the weights of a given head over one that was just built, in the trainer's process.

Tensors are taken where name and shape agree, of any floating-point type. The rows of the output matrix go by token, not
by place: a draft vocabulary that was remapped keeps what the head knows of the tokens that stayed.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open

from paceline.stages import start, target_files

_OUTPUT: Final = "lm_head.weight"
_ORIGINAL_LAYER: Final = ("midlayer.", "layers.0.")
# What the run has of its own: the vocabulary maps, and the target's output layers that teach.
_OWN: Final = ("d2t", "t2d", "verifier_lm_head.", "verifier_norm.")
_NEEDED: Final = ("fc.weight", "layers.")


class UnfitError(Exception):
    """The weights are of another shape than the head that is trained."""


def lay_over(model: Any, head: Path, tokens: Sequence[int] | None) -> start.Note:
    """Copy a head's weights into ``model`` and return what was taken.

    Args:
        model: speculators' EAGLE-3 model with the target's weights and the run's vocabulary maps.
        head: folder of the head's safetensors.
        tokens: its draft vocabulary by draft id; None for the target's whole vocabulary.

    Raises:
        UnfitError: when its first matrix or its layers are not those of ``model``.
    """
    ours: dict[str, torch.Tensor] = model.state_dict()
    taken: set[str] = set()
    wrong: dict[str, str] = {}
    with torch.no_grad():
        for name, tensor in _tensors(head):
            place = ours.get(name)
            if place is None or name.startswith(_OWN):
                continue
            if name == _OUTPUT:
                _move_rows(place, tensor, ours_by_token(model), tokens)
            elif place.shape != tensor.shape:
                wrong[name] = f"{list(tensor.shape)} instead of {list(place.shape)}"
                continue
            else:
                place.copy_(tensor)
            taken.add(name)
    left = sorted(name for name, one in model.named_parameters() if one.requires_grad and name not in taken)
    if lacking := [name for name in left if name.startswith(_NEEDED)]:
        first = lacking[0]
        raise UnfitError(f"tensor {first} is {wrong.get(first, 'missing')}")
    return start.Note(taken=len(taken), left=left, whole=tokens is None and not model.use_draft_vocab)


def ours_by_token(model: Any) -> Mapping[int, int]:
    """Return the draft id of each target token that is in the draft vocabulary of ``model``."""
    if not model.use_draft_vocab:
        return {token: token for token in range(model.lm_head.weight.shape[0])}
    offsets: list[int] = model.d2t.tolist()
    return {index + offset: index for index, offset in enumerate(offsets)}


def _move_rows(place: torch.Tensor, rows: torch.Tensor, ours: Mapping[int, int], tokens: Sequence[int] | None) -> None:
    """Give every token that both vocabularies have the head's row; the others keep the target's own."""
    theirs = range(len(rows)) if tokens is None else tokens
    both = [(index, ours[token]) for index, token in enumerate(theirs) if token in ours and index < len(rows)]
    if not both or rows.shape[1:] != place.shape[1:]:
        raise UnfitError(f"tensor {_OUTPUT} is {list(rows.shape)}, of which no row fits {list(place.shape)}")
    source, target = zip(*both, strict=True)
    place[list(target)] = rows[list(source)].to(place.dtype)


def _tensors(head: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a head's tensors under the trainer's names, one at a time: embeddings alone may take gigabytes."""
    for file in target_files.weight_files(head):
        with safe_open(file.path, framework="pt") as opened:
            handle: Any = opened
            for name in sorted(file.tensors):
                yield (
                    name.replace(*_ORIGINAL_LAYER, 1) if name.startswith(_ORIGINAL_LAYER[0]) else name,
                    (handle.get_tensor(name)),
                )
