"""What a spec comes down to."""

import pytest

from paceline.api import stages
from paceline.api.conditions import RolloutReason
from paceline.api.speculativedeployment import SpeculativeDeploymentSpec
from paceline.rollout.documents import revisions
from paceline.rollout.resolving import headsource, inspection, resolve
from rollout import builders
from rollout.cluster import Cluster

MISFIT = "the head has a hidden size of 4096, the target of 576"


def resolved(spec: dict, *, training_job: dict | None = None, result: stages.InspectResult | None = None, known=None):
    """Return the resolution of a spec whose sources have been read."""
    parsed = SpeculativeDeploymentSpec.model_validate(spec)
    source = headsource.find(parsed, training_job, known or {})
    result = result or builders.inspected()
    return resolve.resolve(parsed, source, inspection.Inspection(result=result, target=result), known or {})


def revision(inputs: revisions.Inputs, head: revisions.Head | None = None) -> dict[str, revisions.Revision]:
    """Return one known revision."""
    made = revisions.Revision(name="r", uid="u", number=1, digest=inputs.digest, inputs=inputs, template={}, head=head)
    return {made.digest: made}


def test_draft_becomes_an_input() -> None:
    """A head that fits is desired, and its baseline is the same without it."""
    found = resolved(builders.spec())
    assert found.desired is not None
    assert found.desired.draft is not None
    assert found.desired.draft.uri == "pvc://models/head"
    assert found.baseline == revisions.control_of(found.desired)


def test_published_head_is_resolved_with_its_digest() -> None:
    """A finished training job gives URI and manifest digest."""
    found = resolved(builders.spec(speculation=builders.from_job()), training_job=builders.training_job())
    assert found.desired is not None
    assert found.desired.draft == revisions.DraftInput(
        uri="pvc://models/trained", manifest_digest=builders.MANIFEST_DIGEST
    )
    assert found.head == revisions.Head(training_job="train", uid="uid-of-train")


@pytest.mark.parametrize(
    ("training_job", "said"),
    [
        (builders.training_job(published=False), "has not published a head yet"),
        (builders.training_job(published=False, failed="OOMKilled"), "failed (OOMKilled)"),
    ],
    ids=["under way", "failed"],
)
def test_missing_head_is_awaited(training_job: dict, said: str) -> None:
    """Until there is a head there is only a baseline."""
    found = resolved(builders.spec(speculation=builders.from_job()), training_job=training_job)
    assert found.desired is None
    assert found.baseline is not None
    assert said in found.awaiting


def test_missing_job_is_told() -> None:
    """A name that leads nowhere is the user's to change."""
    found = resolved(builders.spec(speculation=builders.from_job()))
    assert (found.accepted, found.reason.value) == (False, "TrainingJobNotFound")


def test_deleted_job_takes_no_head_along() -> None:
    """A reference resolves once: the revision keeps what the job had published."""
    spec = builders.spec(speculation=builders.from_job())
    first = resolved(spec, training_job=builders.training_job())
    assert first.desired is not None
    again = resolved(spec, known=revision(first.desired, first.head))
    assert again.desired == first.desired


def test_head_of_another_target_is_a_mismatch() -> None:
    """A head that does not fit is told, and never desired."""
    found = resolved(builders.spec(), result=builders.inspected(problems=[MISFIT]))
    assert (found.accepted, found.reason.value, found.desired) == (False, "HeadMismatch", None)
    assert MISFIT in found.message
    assert not found.stale


def test_head_of_the_target_before_is_stale() -> None:
    """A head that served an earlier target is out of date: the remedy is training, not another URI."""
    first = resolved(builders.spec())
    assert first.desired is not None
    new = builders.inspected(builders.sha("new"), problems=[MISFIT])
    found = resolved(builders.spec(), result=new, known=revision(first.desired))
    assert found.desired is None
    assert "Train a new head" in found.stale


def test_job_that_read_another_target_is_stale() -> None:
    """Even without a complaint by Inspect, digests that differ are enough."""
    trained = builders.training_job(target=builders.sha("old"))
    found = resolved(builders.spec(speculation=builders.from_job()), training_job=trained)
    assert found.desired is None
    assert "DraftTrainingJob train" in found.stale


def test_bad_head_at_first_ends_serving_without_it() -> None:
    """A first deploy with a head that does not fit is not stuck."""
    cluster = Cluster()
    cluster.inspect = lambda _: stages.StageReport(result=builders.inspected(problems=[MISFIT]))
    cluster.settle()
    assert cluster.serving() == "None"
    assert cluster.condition("Accepted")["reason"] == "HeadMismatch"


def test_changed_target_never_serves_the_old_head() -> None:
    """The new target serves without a draft, and it is said which head is stale."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.settle()
    problems = [MISFIT]
    cluster.inspect = lambda _: stages.StageReport(result=builders.inspected(builders.sha("new"), problems=problems))
    cluster.edit(target={"uri": "pvc://models/new"})
    cluster.settle()
    assert cluster.serving() == "None"
    assert cluster.condition("Speculating")["reason"] == "HeadStale"
    assert cluster.resource["status"]["targetDigest"] == builders.sha("new")


DRAFT = {"uri": "pvc://models/draft"}


@pytest.mark.parametrize(
    "speculation",
    [
        {"method": "Ngram", "ngram": {"minTokens": 3}},
        {"method": "NgramGPU"},
        {"method": "Suffix", "suffix": {"maxTreeDepth": 32}, "numSpeculativeTokens": 16},
        {"method": "EAGLE", "draft": DRAFT},
        {"method": "MTP"},
        {"method": "MTP", "draft": DRAFT},
        {"method": "Medusa", "draft": DRAFT},
        {"method": "DraftModel", "draft": DRAFT, "draftTensorParallelSize": 1},
        {"method": "DFlash", "draft": DRAFT},
        {"method": "DSpark"},
        {"method": "EAGLE3", "draft": DRAFT, "schedule": [{"upToConcurrency": 64, "tokens": 0}]},
    ],
    ids="-".join,
)
def test_every_method_is_a_revision_of_its_own(speculation: dict) -> None:
    """Each has a digest of its own, and all are measured against the same control."""
    found = resolved(builders.spec(speculation=speculation))
    plain = resolved(builders.spec(speculation=builders.none()))
    assert found.desired is not None
    assert plain.desired is not None
    assert found.desired.method == speculation["method"]
    assert found.desired.digest != plain.desired.digest
    assert revisions.control_of(found.desired).digest == plain.desired.digest == found.baseline.digest
    assert found.desired.digest != resolved(builders.spec()).desired.digest


def test_method_that_the_engine_lacks_is_refused_and_the_baseline_stays() -> None:
    """Nothing is started that could only crash; the reason says what to change."""
    engine = {"image": "vllm/vllm-openai:v0.13.0"}
    found = resolved(builders.spec(engine=engine, speculation={"method": "DraftModel", "draft": DRAFT}))
    assert (found.accepted, found.reason) == (False, RolloutReason.METHOD_UNSUPPORTED)
    assert "0.15.0 or newer" in found.message
    assert found.desired is None
    assert found.baseline is not None


def test_schedule_is_one_revision_in_whatever_order_it_is_written() -> None:
    """A list map has no order, so none may restart a server."""
    steps = [{"upToConcurrency": 8, "tokens": 3}, {"upToConcurrency": 64, "tokens": 1}]
    digests = {
        resolved(builders.spec(speculation={**builders.eagle3(), "schedule": order})).desired.digest
        for order in (steps, steps[::-1])
    }
    assert len(digests) == 1
