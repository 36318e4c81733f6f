"""What a run must not forget when pods and Jobs are collected: one owned ConfigMap, written before the next step.

Status is a projection and may be lost; this is the memory it is rebuilt from. Each change is keyed by the pod or Job
that caused it, so that a crash between writing it and acting on it counts nothing twice.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

import pydantic

from paceline.api import names, stages
from paceline.api.base import ApiModel, Digest, Message, ShortText
from paceline.api.conditions import TrainingReason
from paceline.api.drafttrainingjob import Stage
from paceline.capacity import ledger
from paceline.planning import kinds, plan

KEY: Final = "record.json"
PART: Final = "results"
# More uids than retries a stage may have; what is older was charged long ago and is gone.
_REMEMBERED: Final = 32

Uids = Annotated[tuple[ShortText, ...], pydantic.Field(max_length=_REMEMBERED)]


class StageRecord(ApiModel):
    """What is remembered of one stage."""

    stage: Stage
    input_digest: Digest | None = None
    """Inspect only: what was inspected."""
    result: stages.AnyStageResult | None = None
    """None until the stage has succeeded."""
    started_at: ShortText | None = None
    finished_at: ShortText | None = None
    spent_s: int = 0
    """Seconds that pods which are over held a node."""
    attempts: int = 0
    """Pods of Jobs that are over."""
    losses: int = 0
    """Jobs that succeeded but whose result was lost with their pod."""
    charged: Uids = ()
    """Pods that are in ``spent_s``."""
    retired: Uids = ()
    """Jobs that are in ``attempts``."""


class Outcome(ApiModel):
    """How the run ended."""

    reason: TrainingReason
    message: Message
    at: ShortText
    stage: Stage | None = None
    """The stage that failed; None for success."""


class Record(ApiModel):
    """What is remembered of a run."""

    started_at: ShortText | None = None
    entries: tuple[StageRecord, ...] = ()
    outcome: Outcome | None = None
    """None while it runs."""

    def of(self, stage: Stage) -> StageRecord:
        """Return what is remembered of ``stage``; an empty record when that is nothing."""
        return next((one for one in self.entries if one.stage is stage), StageRecord(stage=stage))

    def with_stage(self, **changes: Any) -> "Record":
        """Return the record with fields of the stage named by ``stage`` replaced."""
        changed = self.of(changes["stage"]).model_copy(update=changes)
        others = [one for one in self.entries if one.stage is not changed.stage]
        order = list(Stage)
        return self.model_copy(
            update={"entries": tuple(sorted([*others, changed], key=lambda one: order.index(one.stage)))}
        )

    def without(self, stage: Stage) -> "Record":
        """Return the record with ``stage`` forgotten."""
        return self.model_copy(update={"entries": tuple(one for one in self.entries if one.stage is not stage)})

    @property
    def current(self) -> Stage | None:
        """The first stage without a result; None when all have one."""
        return next((stage for stage in Stage if self.of(stage).result is None), None)

    @property
    def inspection(self) -> stages.InspectResult | None:
        """What Inspect found."""
        result = self.of(Stage.INSPECT).result
        return result if isinstance(result, stages.InspectResult) else None

    @property
    def preparation(self) -> stages.PrepareResult | None:
        """What Prepare made."""
        result = self.of(Stage.PREPARE).result
        return result if isinstance(result, stages.PrepareResult) else None

    @property
    def training(self) -> stages.TrainResult | None:
        """What Train made."""
        result = self.of(Stage.TRAIN).result
        return result if isinstance(result, stages.TrainResult) else None

    @property
    def evaluation(self) -> stages.EvaluateResult | None:
        """What Evaluate measured."""
        result = self.of(Stage.EVALUATE).result
        return result if isinstance(result, stages.EvaluateResult) else None

    @property
    def publication(self) -> stages.PublishResult | None:
        """Where Publish put the head."""
        result = self.of(Stage.PUBLISH).result
        return result if isinstance(result, stages.PublishResult) else None


def remember(uids: tuple[str, ...], *more: str) -> tuple[str, ...]:
    """Return ``uids`` with ``more`` added, the oldest dropped beyond the bound."""
    return (*uids, *(one for one in more if one not in uids))[-_REMEMBERED:]


def name(resource: plan.Manifest) -> str:
    """Return the name of the ConfigMap that remembers the run of ``resource``."""
    meta = plan.metadata(resource)
    return names.child(meta["name"], PART, meta["uid"])


def read(config_map: plan.Manifest | None) -> Record:
    """Return what ``config_map`` holds.

    One that is absent or damaged remembers nothing: the stages run again and recognise on the workspace what they had
    finished, so that costs minutes and no work.
    """
    if config_map is None:
        return Record()
    try:
        return Record.model_validate_json(config_map.get("data", {}).get(KEY, ""))
    except pydantic.ValidationError:
        return Record()


def write(
    resource: plan.Manifest,
    before: plan.Manifest | None,
    record: Record,
    claim: Mapping[str, Any] = MappingProxyType({}),
) -> plan.Action | None:
    """Return the write that makes the ConfigMap hold ``record`` and what it claims; None when it does already.

    A write over an existing one carries the version it was decided on, so that one decided on an old view is refused
    instead of forgetting what a newer pass has stored.
    """
    if record == read(before) and (ledger.is_kept(before, claim) if before is not None else not claim):
        return None
    manifest = _manifest(resource, record, claim)
    if before is None:
        return plan.Create(manifest=manifest)
    meta = plan.metadata(before)
    return plan.Apply(manifest=manifest, uid=meta["uid"], resource_version=meta["resourceVersion"])


def _manifest(resource: plan.Manifest, record: Record, claim: Mapping[str, Any]) -> dict[str, Any]:
    meta, notes = plan.metadata(resource), ledger.annotations(claim)
    return {
        "apiVersion": kinds.CONFIG_MAP.api_version,
        "kind": kinds.CONFIG_MAP.kind,
        "metadata": {
            "name": name(resource),
            "namespace": meta["namespace"],
            "labels": {
                names.LABEL_MANAGED_BY: names.FIELD_MANAGER,
                names.LABEL_PART: PART,
                names.LABEL_TRAINING_JOB: names.label_value(meta["name"]),
                **ledger.labels(claim),
            },
            **({"annotations": notes} if notes else {}),
            "ownerReferences": [plan.owner_reference(resource)],
        },
        "data": {KEY: names.canonical(record.wire()).decode()},
    }
