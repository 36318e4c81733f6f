"""The measuring copy: one more replica of stable's revision, which users do not reach.

Stable's own pods serve. A block that users' requests touched says nothing of the server, and a pod that serves is not
driven harder than ``maxProbeConcurrency``. So where users are seen, or where more is asked of an arm than a serving pod
may be given, stable is measured on a copy for as long as the rollout measures. A copy is a Deployment of the same
revision whose pods carry another part in their labels, so neither the front Service, nor the revision's own Deployment,
nor ``status.selector`` finds them. Where there is no room for it, what is possible is measured, and status says so.
"""

from collections.abc import Sequence
from typing import Final

from paceline.api import names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import BlockOutcome, CopyState, Purpose, RolloutRecord
from paceline.api.speculativedeployment import MeasuringCopy
from paceline.engines import counters, metrics
from paceline.planning import conditions
from paceline.rollout.documents import claims, workloads
from paceline.rollout.places import seats, volumes
from paceline.rollout.steps import Case, Step
from paceline.rollout.view import observe, podview, readiness

_MEASURED: Final = frozenset({Purpose.CANDIDATE, Purpose.GUARD})
_TOUCHED: Final = frozenset({BlockOutcome.CONTAMINATED, BlockOutcome.YIELDED})
# Two scrapes make a difference.
_A_DIFFERENCE: Final = 2


def wanted_for(record: RolloutRecord, *, replicas: int) -> str:
    """Return the digest of which an open rollout has a measuring copy; empty when it has none.

    It is freed as soon as nothing is measured any more: the steps that follow a verdict need its place.
    """
    if record.measuring_copy is not CopyState.WANTED or record.weight or not replicas or record.paused:
        return ""
    return record.stable if record.purpose in _MEASURED else ""


def claimed_for(record: RolloutRecord, *, replicas: int) -> str:
    """Return the digest of which an open rollout has, or asks for, a measuring copy; empty when it does neither."""
    if record.measuring_copy is CopyState.ASKED:
        return "" if record.paused else record.stable
    return wanted_for(record, replicas=replicas)


def settle(case: Case) -> Step | None:
    """Return the step that notes that a copy is wanted, or that none can be had; None when nothing changes.

    Noted before it is made: a restart then goes on with the same arms.
    """
    record = case.record
    if record.purpose not in _MEASURED or not measures_stable(case):
        return None
    if record.measuring_copy is None:
        why = _why(case)
        if why and not _has_room(case):
            return _without(case, "no node has room for one more replica.")
        return _asked(case, why) if why else None
    if record.measuring_copy is CopyState.ASKED:
        return _granted(case)
    if record.measuring_copy is CopyState.WANTED:
        found = _copy(case)
        return _refused(case, found) if isinstance(found, readiness.Failed) else None
    return None


def measures_stable(case: Case) -> bool:
    """Whether the revision that serves users is one of the measured arms."""
    record = case.record
    return bool(record.stable) and record.stable == case.seen.history.stable


def arm(case: Case, digest: str) -> readiness.Readiness:
    """Return the pod to measure a revision on: the copy of the one that serves users, where there is one."""
    if digest == case.record.stable and case.record.measuring_copy is CopyState.WANTED:
        return _copy(case)
    return case.readiness(digest, wanted=1)


def bands(case: Case, asked: Sequence[int]) -> Sequence[int]:
    """Return the concurrencies that may be driven: all, unless one of the arms is a pod that serves users."""
    if not drives_users(case):
        return asked
    most = case.seen.owner.spec.rollout.analysis.max_probe_concurrency
    return [one for one in asked if one <= most] or [most]


def drives_users(case: Case) -> bool:
    """Whether one of the measured arms is a pod that serves users."""
    return measures_stable(case) and case.record.measuring_copy is not CopyState.WANTED


def serves_users(seen: observe.Observed, pod: podview.Pod) -> bool:
    """Whether the front Service leads users to this pod."""
    server = seen.servers.get(seen.front.selected) if seen.front else None
    return server is not None and any(one.uid == pod.uid for one in server.pods)


def freed(case: Case) -> RolloutRecord | None:
    """Return the record of a rollout that is held, and measures no more; None when it has no copy to free."""
    if case.record.measuring_copy not in {CopyState.ASKED, CopyState.WANTED}:
        return None
    changed = {"measuring_copy": CopyState.REFUSED, "copy_message": "The copy was freed when the rollout was held."}
    return case.record.model_copy(update=changed)


def in_words(case: Case) -> str:
    """Return which pod stands for stable, and what that leaves out; empty where stable is not measured."""
    record = case.record
    if record.purpose not in _MEASURED or not record.stable or record.decision is not None:
        return ""
    short = names.short(record.stable)
    if record.measuring_copy is CopyState.WANTED:
        return f"Revision {short} is measured on a copy that serves nobody."
    if record.measuring_copy is CopyState.ASKED:
        return f"Devices for a measuring copy of revision {short} are asked for."
    analysis = case.seen.owner.spec.rollout.analysis
    most = analysis.max_probe_concurrency
    said = f"Revision {short} is measured on a pod that serves users, with at most {most} requests in flight."
    left_out = [one for one in analysis.concurrencies if one > most]
    if left_out and not record.band:
        said += f" Concurrencies {', '.join(map(str, left_out))} are left out; rollout.analysis.maxProbeConcurrency."
    return f"{said} {record.copy_message}".strip()[:1024]


def _copy(case: Case) -> readiness.Readiness:
    revision = case.seen.revisions.get(case.record.stable)
    short = names.short(case.record.stable)
    awaited = readiness.Arm(
        short=short,
        server=case.seen.servers.get(workloads.copy_key(short)),
        wanted=1,
        speculates=bool(revision and revision.inputs.speculates),
    )
    return readiness.assess(awaited, case.deadlines, case.now)


def _why(case: Case) -> str:
    """Return why stable is not measured where it serves; empty when it can be."""
    analysis, record = case.seen.owner.spec.rollout.analysis, case.record
    match analysis.measuring_copy:
        case MeasuringCopy.NEVER:
            return ""
        case MeasuringCopy.ALWAYS:
            return "rollout.analysis.measuringCopy asks for it"
        case MeasuringCopy.AUTO:
            asked = [record.band] if record.band else analysis.concurrencies
            if max(asked) > analysis.max_probe_concurrency:
                return f"a serving pod may be given {analysis.max_probe_concurrency} requests, not {max(asked)}"
            users = bool(record.live_drafts) or _touched(case) or _busy(case)
            return "users keep its pods busy" if users else ""


def _touched(case: Case) -> bool:
    """Whether users' requests spoiled blocks of stable in the newest round."""
    record = case.record
    newest = [one for one in record.measurements if one.round == record.rounds]
    return any(one.arm == names.short(record.stable) and one.outcome in _TOUCHED for one in newest)


def _busy(case: Case) -> bool:
    """Whether stable's pods generated anything since the rollout began, before the probe did: that was for users."""
    if case.record.measuring_since is not None:
        return False
    since = conditions.parse_timestamp(case.record.started_at)
    return any(_generates([text for at, text in scrapes if at >= since]) for scrapes in case.seen.scrapes.values())


def _generates(texts: Sequence[str]) -> bool:
    if len(texts) < _A_DIFFERENCE:
        return False
    readings = [one for one in map(metrics.read, (texts[0], texts[-1])) if isinstance(one, metrics.Reading)]
    return len(readings) == _A_DIFFERENCE and bool(counters.increase(readings).generation_tokens)


def _asked(case: Case, why: str) -> Step:
    """Return the step that asks for a copy's devices; where nobody sees devices there is nothing to ask for."""
    if case.seen.devices is None:
        return _noted(case, why)
    short = names.short(case.record.stable)
    return Step(
        reason=RolloutReason.SCHEDULING,
        message=f"Devices for a measuring copy of revision {short} are asked for: {why}.",
        record=case.record.model_copy(update={"measuring_copy": CopyState.ASKED}),
    )


def _granted(case: Case) -> Step:
    """Return what becomes of a copy that was asked for, given who asked earlier."""
    if not (case.seen.standing.has_asked and case.seen.standing.is_whole):
        return seats.unread(case)
    if not _has_room(case):
        return _without(case, "others were promised the room there was.")
    return _noted(case, _why(case) or "it was asked for")


def _noted(case: Case, why: str) -> Step:
    short = names.short(case.record.stable)
    # The wait for the copy, and then the measuring, begin anew: neither is charged for what it cannot help.
    changed = {
        "measuring_copy": CopyState.WANTED,
        "measuring_since": None,
        "waiting_since": conditions.timestamp(case.now),
    }
    return Step(
        reason=RolloutReason.SCHEDULING,
        message=f"A measuring copy of revision {short} is being started: {why}.",
        record=case.record.model_copy(update=changed),
    )


def _has_room(case: Case) -> bool:
    """Whether one more replica would find a node, as far as anybody can know; stable's own places are not asked for."""
    if case.record.seating in claims.IN_STABLES_PLACE:
        return False
    stable = case.seen.revisions.get(case.record.stable)
    if stable is not None and volumes.in_vain(case, stable, 1):
        return False
    found = seats.room_for(case, case.record.stable, 1, beside_own=True)
    return found is None or found.is_enough


def _refused(case: Case, failed: readiness.Failed) -> Step:
    return _without(case, failed.message)


def _without(case: Case, why: str) -> Step:
    said = f"There is no measuring copy: {why}"[:1024]
    changed = {
        "measuring_copy": CopyState.REFUSED,
        "copy_message": said,
        "measuring_since": None,
        "waiting_since": conditions.timestamp(case.now),
    }
    return Step(reason=RolloutReason.MEASURING, message=said, record=case.record.model_copy(update=changed))
