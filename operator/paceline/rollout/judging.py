"""Asks the judge on all blocks of a rollout: the candidate against each rival, by what the spec asks for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.api import asked, names
from paceline.api.speculativedeployment import AnalysisSpec
from paceline.judge import comparison
from paceline.rollout.places import turns
from paceline.rollout.steps import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """The candidate's comparison with one rival."""

    rival: str
    """Control or Stable."""
    digest: str
    comparison: comparison.Comparison


def compare(case: Case, rivals: Mapping[str, str]) -> Sequence[Against]:
    """Return the comparison with every rival: better than the control, no worse than stable.

    Args:
        case: the open rollout.
        rivals: digests by ``Control`` and ``Stable``; one that is both is named Control, the higher bar.
    """
    return [
        Against(
            rival=rival,
            digest=digest,
            comparison=comparison.compare(
                turns.as_lived(
                    case.record.measurements,
                    candidate=names.short(case.record.candidate),
                    rival=names.short(digest),
                ),
                candidate=names.short(case.record.candidate),
                rival=names.short(digest),
                policy=policy(case.seen.owner.spec.rollout.analysis, rival),
            ),
        )
        for rival, digest in rivals.items()
    ]


def policy(analysis: AnalysisSpec, rival: str) -> comparison.Policy:
    """Return what is asked against a rival; answers are held against the control's, which has the same model."""
    limits = analysis.limits or asked.LimitsSpec()
    return comparison.Policy(
        kind=comparison.Bar.BETTER if rival == "Control" else comparison.Bar.NO_WORSE,
        min_gain_percent=analysis.min_gain_percent,
        max_regression_percent=analysis.max_regression_percent,
        confidence_percent=analysis.confidence_percent,
        min_rounds=analysis.min_rounds,
        max_rounds=analysis.max_rounds,
        weights=tuple((one.concurrency, one.weight) for one in analysis.weights or ()),
        band_floor_percent=analysis.band_floor_percent or None,
        max_ttft_ms=limits.max_ttft_milliseconds,
        max_itl_ms=limits.max_itl_milliseconds,
        max_ttft_increase_percent=limits.max_ttft_increase_percent,
        max_itl_increase_percent=limits.max_itl_increase_percent,
        node_spread_percent=analysis.node_spread_percent,
        answer_tolerance_percent=analysis.answer_tolerance_percent if rival == "Control" else None,
    )


def dead_draft(case: Case) -> str:
    """Return what shows that nothing the candidate drafted in the newest round was accepted; empty if something was."""
    arm = names.short(case.record.candidate)
    newest = [one for one in case.record.measurements if one.arm == arm and one.round == case.record.rounds]
    drafts = sum(one.drafts for one in newest)
    if not drafts or any(one.accepted_tokens for one in newest):
        return ""
    return (
        f"it drafted {drafts} times in round {case.record.rounds} and not one token was accepted. Train the head again."
    )
