"""What is asked of a candidate beside its throughput over all bands: their weights, a floor, limits of latency."""

from typing import Annotated, ClassVar

import pydantic

from paceline.api.base import ApiModel, Cel

IncreasePercent = Annotated[int, pydantic.Field(ge=0, le=1000)]
Milliseconds = Annotated[int, pydantic.Field(ge=1, le=3_600_000)]


class BandWeight(ApiModel):
    """How much of the traffic runs at one concurrency."""

    concurrency: Annotated[int, pydantic.Field(ge=1, le=4096)]
    weight: Annotated[int, pydantic.Field(ge=0, le=1000)]
    """Against the other bands' weights. A band of weight 0 is measured and held to the floor, no more."""


class LimitsSpec(ApiModel):
    """Latency that a candidate must keep. Each is a question with bounds of its own; left out, it is not asked."""

    cel: ClassVar[tuple[Cel, ...]] = (
        Cel(
            rule="has(self.maxTTFTMilliseconds) || has(self.maxITLMilliseconds) || "
            "has(self.maxTTFTIncreasePercent) || has(self.maxITLIncreasePercent)",
            message="limits says nothing; set at least one of its fields or remove it",
        ),
    )

    max_ttft_milliseconds: Annotated[Milliseconds | None, pydantic.Field(alias="maxTTFTMilliseconds")] = None
    """Median time to first token, at every concurrency that is measured."""
    max_itl_milliseconds: Annotated[Milliseconds | None, pydantic.Field(alias="maxITLMilliseconds")] = None
    """Mean inter-token latency, at every concurrency that is measured."""
    max_ttft_increase_percent: Annotated[IncreasePercent | None, pydantic.Field(alias="maxTTFTIncreasePercent")] = None
    """Against the rival, over all bands by their weights."""
    max_itl_increase_percent: Annotated[IncreasePercent | None, pydantic.Field(alias="maxITLIncreasePercent")] = None
    """Against the rival, over all bands by their weights."""


# Over the fields of AnalysisSpec.
WEIGHT_RULES = (
    Cel(
        rule="!has(self.weights) || (size(self.weights) == size(self.concurrencies) && "
        "self.weights.all(w, w.concurrency in self.concurrencies))",
        message="analysis.weights must name every entry of analysis.concurrencies once, and nothing else",
    ),
    Cel(
        rule="!has(self.weights) || self.weights.exists(w, w.weight > 0)",
        message="analysis.weights leaves nothing to judge; give at least one concurrency a weight above 0",
    ),
)
