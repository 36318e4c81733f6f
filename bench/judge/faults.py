"""The product's own judge on blocks: broken ones, which must never give a verdict, and sound ones, as a check."""

from collections.abc import Iterator

from bench.judge import noise
from paceline import judge
from paceline.api.measurement import BlockOutcome, Measurement

_WINDOW_MS = 20_000
_MIRROR = 2
"""Place of the first block in the second half."""
_GAIN = judge.Policy(kind=judge.Bar.BETTER, min_gain_percent=3, band_floor_percent=80)


def verdicts() -> dict[str, str]:
    """Return the verdict on each fault, laid over blocks that show twice the rival's throughput."""
    return {
        name: f"{found.verdict}: {found.reason}"
        for name, blocks in _cases()
        for found in (judge.compare(blocks, candidate="candidate", rival="rival", policy=_GAIN),)
    }


def first_verdict(
    recording: noise.Recording, ours: noise.Array, theirs: noise.Array, policy: judge.Policy
) -> tuple[int, int]:
    """Return the verdict (1, 0 or -1) of one that looks after every round, and the round.

    Args:
        recording: whose bands they are.
        ours: log throughput of the candidate ``[half, band]``.
        theirs: the rival's.
        policy: what is asked.
    """
    blocks = _blocks(recording.bands, ours, theirs)
    numbers = {judge.Verdict.PASS: 1, judge.Verdict.FAIL: -1, judge.Verdict.INCONCLUSIVE: 0}
    for rounds in range(policy.min_rounds, policy.max_rounds + 1):
        seen = [one for one in blocks if one.round < rounds]
        found = judge.compare(seen, candidate="candidate", rival="rival", policy=policy)
        if found.verdict is not judge.Verdict.INCONCLUSIVE:
            return numbers[found.verdict], rounds
    return 0, policy.max_rounds


def _blocks(bands: tuple[int, ...], ours: noise.Array, theirs: noise.Array) -> list[Measurement]:
    places = {(0, 0): (0, "candidate"), (0, 1): (1, "rival"), (1, 1): (2, "rival"), (1, 0): (3, "candidate")}
    return [
        _block(arm, number=half // 2, position=place, band=band, tokens=float((ours, theirs)[which][half, at]))
        for half in range(len(ours))
        for at, band in enumerate(bands)
        for (mirrored, which), (place, arm) in places.items()
        if mirrored == half % 2
    ]


def _block(arm: str, *, number: int, position: int, band: int, tokens: float) -> Measurement:
    """Return a block; ``tokens`` is a log throughput, scaled up so that whole tokens cost nothing."""
    return Measurement(
        arm=arm,
        round=number,
        position=position,
        concurrency=band,
        started_at=f"2026-01-01T{number:02d}:00:{position:02d}Z",
        window_ms=_WINDOW_MS,
        output_tokens=round(float(2.718281828459045**tokens) * 1e6),
        requests=100,
    )


def _cases() -> Iterator[tuple[str, list[Measurement]]]:
    sound = [
        _block(arm, number=number, position=position, band=band, tokens=0.7 if arm == "candidate" else 0.0)
        for number in range(6)
        for band in (1, 8, 32, 64)
        for position, arm in enumerate(("candidate", "rival", "rival", "candidate"))
    ]
    yield "no traffic", []
    yield "too few requests", [_as(one, outcome=BlockOutcome.TOO_FEW, requests=1) for one in sound]
    yield "one round only", [one for one in sound if one.round == 0]
    yield "rival never measured", [one for one in sound if one.arm == "candidate"]
    for arm in ("candidate", "rival"):
        down = [_as(one, outcome=BlockOutcome.REQUEST_ERRORS, errors=50) if _hit(one, arm) else one for one in sound]
        yield f"{arm} down in mid-block, every second round", down
        yield (
            f"{arm} restarts",
            [_as(one, outcome=BlockOutcome.ARM_CHANGED) if _hit(one, arm) else one for one in sound],
        )
    yield (
        "a clock that jumps",
        [_as(one, started_at="2025-12-31T00:00:00Z") if one.position == _MIRROR else one for one in sound],
    )
    yield "1 % errors", [_as(one, errors=1) if one.arm == "candidate" else one for one in sound]
    yield (
        "an empty completion",
        [_as(one, outcome=BlockOutcome.NO_TOKENS) if one.arm == "candidate" else one for one in sound],
    )
    yield "200 and no tokens", [_as(one, output_tokens=0) if one.arm == "candidate" else one for one in sound]
    yield (
        "a stalled stream",
        [_as(one, outcome=BlockOutcome.STALLED, errors=1) if one.arm == "candidate" else one for one in sound],
    )
    yield "no metrics", [_as(one, outcome=BlockOutcome.SCRAPE_ERROR) for one in sound]
    yield "other users' traffic", [_as(one, outcome=BlockOutcome.CONTAMINATED) for one in sound]
    yield (
        "another cache",
        [_as(one, prompt_tokens=90_000, cached_tokens=80_000 if one.arm == "candidate" else 0) for one in sound],
    )
    yield "other prompts", [_as(one, prompt_tokens=9000 if one.arm == "candidate" else 18000) for one in sound]


def _hit(one: Measurement, arm: str) -> bool:
    return one.arm == arm and bool(one.round % 2)


def _as(one: Measurement, **changed: object) -> Measurement:
    return one.model_copy(update=changed)
