"""Files from anywhere hold anything: the answer is a problem with a name, or that the file is unreadable."""

import json
import os
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.builders import DATA, LLAMA, ask, codes, config, path
from paceline.checkpoints import backbone as backbones
from paceline.checkpoints import documents, fit, inspection, tokenizer, weights
from paceline.checkpoints import head as heads
from paceline.checkpoints import target as targets

CONFIGS = sorted(str(file.relative_to(DATA)).removesuffix(".json") for file in DATA.rglob("*.json"))
KEYS = [
    *backbones.LAYER_KEYS,
    *backbones.HIDDEN_KEYS,
    *backbones.HEAD_KEYS,
    *backbones.KV_HEAD_KEYS,
    *backbones.VOCABULARY_KEYS,
    *backbones.WINDOW_KEYS,
    *backbones.EXPERT_KEYS,
    *backbones.OTHER_HEAD_KEYS,
    *["text_config", "llm_config", "thinker_config", "quantization_config", "config_groups", "weights", "num_bits"],
    *["architectures", "model_type", "num_nextn_predict_layers", "mtp_config", "use_mtp", "kv_lora_rank"],
    *["speculators_model_type", "speculators_config", "verifier", "proposal_methods", "transformer_layer_config"],
    *["eagle_config", "eagle_aux_hidden_state_layer_ids", "use_aux_hidden_state", "draft_vocab_size", "auto_map"],
    *["target_hidden_size", "num_target_layers", "target_model_type", "medusa_num_heads", "is_encoder_decoder"],
]
WORDS = ["llama", "kimi_k2", "deepseek_v3", "medusa", "mlp_speculator", "eagle3", "LlamaForCausalLMEagle3", "MTP"]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(1, 200_000),
    st.sampled_from([10**30, -(10**400), 2**63]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(WORDS),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=6,
)
documents_of_anything = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), values, max_size=8)
tensor_names = st.lists(
    st.lists(
        st.sampled_from(
            ["mtp", "layers", "0", "61", "99999999", "eh_proj", "enorm", "fc", "model", "weight", "d2t", ""]
        ),
        max_size=5,
    ).map(".".join),
    max_size=8,
)


def judged(config_of_target: dict[str, Any], config_of_head: dict[str, Any], names: list[str]) -> inspection.Inspection:
    """Return the judgement of any two configurations and weights."""
    found = weights.Weights(names=frozenset(names), shapes=dict.fromkeys(names, (1,)))
    target = targets.read(config_of_target, weights=found)
    head = heads.read(config_of_head, weights=found)
    serving = fit.Serving(tensor_parallel_size=8, args=("--max-model-len", "x", "--kv-cache-dtype"))
    return inspection.inspect(target, serving, head=head)


def refusal(read: Callable[[], object], *, else_: str) -> str:
    """Return why something is unreadable, or ``else_`` when it is not."""
    try:
        read()
    except documents.UnreadableError as error:
        return str(error)
    return else_


@given(target=documents_of_anything, head=documents_of_anything, names=tensor_names)
def test_any_configuration_gets_an_answer(target: dict[str, Any], head: dict[str, Any], names: list[str]) -> None:
    """Problems come with codes and sentences, and the facts keep within their bounds."""
    found = judged(target, head, names)
    assert found.is_valid or codes(found.problems)
    assert all(one.message and one.message.isprintable() for one in found.problems)
    assert len(found.target.model_dump_json()) < 64 * 1024


@given(data=st.data(), name=st.sampled_from(CONFIGS))
def test_any_change_of_a_real_configuration_gets_an_answer(data: st.DataObject, name: str) -> None:
    """A value replaced anywhere, or a key removed."""
    document = config(name)
    if not isinstance(document, dict) or not document:
        return
    place = document
    inner = [value for value in document.values() if isinstance(value, dict) and value]
    if inner and data.draw(st.booleans()):
        place = data.draw(st.sampled_from(inner))
    key = data.draw(st.sampled_from(sorted(place)))
    if data.draw(st.booleans()):
        del place[key]
    else:
        place[key] = data.draw(values)
    judged(document, document, [])


@given(raw=st.binary(max_size=200) | st.text(string.printable, max_size=60).map(str.encode))
def test_any_bytes_are_an_object_or_unreadable(raw: bytes) -> None:
    """Nothing else comes out."""
    assert "config.json" in refusal(lambda: documents.parse(raw, name="config.json"), else_="config.json")


@given(document=documents_of_anything)
def test_any_index_gives_weights_or_a_problem(document: dict[str, Any]) -> None:
    """Without a map there are no names, and that is said."""
    for shape in (document, {"weight_map": document, "metadata": {"total_size": next(iter(document), None)}}):
        found = weights.from_index(shape, name="model.safetensors.index.json")
        assert found.names or codes(list(found.problems)) == {"InvalidIndex"}


@given(header=st.binary(max_size=64), size=st.integers(0, 10**6))
def test_any_header_gives_weights_or_is_unreadable(header: bytes, size: int) -> None:
    """Also a length that lies."""
    for read in (
        lambda: weights.header_length(header, name="a.safetensors", size=size),
        lambda: weights.from_header(header, name="a.safetensors", size=size),
    ):
        assert "a.safetensors" in refusal(read, else_="a.safetensors")


@given(document=documents_of_anything, name=st.sampled_from(tokenizer.FILES))
def test_any_tokenizer_file_gives_a_fingerprint_or_is_unreadable(document: dict[str, Any], name: str) -> None:
    """Or nothing, where the one file there is none that counts."""
    shapes: list[Any] = [document, {"model": document, "added_tokens": [document]}, {"added_tokens_decoder": document}]
    for shape in shapes:
        raw = json.dumps(shape).encode()
        found = tokenizer.fingerprint(lambda wanted, raw=raw: raw if wanted == name else None)
        assert found is None or found.startswith("sha256:")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", 2),
        (b"{", 2),
        (b'{"num_hidden_layers": 3', 2),
        (b"[]", 2),
        (b"null", 2),
        (b"7", 2),
        (b'"text"', 2),
        (b"\xff\xfe\x00", 2),
        (b"<html>502</html>", 2),
        (b"[" * 100_000, 2),
        (b'{"a":' * 50_000, 2),
        (b'{"num_hidden_layers": ' + b"9" * 5000 + b"}", 2),
        (b"{}", 3),
        (b'{"text_config": null}', 3),
        (b'{"text_config": []}', 3),
        (b'{"text_config": {}}', 3),
        (b'{"num_hidden_layers": "61"}', 3),
        (b'{"num_hidden_layers": 0}', 3),
        (b'{"num_hidden_layers": 1e400}', 3),
        (b'{"num_hidden_layers": NaN}', 3),
        (b'{"num_hidden_layers": 61.0, "hidden_size": 8, "vocab_size": 9}', 3),
        (b'{"num_hidden_layers": 10000000000000000000000}', 3),
        (b'{"model_type": "bert\\ud800", "hidden_size": 4}', 3),
        (b'\xef\xbb\xbf{"num_hidden_layers": 4, "hidden_size": 8, "vocab_size": 9}', 0),
        (b'{"num_hidden_layers": 4, "hidden_size": 8, "vocab_size": 9, "time_step_limit": [0.0, Infinity]}', 0),
    ],
)
def test_file_is_unreadable_invalid_or_fine(tmp_path: Path, content: bytes, code: int) -> None:
    """2 for what is no configuration, 3 for one that is none of a target, 0 for oddities of real ones."""
    file = tmp_path / "config.json"
    file.write_bytes(content)
    assert ask(str(file))[0] == code
    assert ask(str(tmp_path))[0] == code
    head_code = ask(path(LLAMA), "--head", str(file))[0]
    assert head_code == (2 if code == 2 else 3)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", 2),
        (b"[]", 2),
        (b"{}", 3),
        (b'{"weight_map": null}', 3),
        (b'{"weight_map": []}', 3),
        (b'{"weight_map": {"a": 7}}', 3),
        (b'{"weight_map": {"a": "../b"}}', 3),
        (b'{"weight_map": {"a": "b.safetensors"}, "metadata": []}', 0),
        (b'{"weight_map": {"a": "b.safetensors"}, "metadata": {"total_size": 1e99}}', 0),
    ],
)
def test_index_is_unreadable_invalid_or_fine(tmp_path: Path, content: bytes, code: int) -> None:
    """An index that points out of its folder is none."""
    file = tmp_path / "model.safetensors.index.json"
    file.write_bytes(content)
    assert ask(path(LLAMA), "--index", str(file))[0] == code
    assert ask(path(LLAMA), "--index", str(tmp_path / "absent"))[0] == 2


def test_place_that_is_no_file_is_unreadable(tmp_path: Path) -> None:
    """A missing one, an empty folder, a link in a circle, a pipe that would block, a folder of the name."""
    assert ask(str(tmp_path / "absent"))[0] == 2
    assert ask(str(tmp_path))[0] == 2
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    assert ask(str(circle))[0] == 2
    pipe = tmp_path / "pipe"
    pipe.mkdir()
    os.mkfifo(pipe / "config.json")
    assert ask(str(pipe))[0] == 2
    nested = tmp_path / "nested"
    (nested / "config.json").mkdir(parents=True)
    assert ask(str(nested))[0] == 2
    assert ask(str(tmp_path / ("x" * 300)))[0] == 2
    assert ask("a\0b")[0] == 2
