"""The draft vocabulary: the most frequent tokens of the target's answers, and the two maps between the vocabularies.

Made here rather than by the trainer, which caches them beside the data set without a rename: a kill in that moment
would leave half a file that every later attempt trips over.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.stages.failures import PermanentError


def count_tokens(records: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """Return how often each token is learnt, over records with ``input_ids`` and ``loss_mask``."""
    counts: Counter[int] = Counter()
    for record in records:
        counts.update(token for token, learnt in zip(record["input_ids"], record["loss_mask"], strict=True) if learnt)
    return dict(counts)


def choose(counts: Mapping[int, int], *, draft_size: int, target_size: int) -> list[int]:
    """Return ``draft_size`` target token ids, ascending: the most frequent, then the lowest unseen ones.

    Raises:
        PermanentError: when the draft vocabulary would be larger than the target's.
    """
    if draft_size > target_size:
        raise PermanentError(
            f"draft.vocabularySize {draft_size} exceeds the target's vocabulary of {target_size}; lower it"
        )
    chosen = sorted(counts, key=lambda token: (-counts[token], token))[:draft_size]
    known = set(chosen)
    unseen = (token for token in range(target_size) if token not in known)
    return sorted(chosen + [next(unseen) for _ in range(draft_size - len(chosen))])


def write_maps(chosen: Sequence[int], *, target_size: int, draft_to_target: Path, target_to_draft: Path) -> None:
    """Write ``d2t`` (int64 [draft]: what to *add* to a draft id) and ``t2d`` (bool [target]: is it in the draft)."""
    import numpy as np  # noqa: PLC0415 - comes with torch, which only the trainer image has

    ids = np.asarray(chosen, dtype=np.int64)
    mask = np.zeros(target_size, dtype=bool)
    mask[ids] = True
    np.save(draft_to_target, ids - np.arange(len(ids), dtype=np.int64))
    np.save(target_to_draft, mask)
