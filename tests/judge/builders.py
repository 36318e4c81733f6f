"""Measurements made to order."""

import random
from collections.abc import Sequence

from paceline.api.measurement import BlockOutcome, Measurement


def block(
    arm: str, *, tps: float, round_number: int = 0, position: int = 0, concurrency: int = 1, **more: object
) -> Measurement:
    """Return a block of ``tps`` tokens a second over 20 s."""
    fields: dict[str, object] = {
        "arm": arm,
        "round": round_number,
        "position": position,
        "concurrency": concurrency,
        "started_at": "2026-01-01T00:00:00Z",
        "window_ms": 20_000,
        "output_tokens": round(tps * 20),
        "requests": 12,
    }
    return Measurement.model_validate({**fields, **more})


def rounds(
    ratios: Sequence[float], *, concurrencies: Sequence[int] = (1, 8), arms: str = "ABBA", base_tps: float = 1000.0
) -> list[Measurement]:
    """Return one round for each ratio of A to the others, without noise inside a round."""
    return [
        block(
            arm,
            tps=base_tps * concurrency * (ratio if arm == "A" else 1.0),
            round_number=number,
            position=position,
            concurrency=concurrency,
        )
        for number, ratio in enumerate(ratios)
        for concurrency in concurrencies
        for position, arm in enumerate(arms)
    ]


def noisy_rounds(
    source: random.Random, *, count: int, ratio: float, noise: float, concurrencies: Sequence[int] = (1, 8)
) -> list[Measurement]:
    """Return A B B A rounds whose blocks have log-normal noise."""
    return [
        block(
            arm,
            tps=1000.0 * concurrency * (ratio if arm == "A" else 1.0) * source.lognormvariate(0.0, noise),
            round_number=number,
            position=position,
            concurrency=concurrency,
        )
        for number in range(count)
        for concurrency in concurrencies
        for position, arm in enumerate("ABBA")
    ]


def seeded(seed: int) -> random.Random:
    """Return noise that is the same in every run."""
    return random.Random(seed)  # noqa: S311 - noise, not a secret


def spoiled(one: Measurement, outcome: BlockOutcome) -> Measurement:
    """Return a block that must not be used."""
    return one.model_copy(update={"outcome": outcome})
