"""Which revision is wanted, and whether a rollout has to be opened for it."""

from dataclasses import dataclass

from paceline.api import names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Purpose, RolloutRecord
from paceline.api.speculativedeployment import SpeculativeDeploymentSpec
from paceline.planning import conditions
from paceline.rollout import analysis, rollback, verbs
from paceline.rollout.documents import revisions
from paceline.rollout.places import seats
from paceline.rollout.resolving import resolve
from paceline.rollout.steps import Case, Step
from paceline.rollout.view import observe


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is to serve in the end."""

    inputs: revisions.Inputs | None
    """None: what serves stays."""
    is_baseline: bool = False
    """Whether nothing comparable serves, so that there is nothing to measure it against."""
    known: bool = True
    """False while files are read: an open rollout then neither goes on nor ends."""

    @property
    def digest(self) -> str:
        """Digest of what is wanted; empty when what serves stays."""
        return self.inputs.digest if self.inputs else ""


def goal(seen: observe.Observed, resolution: resolve.Resolution) -> Goal:
    """Return what the spec comes down to, given what serves.

    A target of which nothing serves yet begins with its baseline: two targets' throughputs say nothing of each other,
    and an old head never serves a new target unmeasured.
    """
    baseline = resolution.baseline
    if baseline is None:
        return Goal(inputs=None, known=resolution.accepted is False)
    stable = seen.revisions.get(seen.history.stable)
    strange = stable is not None and stable.inputs.target.digest != baseline.target.digest
    if not seen.history.stable or strange:
        return Goal(inputs=baseline, is_baseline=True)
    if seen.owner.spec.replicas == 0:
        return Goal(inputs=None)
    if resolution.desired is not None:
        return Goal(inputs=resolution.desired)
    if resolution.awaiting and stable is not None and not stable.inputs.speculates:
        return Goal(inputs=baseline)
    return Goal(inputs=None, known=resolution.accepted is not None)


def workload(spec: SpeculativeDeploymentSpec) -> str:
    """Return the digest of what candidates are measured on."""
    analysis = spec.rollout.analysis
    return names.digest(
        {
            "prompts": analysis.prompts.wire(),
            "concurrencies": analysis.concurrencies,
            "maxTokens": analysis.max_tokens,
            "requestsPerSlot": analysis.requests_per_slot,
            # Only where they are set: an upgrade must not make what was measured before look like another workload.
            **({"promptBounds": sorted(analysis.prompt_bounds)} if analysis.prompt_bounds else {}),
        }
    )


def open_rollout(seen: observe.Observed, wanted: Goal, now: float) -> Step | None:
    """Return the step that opens a rollout for what is wanted; None when it serves, or was refused before."""
    history, inputs = seen.history, wanted.inputs
    if inputs is None or wanted.digest == history.stable:
        return None
    retry, measured_on = verbs.asked(seen, "retry", wanted.digest), workload(seen.owner.spec)
    if history.refused(wanted.digest, workload=measured_on) is not None and not retry:
        return None
    control = revisions.control_of(inputs).digest if inputs.speculates else ""
    record = RolloutRecord(
        number=history.next_number,
        purpose=Purpose.BASELINE if wanted.is_baseline else Purpose.CANDIDATE,
        candidate=wanted.digest,
        control=control,
        stable=history.stable,
        workload=measured_on,
        started_at=conditions.timestamp(now),
        seating=seats.at_opening(seen, inputs, stable=history.stable),
        handled=[retry] if retry else [],
    )
    message = f"Revision {names.short(wanted.digest)} ({inputs.title}) is being started."
    return Step(reason=RolloutReason.SCHEDULING, message=message, record=record)


def overtaken(case: Case, wanted: Goal) -> Step | None:
    """Return the end, or the halt, of a rollout that the spec has moved on from; None while it is still wanted."""
    record = case.record
    match record.purpose:
        case Purpose.UNDO:
            return None
        case Purpose.GUARD | Purpose.RECOVERY:
            other = open_rollout(case.seen, wanted, case.now)
            message = "A new revision is wanted; it is measured instead."
            return rollback.abort(case, RolloutReason.ABORTED, message) if other else None
        case Purpose.BASELINE | Purpose.CANDIDATE:
            if not wanted.known:
                message = "The spec has changed; the rollout goes on or ends when its sources have been read."
                return Step(reason=RolloutReason.INSPECTING, message=message, job=analysis.probe_name(case))
            if is_still_wanted(record, wanted):
                return _measured_anew(case)
            message = f"The spec has changed: revision {names.short(record.candidate)} is no longer wanted."
            return rollback.abort(case, RolloutReason.ABORTED, message)


def _measured_anew(case: Case) -> Step | None:
    """Return the step that drops what was measured on a workload which was edited since; None where it was not.

    The servers stay: they are the same revisions. Once measuring is over the verdict stands.
    """
    record, measured_on = case.record, workload(case.seen.owner.spec)
    if record.purpose is Purpose.BASELINE or record.workload == measured_on or record.verdict:
        return None
    if record.released_at is not None and record.turns:
        # Stable's own profile would be dropped with the rest, and what is not loaded cannot be measured anew.
        message = "rollout.analysis has changed while arms took turns; it begins anew."
        return rollback.abort(case, RolloutReason.ABORTED, message)
    fresh = {
        "workload": measured_on,
        "measurements": [],
        "rounds": 0,
        "carried_rounds": 0,
        "cycle": 0,
        "probe_failures": 0,
        "measuring_since": None,
        "halted_since": None,
        "measured_anew": record.measured_anew + 1,
    }
    return Step(
        reason=RolloutReason.MEASURING,
        message=f"Candidate {names.short(record.candidate)} is measured anew: rollout.analysis has changed.",
        record=record.model_copy(update=fresh),
    )


def is_still_wanted(record: RolloutRecord, wanted: Goal) -> bool:
    """Whether an open rollout's candidate is what the spec asks for now, as the same kind of rollout."""
    return record.candidate == wanted.digest and (record.purpose is Purpose.BASELINE) == wanted.is_baseline
