"""Conditions and their reasons: part of the API for ever, so each is an enum member with its meaning beside it.

A reason has one status (True, False or Unknown) for one condition type, and says why, not how.
"""

from enum import StrEnum
from typing import Annotated, Literal

import pydantic

from paceline.api.base import ApiModel, text


class ConditionType(StrEnum):
    """What a condition is about."""

    # both kinds
    ACCEPTED = "Accepted"  # the spec can be acted on: sources exist, parts fit
    PROGRESSING = "Progressing"  # a candidate is on its way; a stage runs
    # SpeculativeDeployment
    AVAILABLE = "Available"  # the promoted revision has ready endpoints
    SPECULATING = "Speculating"  # what serves users uses a draft
    SUSPECT = "Suspect"  # the guard saw a fall and confirms it
    ROUTED = "Routed"  # the HTTPRoute that the spec names can be weighted; only where it names one
    # DraftTrainingJob
    COMPLETE = "Complete"  # a head is published
    FAILED = "Failed"  # no head will come of this job
    SKIPPED = "Skipped"  # no head is needed
    SUSPENDED = "Suspended"  # nothing runs because spec.suspend is set


class Condition(ApiModel):
    """``metav1.Condition``."""

    type: Annotated[str, text(max_length=316)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, text(max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    message: Annotated[str, pydantic.Field(max_length=32768)]
    last_transition_time: Annotated[str, pydantic.Field(max_length=40, json_schema_extra={"format": "date-time"})]
    observed_generation: Annotated[int, pydantic.Field(ge=0)] = 0


class TrainingReason(StrEnum):
    """Reasons of a DraftTrainingJob's conditions."""

    # Accepted
    INSPECTING = "Inspecting"  # Unknown: the target's files are being read; ends with the Inspect stage
    TARGET_READ = "TargetRead"  # True
    SOURCE_UNREADABLE = "SourceUnreadable"  # False: the source is missing or lacks a file; ends when the spec changes
    TARGET_UNFIT = "TargetUnfit"  # False: no head can be trained so; ends when the spec changes, or the engine
    START_UNFIT = "StartUnfit"  # False: training cannot start from draft.startFrom; ends when the spec changes
    WORKSPACE_TOO_SMALL = "WorkspaceTooSmall"  # False, or Failed=True: hidden states exceed workspace.size
    FOREIGN_OBJECT = "ForeignObject"  # False: an object with our name belongs to another; ends when it is gone
    OBJECT_REFUSED = "ObjectRefused"  # False: the API server will not have what the spec leads to; its own message
    INVALID_SPEC = "InvalidSpec"  # False: this operator cannot read the spec; ends when it changes
    # Progressing: True while the named stage's pod has a node
    PREPARING = "Preparing"
    EXTRACTING = "Extracting"
    TRAINING = "Training"
    EVALUATING = "Evaluating"
    PUBLISHING = "Publishing"
    # Complete, Failed
    PUBLISHED = "Published"
    NATIVE_MTP = "NativeMTP"  # Skipped=True: the target drafts for itself
    HEAD_NEEDED = "HeadNeeded"  # Skipped=False
    NOT_PUBLISHED = "NotPublished"  # Complete=False while running
    STAGE_FAILED = "StageFailed"  # Failed=True: permanent, the message says what to change
    RETRIES_EXHAUSTED = "RetriesExhausted"  # Failed=True
    DEADLINE_EXCEEDED = "DeadlineExceeded"  # Failed=True
    GATE_NOT_MET = "GateNotMet"  # Failed=True: the head accepts less than spec.evaluation asks
    SUSPENDED_BY_USER = "SuspendedByUser"
    RUNNING = "Running"  # Failed=False, Suspended=False
    # waits
    SCHEDULING = "Scheduling"  # Progressing=False: a stage's pod has no node yet, or a queue holds its Job back
    INSUFFICIENT_GPU = "InsufficientGPU"  # Progressing=False: devices are free, but were promised to others before
    DISRUPTED = "Disrupted"  # Progressing=False: the cluster took the pod away; the next one is on its way, uncharged
    ENDING = "Ending"  # Progressing=False: the pods of a stage are being ended before it goes on


class RolloutReason(StrEnum):
    """Reasons of a SpeculativeDeployment's conditions."""

    # Accepted
    INSPECTING = "Inspecting"
    RESOLVED = "Resolved"
    SOURCE_UNREADABLE = "SourceUnreadable"
    TRAINING_JOB_NOT_FOUND = "TrainingJobNotFound"
    DRAFT_UNAVAILABLE = "DraftUnavailable"  # the head is not where the spec says, or is damaged
    HEAD_MISMATCH = "HeadMismatch"  # the head was trained for another target
    TARGET_UNFIT = "TargetUnfit"  # the target cannot be served so, with or without a draft; ends when the spec changes
    METHOD_UNSUPPORTED = "MethodUnsupported"  # this version of the engine does not draft so
    FOREIGN_OBJECT = "ForeignObject"
    OBJECT_REFUSED = "ObjectRefused"  # the API server will not have what the spec leads to; its own message
    INVALID_SPEC = "InvalidSpec"  # the stored spec breaks a rule of this operator's version
    DAMAGED_RECORD = "DamagedRecord"  # an evidence object cannot be read, so what is stable is not known
    # Available
    SERVING = "Serving"
    NO_READY_ENDPOINTS = "NoReadyEndpoints"
    # Progressing
    AWAITING_HEAD = "AwaitingHead"  # the training job has not published yet; serves without speculation
    SCHEDULING = "Scheduling"
    INSUFFICIENT_GPU = "InsufficientGPU"
    VOLUME_EXCLUSIVE = "VolumeExclusive"  # False: rolled back, since only stable's node or pod can have a volume
    NO_FREE_GPU = "NoFreeGPU"  # False: rolled back, since no node had room for it
    CONSENT_NEEDED = "ConsentNeeded"  # False: there is room only in stable's place, which the spec does not allow
    RELEASING = "Releasing"  # True: stable gives up a replica, for the candidate that waits for its GPUs
    RECOVERING = "Recovering"  # True: stable is loaded again after a candidate in its place lost
    RECOVERED = "Recovered"  # False: measured to be as fast as before
    NOT_RECOVERED = "NotRecovered"  # False: it serves again, and was measured to be slower than before
    RECOVERY_UNCONFIRMED = "RecoveryUnconfirmed"  # False: it serves again; whether as fast as before nobody could tell
    STARTING = "Starting"  # a pod has a node; its image is pulled, its volumes are attached
    VOLUME_UNAVAILABLE = "VolumeUnavailable"  # such a pod waits for a volume, which another node may hold
    LOADING = "Loading"
    WARMING_UP = "WarmingUp"
    SHIFTING = "Shifting"  # the probe has passed the candidate, and it gets users' traffic step by step
    MEASURING = "Measuring"
    PROMOTED = "Promoted"
    ROLLED_BACK = "RolledBack"
    ABORTED = "Aborted"
    HELD = "Held"  # inconclusive, and the spec says to hold
    PAUSED = "Paused"
    SETTLED = "Settled"
    # why a candidate was rolled back
    SLOWER_THAN_CONTROL = "SlowerThanControl"
    SLOWER_THAN_STABLE = "SlowerThanStable"
    NO_GAIN = "NoGain"
    DEAD_DRAFT = "DeadDraft"
    BAND_BELOW_FLOOR = "BandBelowFloor"  # at one concurrency it loses more than analysis.bandFloorPercent allows
    LATENCY_ABOVE_LIMIT = "LatencyAboveLimit"  # analysis.limits
    ANSWERS_CHANGED = "AnswersChanged"  # greedy answers differ beyond the control's own differences
    HEAD_LOAD_FAILED = "HeadLoadFailed"
    ENGINE_FAILED = "EngineFailed"  # an arm without a draft does not start
    OUT_OF_MEMORY = "OutOfMemory"  # the GPU's, and no other pod holds it
    INCONCLUSIVE = "Inconclusive"  # not enough evidence, and the spec says to roll back
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    SCHEDULING_DEADLINE_EXCEEDED = "SchedulingDeadlineExceeded"
    STARTING_DEADLINE_EXCEEDED = "StartingDeadlineExceeded"
    LOADING_DEADLINE_EXCEEDED = "LoadingDeadlineExceeded"
    WARM_UP_DEADLINE_EXCEEDED = "WarmUpDeadlineExceeded"
    ANALYSIS_DEADLINE_EXCEEDED = "AnalysisDeadlineExceeded"
    HANDOVER_DEADLINE_EXCEEDED = "HandoverDeadlineExceeded"  # not all replicas have changed hands; they still may
    HELD_DEADLINE_EXCEEDED = "HeldDeadlineExceeded"  # nobody decided in time
    REJECTED_BEFORE = "RejectedBefore"  # this very revision was measured and rejected; retry asks for it again
    REQUEST_ERRORS = "RequestErrors"  # with a share of users' traffic it answered them with errors of its own
    LIVE_BELOW_BASELINE = "LiveBelowBaseline"  # the guard confirmed a fall after promotion
    # Speculating
    DRAFT_SERVING = "DraftServing"
    NO_DRAFT = "NoDraft"
    HEAD_STALE = "HeadStale"  # target or tokenizer changed since the head was trained
    # Suspect
    ACCEPTANCE_FELL = "AcceptanceFell"
    CONFIRMING = "Confirming"
    HEALTHY = "Healthy"
    NO_TRAFFIC = "NoTraffic"
    UNLIKE_PROMPTS = "UnlikePrompts"  # users' prompts are so long that what was measured does not hold for them
    # Routed
    ROUTE_ACCEPTED = "RouteAccepted"  # True: a gateway has accepted it
    ROUTES_UNSEEN = "RoutesUnseen"  # False: the operator does not watch them or may not, or there is no such kind
    ROUTE_NOT_FOUND = "RouteNotFound"  # False
    ROUTE_UNFIT = "RouteUnfit"  # False: no rule leads to the front Service alone
    ROUTE_NOT_ACCEPTED = "RouteNotAccepted"  # False: no gateway has accepted it, or it cannot resolve its backends
    ROUTE_CONFLICT = "RouteConflict"  # False: somebody else has changed the weights of a candidate's share
