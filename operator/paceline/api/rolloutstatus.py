"""What a SpeculativeDeployment's status is made of: its revisions, the newest rollout, and what the guard sees."""

from typing import Annotated

import pydantic

from paceline.api.base import ApiModel, Decimal, Duration, Message, ShortText, list_field, text
from paceline.api.speculation import Method


class RevisionStatus(ApiModel):
    """One serving revision."""

    name: ShortText
    """The ControllerRevision that holds it."""
    hash: Annotated[str, text(max_length=8, min_length=8)]
    method: Method
    num_speculative_tokens: Annotated[int, pydantic.Field(ge=0)] = 0
    ready_replicas: Annotated[int, pydantic.Field(ge=0)] = 0


class BandStatus(ApiModel):
    """One arm against another at one concurrency, and on prompts of one band of length."""

    concurrency: int
    prompt_band: Annotated[str, text(max_length=32)]
    """``all``, or the lengths in characters, such as ``0-2000``."""
    ratio: Decimal | None = None
    """Absent while too little was measured, as are its bounds."""
    lower: Decimal | None = None
    upper: Decimal | None = None


class ComparisonStatus(ApiModel):
    """The candidate against one rival."""

    against: Annotated[str, text(max_length=16, pattern=r"^(Control|Stable)$")]
    verdict: Annotated[str, text(max_length=16, pattern=r"^(Pass|Fail|Inconclusive)$")]
    ratio: Decimal | None = None
    """Throughput of the candidate over the rival's."""
    lower: Decimal | None = None
    upper: Decimal | None = None
    bands: Annotated[list[BandStatus], list_field(max_items=8, keys=("concurrency", "promptBand"))] = []


class RolloutStatus(ApiModel):
    """The latest candidate's way."""

    candidate: Annotated[str, text(max_length=8)]
    evidence: ShortText = ""
    """The ConfigMap with its measurements and verdict."""
    phase: ShortText
    strategy: Annotated[str, text(max_length=16, pattern=r"^(Surge|Replace)$")] | None = None
    """Where its pods get their GPUs; absent until that is decided."""
    evidence_mode: Annotated[str, text(max_length=16, pattern=r"^(SideBySide|Alternating)$")] | None = None
    """Alternating: some arms were measured one after the other, which is the weaker evidence and takes wider bounds."""
    expected_downtime: Duration | None = None
    """Time without service that this rollout costs if the candidate loses, from what loading and measuring have taken
    before; absent when users are served all along."""
    longest_downtime: Duration | None = None
    """The same if every step takes as long as its deadline allows."""
    round: Annotated[int, pydantic.Field(ge=0)] = 0
    percent: Annotated[int, pydantic.Field(ge=0, le=100)] = 0
    comparisons: Annotated[list[ComparisonStatus], list_field(max_items=2, keys=("against",))] = []
    acceptance_length: Decimal | None = None
    measured_on: Message = ""
    """Which pod stands for stable: a measuring copy, or one that serves users, and what that leaves out."""
    weight: Annotated[int, pydantic.Field(ge=0, le=100)] = 0
    """Percent of users' traffic that goes to the candidate now."""
    message: Message = ""


class GuardStatus(ApiModel):
    """What live traffic shows."""

    acceptance_length: Decimal | None = None
    break_even: Decimal | None = None
    """Acceptance length at which speculation costs what it gains, at the current concurrency."""
