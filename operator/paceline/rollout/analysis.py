"""Measures: one probe Job a round, its blocks stored before the Job goes.

A report comes from a pod in a tenant's namespace: blocks of arms or concurrencies that nobody asked for are dropped,
and the round is the one that was asked for.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from paceline.api import base, names, report, sources, stages
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Measurement, ProbeArm, ProbeConfig, ProbeReport, RolloutRecord
from paceline.api.stages import LiveProgress
from paceline.planning import conditions, kinds, plan
from paceline.rollout.documents import chores, workloads
from paceline.rollout.places import copies
from paceline.rollout.steps import Case, Step
from paceline.rollout.view import observe, parts, podview

MAX_PROBE_FAILURES: Final = 3
MAX_BLOCKS_A_ROUND: Final = 64
# A record lies in one ConfigMap of at most 1 MiB; a block takes some 550 bytes.
MAX_MEASUREMENTS: Final = 1870
_POLL_S: Final = 15.0


def out_of_time(case: Case) -> str:
    """Return why measuring has to end without a verdict; empty while it may go on."""
    record, analysis = case.record, case.seen.owner.spec.rollout.analysis
    if record.probe_failures >= MAX_PROBE_FAILURES:
        return (
            f"The probe brought no measurement {record.probe_failures} times in a row; the last said: {record.message}"
        )
    if not record.turns and record.rounds - record.carried_rounds >= analysis.max_rounds:
        return f"{record.rounds} rounds did not decide it; raise rollout.analysis.maxRounds or requestsPerSlot."
    if len(record.measurements) + MAX_BLOCKS_A_ROUND > MAX_MEASUREMENTS:
        return f"{len(record.measurements)} blocks did not decide it, and one record holds no more."
    if _is_cold(case):
        return f"rollout.deadlines.warmUp ({case.deadlines.warm_up}) is over: the arms do not answer the probe."
    if record.measuring_since and case.now >= deadline(case):
        return f"rollout.deadlines.analysis ({case.deadlines.analysis}) is over after {record.rounds} rounds."
    return ""


def overdue(case: Case) -> RolloutReason | None:
    """Return the deadline that is over; None while none is."""
    if case.now >= deadline(case):
        return RolloutReason.ANALYSIS_DEADLINE_EXCEEDED
    return RolloutReason.WARM_UP_DEADLINE_EXCEEDED if _is_cold(case) else None


def _is_cold(case: Case) -> bool:
    """Whether the first probe has said for too long that no arm answers it; one that was never heard says nothing."""
    job = case.seen.probes.get(probe_name(case))
    if case.record.rounds or job is None or job.finished:
        return False
    span = base.parse_duration(case.deadlines.warm_up).total_seconds()
    return any(
        pod.scheduled_at is not None
        and pod.uid in case.seen.progress
        and case.seen.progress[pod.uid].percent == 0
        and case.now >= pod.scheduled_at + span
        for pod in job.pods
    )


def deadline(case: Case) -> float:
    """Return when measuring must be over; infinite before it began."""
    if case.record.measuring_since is None:
        return float("inf")
    span = base.parse_duration(case.deadlines.analysis).total_seconds()
    return conditions.parse_timestamp(case.record.measuring_since) + span


def finished_round(case: Case) -> Step | None:
    """Return the step that makes a finished probe's answer durable; None while there is none.

    Blocks that may not be used are evidence too, of who spoiled them, and the judge leaves them out: a probe has failed
    when it brought no block at all.
    """
    name = probe_name(case)
    job = case.seen.probes.get(name)
    if job is None or not job.has_told(case.now) or job.deleting:
        return None
    told = _told(job)
    blocks = _usable(case, told.measurements)
    if not blocks:
        why = told.error or "the report holds no block of the arms that were asked for"
        failures = MAX_PROBE_FAILURES if told.permanent else case.record.probe_failures + 1
        record = case.record.model_copy(update={"probe_failures": failures, "message": why[:1024]})
        return Step(reason=RolloutReason.MEASURING, message=f"The probe failed: {why}"[:1024], record=record)
    number = case.record.rounds + 1
    record = case.record.model_copy(
        update={
            "measurements": [*case.record.measurements, *blocks],
            "rounds": number,
            "probe_failures": 0,
            "message": told.error,
        }
    )
    said = f"Round {number} is measured. {told.error}".strip()[:1024]
    return Step(reason=RolloutReason.MEASURING, message=said, record=record)


def _told(job: parts.Work) -> ProbeReport:
    for pod in reversed(job.pods):
        if not pod.message:
            continue
        try:
            return report.decode(pod.message, ProbeReport)
        except report.UnreadableReportError:
            return ProbeReport(error=f"pod {pod.name} ended with {pod.last_exit or job.failed}"[:1024])
    return ProbeReport(error=f"the probe brought no report ({job.failed or 'its pod is gone'})"[:1024])


def _usable(case: Case, measurements: Sequence[Measurement]) -> list[Measurement]:
    asked = set(concurrencies(case))
    arms = {names.short(one) for one in (case.record.candidate, case.record.control, case.record.stable) if one}
    return [
        one.model_copy(update={"round": case.record.rounds + 1})
        for one in measurements[:MAX_BLOCKS_A_ROUND]
        if one.arm in arms and one.concurrency in asked
    ]


def concurrencies(case: Case) -> Sequence[int]:
    """Return the bands that are driven: the guard's one, or the spec's, as far as a serving pod among them may be."""
    asked = [case.record.band] if case.record.band else case.seen.owner.spec.rollout.analysis.concurrencies
    return copies.bands(case, asked)


def next_round(case: Case, arms: Mapping[str, podview.Pod]) -> Step:
    """Return the step that has one more round measured.

    Args:
        case: the open rollout.
        arms: a ready pod by digest, candidate first.
    """
    name, number = probe_name(case), case.record.rounds + 1
    job = case.seen.probes.get(name)
    began = case.record if case.record.measuring_since else _begun(case)
    until = deadline(Case(seen=case.seen, record=began, now=case.now))
    actions = () if job else _start(case, name, _config(case, arms))
    return Step(
        reason=_phase(case, job),
        message=f"Round {number} of at most {case.seen.owner.spec.rollout.analysis.max_rounds} is measured on"
        f" {', '.join(names.short(digest) for digest in arms)}.{_pause(case, job)}",
        record=None if began is case.record else began,
        job=name,
        actions=actions,
        look_again_s=min(until - case.now, _POLL_S),
    )


def _begun(case: Case) -> RolloutRecord:
    return case.record.model_copy(update={"measuring_since": conditions.timestamp(case.now)})


def _phase(case: Case, job: parts.Work | None) -> RolloutReason:
    """Return WarmingUp until the first probe reports progress: its first completions prove that engines decode."""
    measuring = case.record.rounds > 0 or any(one.percent > 0 for one in _heard(case, job))
    return RolloutReason.MEASURING if measuring else RolloutReason.WARMING_UP


def _pause(case: Case, job: parts.Work | None) -> str:
    """Return that the probe leaves a serving pod to its users just now; empty when it does not."""
    if not any(one.paused for one in _heard(case, job)):
        return ""
    limit_ms = case.seen.owner.spec.rollout.analysis.users_ttft_limit_ms
    return f" The probe pauses: users wait longer than usersTtftLimitMs ({limit_ms}) for their first tokens."


def _heard(case: Case, job: parts.Work | None) -> Sequence[LiveProgress]:
    """Return what the probe's pods said last."""
    return [case.seen.progress[pod.uid] for pod in job.pods if pod.uid in case.seen.progress] if job else []


def probe_name(case: Case) -> str:
    """Return the name of the Job that measures the round at hand, and of its ConfigMap."""
    owner, record = case.seen.owner, case.record
    again = f"/{record.measured_anew}" if record.measured_anew else ""
    return names.child(
        owner.name, workloads.PROBE, f"{owner.uid}/{record.number}/{record.rounds + 1}/{record.probe_failures}{again}"
    )


def _config(case: Case, arms: Mapping[str, podview.Pod]) -> ProbeConfig:
    analysis = case.seen.owner.spec.rollout.analysis
    return ProbeConfig(
        arms=[
            ProbeArm(
                arm=names.short(digest),
                url=f"http://{pod.ip}:{stages.ENGINE_PORT}",
                pod_uid=pod.uid,
                node=pod.node,
                load=pod.restarts,
                serves_users=copies.serves_users(case.seen, pod),
            )
            for digest, pod in arms.items()
        ],
        model=_model(case),
        prompts_path=chores.prompts_path(case.seen.owner.spec),
        max_prompts=analysis.prompts.max_samples,
        prompt_bounds=analysis.prompt_bounds or [],
        concurrencies=list(concurrencies(case)),
        requests_per_slot=analysis.requests_per_slot,
        max_tokens=analysis.max_tokens,
        round=case.record.rounds + 1,
        users_ttft_limit_ms=analysis.users_ttft_limit_ms,
    )


def _model(case: Case) -> str:
    """Return the name under which the arms serve: by their own target, which the spec may have moved on from."""
    revision = case.seen.revisions.get(case.record.candidate)
    target = revision.inputs.target if revision else case.seen.owner.spec.target
    return sources.locate(target.uri).path


def _start(case: Case, name: str, config: ProbeConfig) -> tuple[plan.Action, ...]:
    """Return the writes of ConfigMap and Job; a ConfigMap without a Job may name pods that are gone: it is renewed."""
    owner = case.seen.owner
    data = {workloads.CONFIG_KEY: config.model_dump_json(by_alias=True, exclude_none=True)}
    manifest = workloads.config_map(owner, name, part=workloads.PROBE, data=data)
    document = case.seen.documents.get(name)
    actions: list[plan.Action] = []
    if document is None:
        actions.append(plan.Create(manifest=manifest))
    elif dict(document.data) != data:
        actions.append(plan.Apply(manifest=manifest, uid=document.uid))
    job = chores.probe_job(owner, name, config, record_number=case.record.number)
    return (*actions, plan.Create(manifest=job))


def superfluous(seen: observe.Observed, kept: str) -> Sequence[plan.Action]:
    """Return the deletion of every probe Job and configuration but the one that is at work."""
    jobs = [
        workloads.delete(seen.owner, kinds.JOB, name=job.name, uid=job.uid)
        for job in seen.probes.values()
        if job.name != kept and not job.deleting
    ]
    documents = [
        workloads.delete(seen.owner, kinds.CONFIG_MAP, name=one.name, uid=one.uid)
        for one in seen.documents.values()
        if one.part == workloads.PROBE and one.name != kept
    ]
    return [*jobs, *documents]
