"""The numbers of a finished demo, read from the evidence that the operator kept. Nothing is computed twice."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.api.measurement import Measurement, RolloutRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One arm at one concurrency."""

    arm: str
    concurrency: int
    tokens_per_second: float
    low: float
    high: float
    """Slowest and fastest block."""
    acceptance_length: float | None
    blocks: int


def records(config_maps: Iterable[Mapping[str, Any]]) -> list[RolloutRecord]:
    """Return the rollouts' evidence, oldest first."""
    found = [RolloutRecord.model_validate_json(one["data"]["record.json"]) for one in config_maps]
    return sorted(found, key=lambda record: record.number)


def cells(measurements: Sequence[Measurement]) -> list[Cell]:
    """Return throughput by arm and concurrency over the blocks that may be used."""
    groups: dict[tuple[str, int], list[Measurement]] = {}
    for one in measurements:
        if one.tokens_per_second is not None:
            groups.setdefault((one.arm, one.concurrency), []).append(one)
    return [_cell(arm, concurrency, blocks) for (arm, concurrency), blocks in sorted(groups.items())]


def _cell(arm: str, concurrency: int, blocks: Sequence[Measurement]) -> Cell:
    speeds = [one.tokens_per_second or 0.0 for one in blocks]
    drafts = sum(one.drafts for one in blocks)
    accepted = sum(one.accepted_tokens for one in blocks)
    return Cell(
        arm=arm,
        concurrency=concurrency,
        tokens_per_second=sum(one.output_tokens for one in blocks) / sum(one.window_ms for one in blocks) * 1000,
        low=min(speeds),
        high=max(speeds),
        acceptance_length=1 + accepted / drafts if drafts else None,
        blocks=len(blocks),
    )


def as_json(record: RolloutRecord) -> str:
    """Return a record for people who want to look closer."""
    return json.dumps(record.wire(), indent=1)
