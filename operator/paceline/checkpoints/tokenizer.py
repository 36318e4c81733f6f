"""A fingerprint of which text each token id stands for, without running a tokenizer or a repository's code.

Two checkpoints with equal fingerprints give the same ids for the same text, so a head's vocabulary maps carry over.
Chat templates and padding are left out on purpose: siblings differ in them and share their tokens.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from paceline.api import names
from paceline.checkpoints import documents

FILES: Final = (
    "tokenizer.json",
    "tiktoken.model",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    "added_tokens.json",
)
"""What a fingerprint may need; a repository with a tokenizer of its own brings one of the first three as well."""

Read = Callable[[str], bytes | None]


def fingerprint(read: Read) -> str | None:
    """Return the digest of the mapping; None when there is no tokenizer.

    Args:
        read: gives a file's bytes by name, or None.

    Raises:
        UnreadableError: when a tokenizer file is damaged.
    """
    whole = read("tokenizer.json")
    if whole is not None:
        return names.digest(_of_fast(documents.parse(whole, name="tokenizer.json")))
    base = _base(read)
    if base is None:
        return None
    added = {**_added_tokens(read), **_decoder_tokens(read)}
    return names.digest({"base": base, "added": {str(key): added[key] for key in sorted(added)}})


def _base(read: Read) -> Any:
    """Return what identifies the tokens before special ones are added."""
    for name in ("tiktoken.model", "tokenizer.model"):
        raw = read(name)
        if raw is not None:
            return {name: hashlib.sha256(raw).hexdigest()}
    vocabulary, merges = read("vocab.json"), read("merges.txt")
    if vocabulary is None:
        return None
    tokens = documents.parse(vocabulary, name="vocab.json")
    return {"vocab": _pairs(tokens), "merges": hashlib.sha256(merges or b"").hexdigest()}


def _of_fast(document: documents.Json) -> Any:
    """Return what decides the ids in a ``tokenizer.json``: the model's vocabulary and merges, and added tokens."""
    model = document.get("model")
    model = model if isinstance(model, dict) else {}
    vocabulary = model.get("vocab")
    added = document.get("added_tokens")
    return {
        "type": model.get("type"),
        "vocab": _pairs(vocabulary) if isinstance(vocabulary, dict) else vocabulary,
        "merges": [
            " ".join(map(str, merge)) if isinstance(merge, list) else merge for merge in model.get("merges") or ()
        ]
        if isinstance(model.get("merges"), list)
        else None,
        "added": sorted(
            [[one.get("id"), one.get("content")] for one in added if isinstance(one, dict)], key=documents.quoted
        )
        if isinstance(added, list)
        else [],
    }


def _pairs(tokens: Mapping[str, Any]) -> list[list[Any]]:
    return [[key, tokens[key]] for key in sorted(tokens)]


def _added_tokens(read: Read) -> dict[str, Any]:
    """Return ids by text turned round: ``added_tokens.json`` says ``{"<s>": 1}``."""
    raw = read("added_tokens.json")
    tokens = documents.parse(raw, name="added_tokens.json") if raw is not None else {}
    return {str(value): key for key, value in tokens.items()}


def _decoder_tokens(read: Read) -> dict[str, Any]:
    """Return the special tokens that a ``tokenizer_config.json`` lists by id."""
    raw = read("tokenizer_config.json")
    config = documents.parse(raw, name="tokenizer_config.json") if raw is not None else {}
    decoder = config.get("added_tokens_decoder")
    if not isinstance(decoder, dict):
        return {}
    return {key: one.get("content") for key, one in decoder.items() if isinstance(one, dict)}
