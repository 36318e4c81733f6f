"""``status.rollout``: how far the newest rollout is, and how its arms compare."""

from collections.abc import Sequence
from typing import Final

from paceline.api import names
from paceline.api.measurement import Mode, Purpose, RolloutRecord, Seating
from paceline.api.rolloutstatus import BandStatus, ComparisonStatus, GuardStatus, RolloutStatus
from paceline.judge import guard as judge
from paceline.rollout import analysis, judging, promotion, recovery
from paceline.rollout.documents import claims, records
from paceline.rollout.guarding import suspicion
from paceline.rollout.places import copies, downtime
from paceline.rollout.steps import Case, Step
from paceline.rollout.traffic import weights
from paceline.rollout.view import observe, parts

_PERCENT_STEP: Final = 5  # finer progress would be a write every few seconds


def describe(seen: observe.Observed, history: records.History, step: Step, now: float) -> RolloutStatus | None:
    """Return where the newest rollout stands; None before the first."""
    if not history.stored:
        return None
    stored = history.stored[-1]
    record = stored.record
    case = Case(seen=seen, record=record, now=now)
    return RolloutStatus(
        candidate=names.short(record.candidate),
        evidence=stored.name,
        phase=_phase(record, step),
        strategy=_strategy(record),
        evidence_mode=_evidence_mode(record),
        expected_downtime=_span(record.expected_downtime_s),
        longest_downtime=_span(record.longest_downtime_s),
        round=record.rounds,
        percent=_percent(case),
        comparisons=[_comparison(one) for one in _comparisons(case)],
        acceptance_length=_decimal(_acceptance(record), 2),
        measured_on=copies.in_words(case),
        weight=weights.in_place(seen, record),
        message=record.message if record.decision else step.message,
    )


def _phase(record: RolloutRecord, step: Step) -> str:
    """Return where it stands, or how it ended; a recovery promotes and rejects nothing, so it says what it found."""
    if record.decision is None:
        return step.reason.value
    return record.reason if record.purpose is Purpose.RECOVERY else record.decision.value


def _strategy(record: RolloutRecord) -> str | None:
    if record.seating in {None, Seating.ASKED}:
        return None
    in_place = record.seating in claims.IN_STABLES_PLACE or record.rolls or record.purpose is Purpose.RECOVERY
    return "Replace" if in_place else "Surge"


def _evidence_mode(record: RolloutRecord) -> str | None:
    """Return how the arms live, or lived, whose comparison is the weakest."""
    if record.seating in {None, Seating.ASKED} or not (record.control or record.stable):
        return None
    in_turn = bool(record.turns) or record.purpose is Purpose.RECOVERY
    return (Mode.ALTERNATING if in_turn else Mode.SIDE_BY_SIDE).value


def _span(seconds: int) -> str | None:
    return downtime.in_words(seconds) if seconds else None


def _percent(case: Case) -> int:
    """Return how much of the measuring is behind, at most: a verdict may come in any round."""
    if case.record.decision is not None:
        return 100
    job = case.seen.probes.get(analysis.probe_name(case))
    rounds = case.record.rounds + (_percent_of_round(case, job) if job else 0) / 100
    percent = 100 * rounds / case.seen.owner.spec.rollout.analysis.max_rounds
    return min(100, int(percent) // _PERCENT_STEP * _PERCENT_STEP)


def _percent_of_round(case: Case, job: parts.Work) -> int:
    if job.succeeded or any(pod.phase == "Succeeded" for pod in job.pods):
        # It answers no more, and what it reported is read a moment later.
        return 100
    return max((case.seen.progress[pod.uid].percent for pod in job.pods if pod.uid in case.seen.progress), default=0)


def _comparisons(case: Case) -> Sequence[judging.Against]:
    if not case.record.measurements:
        return []
    if case.record.purpose is Purpose.RECOVERY:
        found = recovery.compare(case)
        return [judging.Against(rival="Stable", digest=case.record.stable, comparison=found)] if found else []
    return judging.compare(case, promotion.rivals_of(case))


def _comparison(against: judging.Against) -> ComparisonStatus:
    found = against.comparison
    return ComparisonStatus(
        against=against.rival,
        verdict=found.verdict.value,
        ratio=_decimal(found.ratio, 3),
        lower=_decimal(found.lower, 3),
        upper=_decimal(found.upper, 3),
        bands=[
            BandStatus(
                concurrency=band.concurrency,
                prompt_band=band.prompt_band,
                ratio=_decimal(band.ratio, 3),
                lower=_decimal(band.lower, 3),
                upper=_decimal(band.upper, 3),
            )
            for band in found.bands
        ],
    )


def _acceptance(record: RolloutRecord) -> float | None:
    arm = names.short(record.candidate)
    return judge.acceptance_length([one for one in record.measurements if one.arm == arm])


def of_guard(watched: suspicion.Watch | None) -> GuardStatus | None:
    """Return what live traffic shows, so rounded that it does not change with every scrape."""
    if watched is None:
        return None
    return GuardStatus(
        acceptance_length=_decimal(watched.live.acceptance_length if watched.live else None, 1),
        break_even=_decimal(watched.break_even.value if watched.break_even else None, 2),
    )


def _decimal(value: float | None, digits: int) -> str | None:
    """Return a number as the API carries it; one that is out of its range is left out."""
    largest = 999_999
    return f"{value:.{digits}f}" if value is not None and 0 <= value <= largest else None
