"""Reads target and head through a small Job, once for each pair: its answer outlives the Job in a ConfigMap.

The Job's name is a digest of what it reads, so an edit of the sources makes another inspection, a re-apply makes none.
A permanent answer is never asked for again; a transient one is, after a pause.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pydantic

from paceline.api import names, report, sources, stages
from paceline.api.sources import ModelSource
from paceline.planning import conditions, kinds, plan
from paceline.rollout.documents import chores, revisions, workloads
from paceline.rollout.view import observe, parts
from paceline.workloads import pods

RESULT_KEY: Final = "result.json"
TARGET_KEY: Final = "target"
FINISHED_KEY: Final = "finished-at"
# A source that could not be reached is asked again so long after the last try.
RETRY_S: Final = 600.0
_PODS_S: Final = 15.0
_TARGET_CREDENTIALS: Final = f"{stages.CREDENTIALS_DIR}/target"
_HEAD_CREDENTIALS: Final = f"{stages.CREDENTIALS_DIR}/head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is to be read."""

    target: ModelSource
    head: revisions.DraftInput | None
    head_credentials: str | None = None
    """The Secret to read the head with; no part of what is served."""

    @property
    def target_digest(self) -> str:
        """Identity of the target's source alone."""
        return names.digest(self.target.wire())

    @property
    def digest(self) -> str:
        """Identity of the pair."""
        pair = {"target": self.target.wire(), "head": self.head.wire() if self.head else None}
        return names.digest(pair | ({"headCredentials": self.head_credentials} if self.head_credentials else {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What is known of the subject."""

    result: stages.InspectResult | None = None
    """None while it is being read, and when it cannot be."""
    target: stages.InspectResult | None = None
    """The same target as read before with another head; serves without a draft need no more."""
    error: str = ""
    """Why it cannot be read, and what to change."""
    actions: tuple[plan.Action, ...] = ()
    clean_up: tuple[plan.Action, ...] = ()
    look_again_s: float | None = None


def inspect(seen: observe.Observed, subject: Subject, now: float) -> Inspection:
    """Return what is known of ``subject``, and the writes that find out the rest."""
    name = names.child(seen.owner.name, workloads.INSPECT, subject.digest)
    document, job = seen.documents.get(name), seen.inspections.get(name)
    earlier = _earlier(seen, subject)
    if document is not None and RESULT_KEY in document.data:
        return _answered(seen, document, earlier=earlier, now=now)
    if document is None or job is None:
        return Inspection(target=earlier, actions=tuple(_start(seen, subject, name)))
    if job.has_told(now) and not job.deleting:
        stored = _store(seen, subject, document, job, now=now)
        return Inspection(target=earlier, actions=(stored,))
    return Inspection(target=earlier, look_again_s=_PODS_S if job.finished else None)


def _answered(
    seen: observe.Observed, document: parts.Document, *, earlier: stages.InspectResult | None, now: float
) -> Inspection:
    told = _told(document)
    if told.result is None and not told.permanent:
        retry_in = _finished_at(document) + RETRY_S - now
        if retry_in <= 0:
            return Inspection(target=earlier, error=told.error, actions=(_forget(seen, document),))
        return Inspection(target=earlier, error=told.error, clean_up=_others(seen, document), look_again_s=retry_in)
    result = told.result if isinstance(told.result, stages.InspectResult) else None
    return Inspection(result=result, target=result or earlier, error=told.error, clean_up=_others(seen, document))


def _told(document: parts.Document) -> stages.StageReport:
    try:
        told = stages.StageReport.model_validate_json(document.data[RESULT_KEY])
    except pydantic.ValidationError:
        return stages.StageReport(error=f"ConfigMap {document.name} holds no readable result; it is read again")
    if told.result is None and not told.error:
        return stages.StageReport(error="the inspection reported nothing")
    return told


def _finished_at(document: parts.Document) -> float:
    try:
        return conditions.parse_timestamp(document.data.get(FINISHED_KEY, ""))
    except ValueError:
        return 0.0


def _earlier(seen: observe.Observed, subject: Subject) -> stages.InspectResult | None:
    """Return what another inspection found of the same target."""
    for document in seen.documents.values():
        if document.data.get(TARGET_KEY) == subject.target_digest and RESULT_KEY in document.data:
            result = _told(document).result
            if isinstance(result, stages.InspectResult):
                return result
    return None


def _start(seen: observe.Observed, subject: Subject, name: str) -> Sequence[plan.Action]:
    config, uris = _config(seen, subject)
    actions: list[plan.Action] = []
    if name not in seen.documents:
        data = {
            workloads.CONFIG_KEY: config.model_dump_json(by_alias=True, exclude_none=True),
            TARGET_KEY: subject.target_digest,
        }
        actions.append(plan.Create(manifest=workloads.config_map(seen.owner, name, part=workloads.INSPECT, data=data)))
    if name not in seen.inspections:
        job = chores.inspect_job(seen.owner, name, config, uris=uris, secrets=_secrets(subject))
        actions.append(plan.Create(manifest=job))
    return actions


def _secrets(subject: Subject) -> dict[str, str]:
    """Return the Secrets to mount, by path."""
    named = {_TARGET_CREDENTIALS: subject.target.credentials_secret, _HEAD_CREDENTIALS: subject.head_credentials}
    return {path: secret for path, secret in named.items() if secret}


def _config(seen: observe.Observed, subject: Subject) -> tuple[stages.InspectConfig, list[str]]:
    """Return the Job's configuration, and the URIs it has to reach."""
    target, head = subject.target, subject.head
    config = stages.InspectConfig(
        job_name=seen.owner.name,
        job_uid=seen.owner.uid,
        workspace=pods.SCRATCH,
        target=stages.TargetRef(
            path=sources.locate(target.uri).path,
            revision=target.revision,
            trust_remote_code=target.trust_remote_code,
            credentials_path=_TARGET_CREDENTIALS if target.credentials_secret else None,
        ),
        head_path=sources.locate(head.uri).path if head else None,
        head_manifest_digest=head.manifest_digest if head else None,
        head_revision=head.revision if head else None,
        head_credentials_path=_HEAD_CREDENTIALS if head and subject.head_credentials else None,
    )
    return config, [target.uri, *([head.uri] if head else [])]


def _store(
    seen: observe.Observed, subject: Subject, document: parts.Document, job: parts.Work, *, now: float
) -> plan.Action:
    """Return the write that makes a finished Job's answer durable."""
    data = {
        **document.data,
        TARGET_KEY: subject.target_digest,
        RESULT_KEY: _answer(job).model_dump_json(by_alias=True, exclude_none=True),
        FINISHED_KEY: conditions.timestamp(now),
    }
    manifest = workloads.config_map(seen.owner, document.name, part=workloads.INSPECT, data=data)
    return plan.Apply(manifest=manifest, uid=document.uid)


def _answer(job: parts.Work) -> stages.StageReport:
    """Return the newest pod's report, or what is known without one."""
    for pod in reversed(job.pods):
        if not pod.message:
            continue
        try:
            told = report.decode(pod.message, stages.StageReport)
        except report.UnreadableReportError:
            return stages.StageReport(error=f"the inspection's pod {pod.name} ended with {pod.last_exit}"[:1024])
        if told.result is None or isinstance(told.result, stages.InspectResult):
            return told
    return stages.StageReport(error=f"the inspection brought no report ({job.failed or 'its pod is gone'})"[:1024])


def _others(seen: observe.Observed, kept: parts.Document) -> tuple[plan.Action, ...]:
    """Return the deletion of every inspection but this answered one, and of its own Job, whose answer is stored."""
    jobs = [
        workloads.delete(seen.owner, kinds.JOB, name=job.name, uid=job.uid)
        for job in seen.inspections.values()
        if not job.deleting
    ]
    documents = [
        _forget(seen, one) for one in seen.documents.values() if one.name != kept.name and TARGET_KEY in one.data
    ]
    return (*jobs, *documents)


def _forget(seen: observe.Observed, document: parts.Document) -> plan.Action:
    return workloads.delete(seen.owner, kinds.CONFIG_MAP, name=document.name, uid=document.uid)
