"""The table of what engine versions can do: sources for each row, and no claim about what nobody looked at."""

import pytest

from paceline.checkpoints import support
from paceline.checkpoints.support import Support

TABLE = support.vllm()


def test_every_row_names_a_source_that_is_explained() -> None:
    """Whoever doubts a row can look it up."""
    rows = [
        *TABLE.mtp,
        *TABLE.allow_lists,
        *TABLE.gaps,
        TABLE.interface,
        *TABLE.heads.values(),
        *TABLE.methods.values(),
    ]
    named = {row.source for row in rows} | set(TABLE.unregistered_heads.values())
    assert named <= set(TABLE.sources)


def test_lists_follow_one_another_and_only_grow() -> None:
    """A gap or an overlap between two versions would be a claim by accident."""
    for earlier, later in zip(TABLE.allow_lists, TABLE.allow_lists[1:], strict=False):
        assert earlier.before == later.since
        assert set(earlier.parts) < set(later.parts)


def test_families_do_not_overlap() -> None:
    """A model type is of one family."""
    types = [one for family in TABLE.mtp for one in family.model_types]
    assert len(types) == len(set(types))


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("vllm==0.18.0", "vllm", (0, 18, 0)),
        ("vLLM==v0.32.0+cpu", "vllm", (0, 32, 0)),
        ("vllm==0.18.0rc1", "vllm", (0, 18, 0)),
        ("sglang==0.5.23", "sglang", (0, 5, 23)),
        ("vllm", "vllm", None),
    ],
)
def test_engine_is_written_like_a_requirement(text: str, name: str, version: tuple[int, ...] | None) -> None:
    """What follows the numbers of a version is left out."""
    found = support.parse_engine(text)
    assert (found.name, found.version) == (name, version)


@pytest.mark.parametrize(
    "text", ["", "vllm=0.18", "vllm==", "vllm==x", "==0.18", "vllm==0.18.0 ; rm", "vllm==" + "9" * 400]
)
def test_other_words_are_refused(text: str) -> None:
    """With how to write it."""
    with pytest.raises(ValueError, match="write it like"):
        support.parse_engine(text)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.20.2", Support.NO), ("0.24.0", Support.UNKNOWN), ("0.32.0", Support.NO), ("0.40.0", Support.UNKNOWN)],
)
def test_between_and_beyond_what_was_looked_at_nothing_is_claimed(version: str, expected: Support) -> None:
    """A model that was on no list may be supported by then."""
    engine = support.parse_engine(f"vllm=={version}")
    found = support.takes_eagle3(engine, text_model_type="glm4_moe", architectures=["Glm4MoeForCausalLM"])
    assert found is expected


def test_class_that_lacked_the_interface_is_not_promised() -> None:
    """Qwen3-Next passed the list, and the engine ended later."""
    asked = {"text_model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"]}
    assert support.takes_eagle3(support.parse_engine("vllm==0.18.0"), **asked) is Support.UNKNOWN
    assert support.takes_eagle3(support.parse_engine("vllm==0.32.0"), **asked) is Support.YES
