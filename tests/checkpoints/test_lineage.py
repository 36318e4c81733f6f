"""Whether a head was made for a target: tokenizers decide, then names; equal shapes prove nothing."""

from typing import Any

import pytest

from checkpoints.builders import KIMI, codes, config, read
from paceline.api.checkpoint import HeadCheckpoint, TargetCheckpoint
from paceline.checkpoints import decision, fit, inspection, lineage
from paceline.checkpoints import head as heads

SAME, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
K2_HEAD = "heads/specforge--kimi-k2-eagle3"


def target(name: str = KIMI, *, tokenizer: str | None = SAME, **fields: Any) -> TargetCheckpoint:
    """Return a target whose tokenizer was read."""
    return read(name).model_copy(update={"tokenizer_fingerprint": tokenizer, **fields})


def head(name: str = K2_HEAD, *, tokenizer: str | None = None, **fields: Any) -> HeadCheckpoint:
    """Return a head, and what its manifest says of its target."""
    origin = heads.Origin(tokenizer_fingerprint=tokenizer)
    return heads.read(config(name), origin=origin).model_copy(update=fields)


def test_siblings_head_with_equal_tokens_may_be_tried() -> None:
    """K2's head on K2.5, both of 163,840 tokens: a measured candidate, and a good start for training."""
    made_for_k2 = head(tokenizer=SAME, trained_for=OTHER)
    (told,) = lineage.check(made_for_k2, target(digest=SAME))
    assert (told.code, told.severity) == ("SiblingHead", "warning")
    found = inspection.inspect(target(digest=SAME), fit.Serving(), head=made_for_k2)
    assert found.is_valid
    assert found.decision.choice is decision.Choice.WARM_START


def test_head_of_another_tokenizer_is_refused_and_it_is_said_that_nothing_is_remapped() -> None:
    """Equal sizes do not help: the same id stands for another text."""
    (told,) = lineage.check(head(tokenizer=OTHER), target())
    assert (told.code, told.severity) == ("HeadTokenizerMismatch", "error")
    assert "It is refused, since its draft vocabulary cannot be remapped" in told.message


def test_head_that_says_nothing_is_doubted() -> None:
    """Without a manifest, a verifier or a tokenizer only the measurement can tell."""
    assert codes(lineage.check(head(), target()), "warning") == {"HeadOriginUnknown"}
    assert lineage.check(head(tokenizer=SAME), target()) == []


@pytest.mark.parametrize(
    ("fields", "code", "severity"),
    [
        ({"verifier_architectures": ["Qwen3ForCausalLM"]}, "HeadTargetMismatch", "error"),
        ({"target_model_type": "qwen3"}, "HeadTargetMismatch", "error"),
        ({"model_type": "phi3"}, "HeadTargetMismatch", "error"),
        ({"verifier": "moonshotai/Kimi-K2-Instruct"}, "HeadOtherVerifier", "warning"),
    ],
)
def test_head_that_names_another_target_is_told(fields: dict[str, Any], code: str, severity: str) -> None:
    """Another architecture or family is refused; another name alone may be a fine-tune."""
    (told,) = lineage.check(head(**fields), target(), target_name="moonshotai/Kimi-K2.5")
    assert (told.code, told.severity) == (code, severity)
    (sibling,) = lineage.check(head(tokenizer=SAME, **fields), target(), target_name="moonshotai/Kimi-K2.5")
    assert sibling.code == "SiblingHead"


@pytest.mark.parametrize(
    ("verifier", "target_name"),
    [
        ("moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2.5"),
        ("moonshotai/Kimi-K2.5", "mirror/kimi-k2.5"),
        ("moonshotai/Kimi-K2.5", "moonshotai--Kimi-K2.5"),
    ],
)
def test_head_that_names_this_target_is_believed(verifier: str, target_name: str) -> None:
    """Whoever mirrors it, and whatever a cache makes of the name."""
    assert lineage.check(head(verifier=verifier), target(tokenizer=None), target_name=target_name) == []


def test_path_is_no_name() -> None:
    """A head trained here names the volume on which its target lay."""
    doubts = lineage.check(head(verifier="/mnt/paceline/models/kimi"), target(), target_name="moonshotai/Kimi-K2.5")
    assert codes(doubts, "warning") == {"HeadOriginUnknown"}


def test_another_name_with_layers_of_another_depth_is_another_model() -> None:
    """A 20B's head on the 120B: same width, same vocabulary, same tokenizer's name, other depth."""
    made = head("heads/specforge--gpt-oss-20B-eagle3", verifier="openai/gpt-oss-20b")
    serving = fit.Serving(target_name="openai/gpt-oss-120b")
    assert codes(fit.check_head(read("openai--gpt-oss-120b"), made, serving)) == {"HeadOtherVerifier"}


def test_equal_digest_needs_no_other_word() -> None:
    """The manifest of a head published here names the very target."""
    assert lineage.check(head(trained_for=SAME), target(tokenizer=None, digest=SAME)) == []
