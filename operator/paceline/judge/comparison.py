"""One arm against another: Pass, Fail or Inconclusive, with the ratio and its bounds.

The verdict compares the interval with the bar, never the estimate: Pass when the whole interval lies above it, Fail
when it lies below, and otherwise nothing is known yet. Limits on single bands and on latency are asked beside it: all
must be kept to pass, and one that is certainly broken fails.
"""

from collections.abc import Sequence
from typing import Final

from paceline.api.measurement import BlockOutcome, Measurement
from paceline.judge import alternating, answers, beside, limits, pairs, soundness
from paceline.judge.evidence import Evidence
from paceline.judge.limits import Finding
from paceline.judge.policy import Bar, Policy
from paceline.judge.verdicts import Band, Comparison, Reason, Verdict

__all__ = ["Band", "Bar", "Comparison", "Policy", "Reason", "Verdict", "compare"]

DEAD_AFTER_DRAFTS: Final = 100
"""A head whose first token is accepted once in twenty drafts, a hopeless one, shows none in 100 drafts in less than one
case of a hundred."""
_FEW_LOADS: Final = 4
"""Two an arm: with fewer it is the lack of loads that leaves bounds wide."""


def compare(measurements: Sequence[Measurement], *, candidate: str, rival: str, policy: Policy) -> Comparison:
    """Return what ``measurements`` say of two arms.

    Arms that lived side by side are compared half round by half round; where they did not, load by load, with the
    spread between loads in the bounds. Where there is enough of the former, the latter is left out.

    Args:
        measurements: of any number of rounds, in any order; rounds after the policy's ``max_rounds`` are ignored, since
            the bounds are valid for so many looks.
        candidate: the arm that is to be promoted.
        rival: the arm it is compared with.
        policy: what is asked.
    """
    arms = (candidate, rival)
    kept = _first_rounds(measurements, policy.max_rounds)
    blocks = pairs.distinct(one for one in kept if one.arm in arms and not one.rate_per_minute)
    jumped = soundness.jumped_rounds(blocks)
    paired = pairs.pair([one for one in blocks if one.round not in jumped], candidate=candidate, rival=rival)
    evidence = beside.gather(paired, sorted({one.round for one in kept}), policy)
    one_by_one = bool(paired.alternating) and evidence.rounds < policy.min_rounds
    if one_by_one:
        evidence = alternating.gather(paired.all_blocks, arms=arms, policy=policy)
    found = _certain(blocks, arms, policy)
    if found is None and (evidence.rounds < policy.min_rounds or evidence.whole is None):
        found = _too_few(paired, evidence, jumped, arms=arms, policy=policy)
    if found is None:
        doubt = soundness.of_any_verdict(blocks, arms=arms)
        found = _inconclusive(doubt.reason, doubt.message) if doubt else None
    return _answer(evidence, found or _judged(evidence, blocks, arms, policy, one_by_one=one_by_one))


def _certain(measurements: Sequence[Measurement], arms: tuple[str, str], policy: Policy) -> Finding | None:
    """Return what needs no interval: a dead head, and changed answers."""
    if _is_dead(measurements, arms[0]):
        message = "drafts were made and not one token was accepted"
        return Finding(verdict=Verdict.FAIL, reason=Reason.DEAD_DRAFT, message=message)
    if policy.answer_tolerance_percent is None:
        return None
    changed = answers.changed(
        measurements,
        candidate=arms[0],
        control=arms[1],
        tolerance_percent=policy.answer_tolerance_percent,
        tail=policy.error / policy.looks,
    )
    return Finding(verdict=Verdict.FAIL, reason=Reason.ANSWERS_CHANGED, message=changed) if changed else None


def _judged(
    evidence: Evidence,
    measurements: Sequence[Measurement],
    arms: tuple[str, str],
    policy: Policy,
    *,
    one_by_one: bool,
) -> Finding:
    """Return the verdict on whole and limits: what fails comes first, then what keeps from passing."""
    whole = _against_the_bar(evidence, policy, one_by_one=one_by_one)
    all_of_them = [whole, *limits.findings(evidence, policy)]
    for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        found = next((one for one in all_of_them if one.verdict is verdict), None)
        if found is not None:
            return found
    doubt = soundness.of_a_pass(measurements, arms=arms)
    return _inconclusive(doubt.reason, f"{whole.message}; but {doubt.message}") if doubt else whole


def _against_the_bar(evidence: Evidence, policy: Policy, *, one_by_one: bool) -> Finding:
    """Return the verdict of the interval against the bar."""
    whole = evidence.whole
    if whole is None:
        return _inconclusive(Reason.TOO_FEW_BLOCKS, "nothing could be paired")
    said = f"{whole.ratio:.3f} times the rival's throughput ({whole.lower:.3f} to {whole.upper:.3f})"
    if one_by_one:
        said += f", from {evidence.samples} loads one after the other"
    if whole.lower > policy.bar:
        reason = Reason.FASTER if policy.kind is Bar.BETTER else Reason.NO_WORSE
        return Finding(verdict=Verdict.PASS, reason=reason, message=f"{said}, above the bar of {policy.bar:.3f}")
    if whole.upper < policy.bar:
        reason = Reason.REGRESSED
        if policy.kind is Bar.BETTER:
            reason = Reason.SLOWER if whole.upper < 1.0 else Reason.NO_GAIN
        return Finding(verdict=Verdict.FAIL, reason=reason, message=f"{said}, below the bar of {policy.bar:.3f}")
    few = one_by_one and evidence.samples < _FEW_LOADS
    return _inconclusive(
        Reason.TOO_FEW_LOADS if few else Reason.TOO_NOISY,
        f"{said}; the bounds hold the bar of {policy.bar:.3f} between them",
    )


def _too_few(
    paired: pairs.Paired,
    evidence: Evidence,
    jumped: frozenset[int],
    *,
    arms: tuple[str, str],
    policy: Policy,
) -> Finding:
    """Return Inconclusive, by what kept blocks from being used."""
    if jumped:
        said = f"in {len(jumped)} rounds a block claims to have begun before one it followed; look at the node's clock"
        return _inconclusive(Reason.CLOCK_JUMPED, said)
    missing = [arm for arm in arms if not any(one.arm == arm for one in paired.all_blocks)]
    if missing:
        return _inconclusive(Reason.NO_DATA, f"no block of {' and '.join(missing)} was measured")
    said = f"{evidence.rounds} usable rounds of the {policy.min_rounds} that a verdict needs"
    if paired.dropped:
        outcome, count = max(paired.dropped.items(), key=lambda item: (item[1], item[0]))
        return _inconclusive(_reason_of(outcome), f"{said}; {count} of {paired.blocks} blocks ended {outcome}")
    if paired.alternating and not evidence.samples:
        said = f"{paired.alternating} of {paired.blocks} blocks come from arms that lived one after the other, and no "
        return _inconclusive(Reason.NOT_SIDE_BY_SIDE, f"{said}load of either has two blocks at every concurrency")
    return _inconclusive(Reason.TOO_FEW_BLOCKS, said)


def _reason_of(outcome: BlockOutcome) -> Reason:
    return Reason.TOO_FEW_BLOCKS if outcome is BlockOutcome.TOO_FEW else Reason(outcome.value)


def _inconclusive(reason: Reason, message: str) -> Finding:
    return Finding(verdict=Verdict.INCONCLUSIVE, reason=reason, message=message)


def _answer(evidence: Evidence, found: Finding) -> Comparison:
    whole = evidence.whole
    return Comparison(
        verdict=found.verdict,
        reason=found.reason,
        message=found.message,
        ratio=evidence.ratio,
        lower=whole.lower if whole else None,
        upper=whole.upper if whole else None,
        bands=evidence.bands,
        rounds=evidence.rounds,
        samples=evidence.samples,
    )


def _first_rounds(measurements: Sequence[Measurement], limit: int) -> list[Measurement]:
    """Return the measurements of the first ``limit`` rounds."""
    numbers = sorted({one.round for one in measurements})[:limit]
    return [one for one in measurements if one.round in numbers]


def _is_dead(measurements: Sequence[Measurement], arm: str) -> bool:
    usable = [one for one in measurements if one.arm == arm and one.outcome is BlockOutcome.OK]
    drafts = sum(one.drafts for one in usable)
    return drafts >= DEAD_AFTER_DRAFTS and not any(one.accepted_tokens for one in usable)
