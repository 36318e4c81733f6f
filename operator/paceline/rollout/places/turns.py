"""Arms that take turns on one place: whose turn it is, and what stands in for an arm that is not there.

Which arms take turns, and in which order, is written on the record when it is seated; whose turn it is follows from the
rounds that were measured. A turn is over when an arm has as many usable rounds as a verdict needs. Where stable lives
beside the place, arms may come again, each time as another load: between two starts of one configuration there is a
spread that no number of rounds on one start shows. Where stable itself has to go, each arm gets one turn.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from paceline.api import base, names
from paceline.api.measurement import BlockOutcome, Measurement, Mode, Purpose, RolloutRecord, Seating
from paceline.planning import conditions
from paceline.rollout.documents import records
from paceline.rollout.view import observe

_MORE_THAN_A_ROUND: Final = 64
SEATINGS: Final = frozenset({Seating.SHARED, Seating.TAKEN_SHARED, Seating.STOPPED})


def slot(seen: observe.Observed, record: RolloutRecord) -> str:
    """Return the digest that has the shared place now; empty where arms have places of their own."""
    if record.decision is not None or record.seating not in SEATINGS:
        return ""
    # After the last turn the candidate stays where it is, until the verdict is known.
    return at(seen, record) or newcomer(record)


def newcomer(record: RolloutRecord) -> str:
    """Return the digest that serves if all goes well: the candidate, or the control that stands in for it."""
    return record.control if record.purpose in {Purpose.GUARD, Purpose.UNDO} else record.candidate


def at(seen: observe.Observed, record: RolloutRecord) -> str:
    """Return the digest whose turn it is; empty when all have had theirs in this cycle."""
    needed = seen.owner.spec.rollout.analysis.min_rounds * (record.cycle + 1)
    waiting = (digest for digest in record.turns if usable_rounds(record.measurements, digest) < needed)
    return next(waiting, "")


def cycles_allowed(seen: observe.Observed, record: RolloutRecord) -> int:
    """Return how many loads of each arm are measured at most."""
    if record.seating is Seating.STOPPED:
        return 1
    analysis = seen.owner.spec.rollout.analysis
    return max(1, analysis.max_rounds // analysis.min_rounds)


def usable_rounds(measurements: Iterable[Measurement], digest: str) -> int:
    """Return the rounds of an arm of which every block may be used."""
    return sum(all(_is_usable(one) for one in blocks) for blocks in _rounds(measurements, digest).values())


def tried_rounds(measurements: Iterable[Measurement], digest: str) -> int:
    """Return the rounds of an arm, usable or not."""
    return len(_rounds(measurements, digest))


def recorded(
    history: records.History, digest: str, *, workload: str, rounds: int, not_before: float
) -> Sequence[Measurement]:
    """Return what earlier rollouts measured of a revision on this workload, to stand in for it; empty if too little.

    A revision is all that decides how fast an engine is, its image and arguments among it, so that a change of those
    finds nothing here. Blocks of one load, the newest, and only those from ``not_before`` on; rounds count from 1.
    """
    for record in reversed(history.decided):
        if record.workload != workload:
            continue
        usable = [blocks for _, blocks in sorted(_rounds(record.measurements, digest).items()) if _may_stand(blocks)]
        fresh = [blocks for blocks in usable if _began(blocks) >= not_before]
        newest = [blocks for blocks in fresh if _load(blocks[0]) == _load(fresh[-1][0])][-rounds:]
        if len(newest) == rounds:
            return [
                one.model_copy(update={"round": number, "mode": Mode.ALTERNATING})
                for number, blocks in enumerate(newest, start=1)
                for one in blocks
            ]
    return []


def as_lived(measurements: Sequence[Measurement], *, candidate: str, rival: str) -> Sequence[Measurement]:
    """Return the measurements as the judge has to see two arms: as alternating if they never shared a round.

    Args:
        measurements: of a record, in the order of storing.
        candidate: short hash.
        rival: short hash.
    """
    rounds = [{one.round for one in measurements if one.arm == arm} for arm in (candidate, rival)]
    if rounds[0] & rounds[1] or not all(rounds):
        return measurements
    # The candidate's turn is the last, so its blocks come after the rival's of the same number.
    return [*alternating(measurements, rival), *alternating(measurements, candidate, after=_MORE_THAN_A_ROUND)]


def alternating(measurements: Iterable[Measurement], arm: str, *, named: str = "", after: int = 0) -> list[Measurement]:
    """Return an arm's blocks as those of loads of its own: its rounds count from 1, whatever was measured between.

    Args:
        measurements: of any arms.
        arm: short hash.
        named: what to call the arm instead, to hold two loads of one revision against each other.
        after: added to the blocks' places in their round: a place tells what came before what.
    """
    own = [one for one in measurements if one.arm == arm]
    numbers: Mapping[int, int] = {old: new for new, old in enumerate(sorted({one.round for one in own}), start=1)}
    return [
        one.model_copy(
            update={
                "arm": named or arm,
                "round": numbers[one.round],
                "position": one.position + after,
                "mode": Mode.ALTERNATING,
            }
        )
        for one in own
    ]


def not_before(seen: observe.Observed, now: float) -> float:
    """Return the age limit of a recorded measurement as a moment."""
    return now - base.parse_duration(seen.owner.spec.rollout.replace_policy.baseline_max_age).total_seconds()


def _rounds(measurements: Iterable[Measurement], digest: str) -> dict[int, list[Measurement]]:
    short, found = names.short(digest), dict[int, list[Measurement]]()
    for one in measurements:
        if one.arm == short:
            found.setdefault(one.round, []).append(one)
    return found


def _is_usable(one: Measurement) -> bool:
    return one.outcome is BlockOutcome.OK and bool(one.tokens_per_second)


def _may_stand(blocks: Sequence[Measurement]) -> bool:
    return all(_is_usable(one) for one in blocks) and len({_load(one) for one in blocks}) == 1


def _load(one: Measurement) -> tuple[str, str, int]:
    return one.node, one.pod_uid, one.load


def _began(blocks: Sequence[Measurement]) -> float:
    return min(conditions.parse_timestamp(one.started_at) for one in blocks)
