"""Whether a head was made for this target: shapes alone never tell.

Phi-4-mini and MiniMax-M2 have one hidden size and one vocabulary size, and nothing else in common: an engine loads the
one's head for the other and accepts nothing. What tells is the tokenizer, and what the head's files name as its target.
"""

import re
from collections.abc import Iterator
from typing import Final

from paceline.api.checkpoint import HeadCheckpoint, HeadType, Problem, TargetCheckpoint
from paceline.checkpoints import problems

# A head is a Llama decoder whatever its target is; these types name the decoder, not the target.
_DECODER_TYPES: Final = frozenset({"", "llama", "eagle", "eagle3", "speculators"})
_TAGGED: Final = frozenset({HeadType.EAGLE3, HeadType.EAGLE1})


def check(head: HeadCheckpoint, target: TargetCheckpoint, *, target_name: str = "") -> list[Problem]:
    """Return doubts about a head's origin.

    Equal tokenizers make a head for a sibling something to try: measured before it serves, and good to start training
    from. Without them, a head that names another target is refused.

    Args:
        head: the head.
        target: what it is to serve.
        target_name: the target's ``organisation/name``, where it has one.
    """
    ours, theirs = target.tokenizer_fingerprint, head.tokenizer_fingerprint
    if ours and theirs and ours != theirs:
        return [
            problems.error(
                "HeadTokenizerMismatch",
                f"the head was trained for another tokenizer ({theirs[:19]}, the target's is {ours[:19]}): its tokens "
                "stand for other text. It is refused, since its draft vocabulary cannot be remapped; train a head for "
                "this target",
            )
        ]
    shared = bool(ours and theirs)
    other = [*_other_target(head, target), *_other_name(head, target_name)]
    if other:
        return [_sibling(other[0])] if shared else other[:1]
    if shared or _names_this_target(head, target, target_name):
        return []
    return [
        problems.warning(
            "HeadOriginUnknown",
            "nothing in the head's files says which target or tokenizer it was trained for, and equal sizes do not "
            "tell siblings apart; serve it only as a measured candidate",
        )
    ]


def _sibling(said: Problem) -> Problem:
    return problems.warning(
        "SiblingHead",
        f"{said.message.partition('; ')[0]}; the tokenizers are equal, so it may be tried as a measured candidate and "
        "makes a good start for training",
    )


def _other_target(head: HeadCheckpoint, target: TargetCheckpoint) -> Iterator[Problem]:
    """Yield what in the head's files names another target."""
    ours = {*target.architectures, *target.text_architectures}
    theirs = set(head.verifier_architectures)
    if ours and theirs and not ours & theirs:
        yield _mismatch(f"a target of architecture {problems.listed(sorted(theirs))}", sorted(ours))
    types = {target.model_type, target.text_model_type} - {""}
    if head.target_model_type and types and _base(head.target_model_type) not in {_base(one) for one in types}:
        yield _mismatch(f"a target of model_type {head.target_model_type}", sorted(types))
    if target.digest and head.trained_for and head.trained_for != target.digest:
        yield _mismatch(f"target {head.trained_for[:19]}", [target.digest[:19]])
    is_tagged = head.head_type in _TAGGED and head.model_type not in _DECODER_TYPES
    if is_tagged and types and _family(head.model_type) not in {_family(one) for one in types}:
        yield _mismatch(f"a target of the family {head.model_type}", sorted(types))


def _mismatch(made_for: str, have: list[str]) -> Problem:
    return problems.error(
        "HeadTargetMismatch",
        f"the head was made for {made_for} and this target is {problems.listed(have)}; "
        "use a head that was trained for this target",
    )


def _other_name(head: HeadCheckpoint, target_name: str) -> Iterator[Problem]:
    """Yield a doubt where both sides have a public name and the two differ: a fine-tune, a sibling, or a mistake."""
    theirs, ours = _repository(head.verifier), _repository(target_name)
    if theirs and ours and theirs != ours:
        yield problems.warning(
            "HeadOtherVerifier",
            f"the head was made for {head.verifier} and the target is {target_name}; "
            "serve it only as a measured candidate, or train a head for this target",
        )


def _names_this_target(head: HeadCheckpoint, target: TargetCheckpoint, target_name: str) -> bool:
    if target.digest and head.trained_for == target.digest:
        return True
    if _repository(head.verifier) and _repository(head.verifier) == _repository(target_name):
        return True
    if set(head.verifier_architectures) & {*target.architectures, *target.text_architectures}:
        return not _repository(target_name) or not _repository(head.verifier)
    return head.target_layers is not None and head.target_layers == target.layers


def _repository(name: str) -> str:
    """Return the comparable part of ``organisation/name`` or ``organisation--name``; empty for a path."""
    if name.startswith(("/", ".", "~")) or name.count("/") > 1:
        return ""
    parts = re.split(r"/|--", name)
    return re.sub(r"[^a-z0-9.]", "", parts[-1].lower()) if len(parts) > 1 else ""


def _base(model_type: str) -> str:
    return model_type.removesuffix("_text")


def _family(model_type: str) -> str:
    """Return what siblings share: ``kimi`` of ``kimi_k2``, ``qwen`` of ``qwen3_moe``."""
    found = re.match(r"[a-z]+", model_type.lower())
    return found[0] if found else model_type
