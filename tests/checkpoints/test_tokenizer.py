"""The fingerprint says which text each id stands for, whatever else differs, and runs nobody's code."""

import json
from typing import Any

from paceline.checkpoints import tokenizer

FAST: dict[str, Any] = {
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    "added_tokens": [{"id": 3, "content": "<s>", "lstrip": False}],
}


def of(**files: Any) -> str | None:
    """Return the fingerprint of files by name; dots are written as underscores, two for one."""
    named = {name.replace("__", "."): content for name, content in files.items()}
    raw = {
        name: content if isinstance(content, bytes) else json.dumps(content).encode() for name, content in named.items()
    }
    return tokenizer.fingerprint(raw.get)


def test_order_and_looks_do_not_matter() -> None:
    """Keys in another order, merges as pairs, other stripping, another template: the same ids."""
    vocab = {"ab": 2, "b": 1, "a": 0}
    other = {"added_tokens": [{"content": "<s>", "id": 3, "lstrip": True}]}
    other["model"] = {"merges": [["a", "b"]], "vocab": vocab, "type": "BPE", "dropout": None}
    assert of(tokenizer__json=FAST) == of(tokenizer__json=other, chat_template__jinja=b"{{ other }}")


def test_every_id_matters() -> None:
    """One token swapped, one merge or one special token more."""
    changed = [
        {**FAST, "model": {**FAST["model"], "vocab": {"a": 1, "b": 0, "ab": 2}}},
        {**FAST, "model": {**FAST["model"], "merges": ["a b", "b a"]}},
        {**FAST, "added_tokens": [*FAST["added_tokens"], {"id": 4, "content": "</s>"}]},
    ]
    assert len({of(tokenizer__json=one) for one in (FAST, *changed)}) == 4


def test_unigram_vocabulary_is_a_list() -> None:
    """Its order is its ids."""
    made = [
        {"model": {"type": "Unigram", "vocab": vocab}}
        for vocab in ([["a", -1.0], ["b", -2.0]], [["b", -2.0], ["a", -1.0]])
    ]
    assert of(tokenizer__json=made[0]) != of(tokenizer__json=made[1])


def test_tiktoken_with_code_of_its_own_is_read_by_its_ranks() -> None:
    """Kimi's: a ranks file, and special tokens by id in the configuration; the Python file is never opened."""
    ranks, special = b"YQ== 0\nYg== 1\n", {"added_tokens_decoder": {"2": {"content": "[BOS]"}}}
    one = of(tiktoken__model=ranks, tokenizer_config__json=special)
    assert one is not None
    with_template = {**special, "chat_template": "{{ other }}", "auto_map": {"AutoTokenizer": ["x.Y", None]}}
    assert of(tiktoken__model=ranks, tokenizer_config__json=with_template, x__py=b"raise SystemExit") == one
    assert of(tiktoken__model=ranks) != one
    assert of(tiktoken__model=b"Yg== 0\nYQ== 1\n", tokenizer_config__json=special) != one


def test_older_pairs_of_files_are_read_too() -> None:
    """``vocab.json`` with ``merges.txt``, and what was added."""
    one = of(vocab__json={"a": 0, "b": 1}, merges__txt=b"a b\n", added_tokens__json={"<s>": 2})
    assert one == of(vocab__json={"b": 1, "a": 0}, merges__txt=b"a b\n", added_tokens__json={"<s>": 2})
    assert one != of(vocab__json={"a": 0, "b": 1}, merges__txt=b"b a\n", added_tokens__json={"<s>": 2})


def test_no_tokenizer_has_no_fingerprint() -> None:
    """A configuration alone is none."""
    assert of(tokenizer_config__json={"model_max_length": 4096}) is None
