"""A revision's identity: what changes it, and what must not."""

import pytest

from paceline.api.engine import EngineSpec
from paceline.api.speculation import Method
from paceline.rollout.documents import revisions
from rollout import builders

TARGET = revisions.TargetInput(uri="pvc://models/target", digest=builders.TARGET_DIGEST)
DRAFT = revisions.DraftInput(uri="pvc://models/head", manifest_digest=builders.MANIFEST_DIGEST)
INPUTS = revisions.Inputs(
    target=TARGET,
    engine=EngineSpec(image="vllm/vllm-openai:v0.33.0"),
    engine_version="0.33.0",
    method=Method.EAGLE3,
    num_speculative_tokens=3,
    draft=DRAFT,
)


@pytest.mark.parametrize(
    "change",
    [
        {"num_speculative_tokens": 5},
        {"method": Method.NGRAM},
        {"target": TARGET.model_copy(update={"digest": builders.sha("new")})},
        {"draft": DRAFT.model_copy(update={"manifest_digest": builders.sha("new")})},
        {"engine": EngineSpec(image="vllm/vllm-openai:v0.34.0")},
        {"engine": EngineSpec(image="vllm/vllm-openai:v0.33.0", args=["--max-model-len=4096"])},
        {"engine": EngineSpec(image="vllm/vllm-openai:v0.33.0", tensor_parallel_size=8)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_decides_speed_or_answers_changes_the_digest(change: dict) -> None:
    """Two servers that may differ are two revisions."""
    assert INPUTS.model_copy(update=change).digest != INPUTS.digest


def test_released_digest_never_changes() -> None:
    """A new version of the operator must find its revisions again: this value is for ever."""
    assert INPUTS.digest == "sha256:a357e692945c504e4c5c6010025339b9c0ceade5b548fd3a3da9635aee922e15"


def test_defaults_written_out_change_nothing() -> None:
    """The API server writes defaults into what it stores."""
    engine = EngineSpec.model_validate(EngineSpec(image="vllm/vllm-openai:v0.33.0").model_dump(by_alias=True))
    assert INPUTS.model_copy(update={"engine": engine}).digest == INPUTS.digest


def test_control_is_the_same_server_without_a_draft() -> None:
    """All but speculation is kept."""
    control = revisions.control_of(INPUTS)
    assert (control.engine, control.target) == (INPUTS.engine, INPUTS.target)
    assert not control.speculates
    assert control.title == "None"


def test_revision_survives_the_cluster() -> None:
    """What is read has the digest that was written."""
    head = revisions.Head(training_job="train", uid="uid")
    made = revisions.manifest(
        owner=builders.deployment(), labels={}, inputs=INPUTS, head=head, template={"spec": {}}, number=3
    )
    made["metadata"]["uid"] = "uid"
    read = revisions.read(made)
    assert (read.digest, read.inputs, read.head, read.number) == (INPUTS.digest, INPUTS, head, 3)


def test_newest_spare_revisions_are_kept() -> None:
    """Beyond the limit only what is needed stays."""
    made = [
        revisions.Revision(name=f"r{n}", uid="u", number=n, digest=f"d{n}", inputs=INPUTS, template={}, head=None)
        for n in range(1, 6)
    ]
    spare = revisions.superfluous(made, needed=frozenset({"d1"}), limit=2)
    assert [one.number for one in spare] == [3, 2]
