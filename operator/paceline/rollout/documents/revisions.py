"""Serving revisions: resolved inputs, their digest, and the pod template that was rendered for them once.

A digest is taken over what is *not* a default, so that a new field with a default changes no digest. For the same
reason a default, once released, never changes its value. A template is rendered when its ControllerRevision is made and
read from there ever after: a new operator version restarts nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.api import names
from paceline.api.base import ApiModel, Digest
from paceline.api.engine import EngineSpec
from paceline.api.sources import ModelSource
from paceline.api.speculation import Method, NgramSpec, ScheduleStep, SuffixSpec
from paceline.planning import kinds, plan

PART = "revision"


class TargetInput(ModelSource):
    """The target, with the digest that Inspect read."""

    digest: Digest


class DraftInput(ModelSource):
    """The head, with the digest of its manifest where that is known."""

    manifest_digest: Digest | None = None


class Inputs(ApiModel):
    """All that decides how a revision answers and how fast."""

    target: TargetInput
    engine: EngineSpec
    engine_version: str
    method: Method
    num_speculative_tokens: int
    draft: DraftInput | None = None
    ngram: NgramSpec | None = None
    suffix: SuffixSpec | None = None
    schedule: list[ScheduleStep] | None = None
    """Ascending."""
    draft_tensor_parallel_size: int | None = None

    @property
    def digest(self) -> str:
        """The revision's identity."""
        return names.digest(self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True))

    @property
    def speculates(self) -> bool:
        """Whether anything is drafted."""
        return self.method is not Method.NONE

    @property
    def title(self) -> str:
        """What is drafted, as in ``EAGLE3 k=3`` or, by load, ``EAGLE3 k=5,3,0``; ``None`` without a draft."""
        if not self.speculates:
            return self.method.value
        steps = [step.tokens for step in self.schedule or ()] or [self.num_speculative_tokens]
        return f"{self.method.value} k={','.join(map(str, steps))}"[:64]


def control_of(inputs: Inputs) -> Inputs:
    """Return the same server without speculation."""
    return Inputs(
        target=inputs.target,
        engine=inputs.engine,
        engine_version=inputs.engine_version,
        method=Method.NONE,
        num_speculative_tokens=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The training job that a head came from, so that the job may be deleted without taking the head along."""

    training_job: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One ControllerRevision, read."""

    name: str
    uid: str
    number: int
    digest: str
    inputs: Inputs
    template: Mapping[str, Any]
    head: Head | None

    @property
    def short(self) -> str:
        """The eight characters that stand for it."""
        return names.short(self.digest)


def name(owner: str, digest: str) -> str:
    """Return the name of a revision's ControllerRevision."""
    return names.child(owner, PART, digest)


def read(manifest: plan.Manifest) -> Revision:
    """Return the revision in a ControllerRevision.

    Raises:
        ValueError: when it is none of ours, or its data was made by something else.
    """
    data = manifest["data"]
    head = data.get("head")
    meta = plan.metadata(manifest)
    return Revision(
        name=meta["name"],
        uid=meta["uid"],
        number=int(manifest.get("revision", 0)),
        digest=data["digest"],
        inputs=Inputs.model_validate(data["inputs"]),
        template=data["template"],
        head=Head(training_job=head["trainingJob"], uid=head["uid"]) if head else None,
    )


def manifest(
    *, owner: plan.Manifest, labels: Mapping[str, str], inputs: Inputs, head: Head | None, template: Mapping[str, Any],
    number: int,
) -> dict[str, Any]:  # fmt: skip
    """Return the ControllerRevision that keeps ``inputs`` and the template rendered for them."""
    meta = plan.metadata(owner)
    data: dict[str, Any] = {"digest": inputs.digest, "inputs": inputs.wire(), "template": dict(template)}
    if head is not None:
        data["head"] = {"trainingJob": head.training_job, "uid": head.uid}
    return {
        "apiVersion": kinds.CONTROLLER_REVISION.api_version,
        "kind": kinds.CONTROLLER_REVISION.kind,
        "metadata": {
            "name": name(meta["name"], inputs.digest),
            "namespace": meta["namespace"],
            "labels": {**labels, names.LABEL_PART: PART, names.LABEL_REVISION: names.short(inputs.digest)},
            "ownerReferences": [plan.owner_reference(owner)],
        },
        "revision": number,
        "data": data,
    }


def superfluous(revisions: Iterable[Revision], *, needed: frozenset[str], limit: int) -> Sequence[Revision]:
    """Return what may go: all beyond the newest ``limit`` that nothing needs."""
    spare = sorted((one for one in revisions if one.digest not in needed), key=lambda one: -one.number)
    return spare[limit:]
