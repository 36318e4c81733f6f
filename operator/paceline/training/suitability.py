"""Whether a head should and can be trained for the target, judged before anything is spent.

A target that drafts for itself needs none: the run ends as Skipped. What does not fit (parallelism, an engine that
hands out no hidden states, a volume that cannot hold them) refuses the spec; that ends nothing, since before the run
starts the spec may be edited. A run that has started is not judged again: a newer table must not stop what goes well.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.api import sources
from paceline.api.checkpoint import CheckpointStatus, Problem, Severity
from paceline.api.conditions import TrainingReason
from paceline.api.drafttrainingjob import DraftTrainingJobSpec, Stage
from paceline.checkpoints import auxiliary, decision, estimates, fit, inspection, start, summary, support
from paceline.checkpoints import problems as messages
from paceline.engines import base as engine_base
from paceline.planning import conditions
from paceline.training import observe, results, step, wording


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the spec cannot be run as it is."""

    reason: TrainingReason
    message: str


def judge(seen: observe.Observed, record: results.Record, now: float) -> results.Record:
    """Return the record, with an outcome when no head is needed, or when hidden states turn out not to fit.

    A skipped run has not started, so its spec may still be edited: told to train all the same, or given another target,
    it goes on. A newer table alone revives nothing.
    """
    if record.outcome is not None:
        revived = seen.spec.train_despite_mtp or record.inspection is None
        skipped = record.outcome.reason is TrainingReason.NATIVE_MTP
        return record.model_copy(update={"outcome": None}) if skipped and revived else record
    outcome = _skipped(seen, record, now) or _outgrown(seen, record, now)
    return record.model_copy(update={"outcome": outcome}) if outcome else record


def hold(seen: observe.Observed, record: results.Record) -> step.Step | None:
    """Return the step of a spec that is refused: nothing is begun; None when it is not refused."""
    return step.Step() if refusal(seen, record) is not None else None


def refusal(seen: observe.Observed, record: results.Record) -> Refusal | None:
    """Return why a run that has not started cannot be run as its spec says; None when it can, or it is not known."""
    if seen.start_time is not None or record.outcome is not None:
        return None
    if sources.locate(seen.spec.target.uri).path.startswith("s3://"):
        message = f"{seen.spec.target.uri} cannot be read by the trainer's tools; copy it to a volume and use pvc://CLAIM/PATH."
        return Refusal(reason=TrainingReason.TARGET_UNFIT, message=wording.clip(message))
    found = inspect(seen.spec, record)
    return (_unfit(seen.spec, record, found) or _too_large(seen.spec, record)) if found else None


def _unfit(spec: DraftTrainingJobSpec, record: results.Record, found: inspection.Inspection) -> Refusal | None:
    """Return what of target, engine or the head to start from forbids the run."""
    of_target = _errors(
        [
            *found.target.problems,
            *fit.check_target(found.target, found.serving),
            *fit.check_extraction(found.target, found.serving),
            *auxiliary.check_wanted(spec.draft.auxiliary_layers, found.target),
        ]
    )
    if of_target:
        return Refusal(reason=TrainingReason.TARGET_UNFIT, message=_sentences(of_target))
    of_start = _errors(_of_start(spec, record))
    return Refusal(reason=TrainingReason.START_UNFIT, message=_sentences(of_start)) if of_start else None


def _too_large(spec: DraftTrainingJobSpec, record: results.Record) -> Refusal | None:
    """Return that the hidden states do not fit the volume."""
    estimate = estimate_of(spec, record)
    too_small = _too_small(spec, estimate.hidden_bytes) if estimate else []
    return Refusal(reason=TrainingReason.WORKSPACE_TOO_SMALL, message=_sentences(too_small)) if too_small else None


def _errors(found: Sequence[Problem]) -> list[Problem]:
    return [one for one in found if one.severity is Severity.ERROR]


def inspect(spec: DraftTrainingJobSpec, record: results.Record) -> inspection.Inspection | None:
    """Return what the target's files amount to; None until they are read, or when an older version read them."""
    result = record.inspection
    return inspection.inspect(result.checkpoint, serving(spec)) if result and result.checkpoint else None


def serving(spec: DraftTrainingJobSpec) -> fit.Serving:
    """Return how the target is served while a head is trained for it."""
    engine, location = spec.engine, sources.locate(spec.target.uri)
    version = engine_base.version_of(engine)
    return fit.Serving(
        engine=support.Engine(name=engine.name.lower(), version=support.parse_version(version), text=version),
        tensor_parallel_size=engine.tensor_parallel_size,
        args=tuple(engine.args),
        target_name="" if location.claim else location.path,
    )


def estimate_of(spec: DraftTrainingJobSpec, record: results.Record) -> estimates.Estimate | None:
    """Return what extraction will need: exact once the data is prepared, an upper bound before; None without one."""
    result = record.inspection
    if result is None or result.checkpoint is None:
        return None
    tokens = record.preparation.train_tokens if record.preparation else _most_tokens(spec)
    if tokens is None:
        return None
    return estimates.extraction(
        result.checkpoint,
        tokens=tokens,
        aux_layers=len(result.auxiliary_layers),
        gpus=spec.engine.tensor_parallel_size,
    )


def status(spec: DraftTrainingJobSpec, record: results.Record) -> CheckpointStatus | None:
    """Return what the target's files say, for status."""
    found = inspect(spec, record)
    if found is None:
        return None
    estimate = estimate_of(spec, record)
    return summary.summarise(
        _with_start(found, spec, record), estimate=_in_words(estimate, is_exact=record.preparation is not None)
    )


def _with_start(
    found: inspection.Inspection, spec: DraftTrainingJobSpec, record: results.Record
) -> inspection.Inspection:
    """Return the inspection with the head that training starts from, and what is to be said of it."""
    source, result = spec.draft.start_from, record.inspection
    if source is None or result is None:
        return found
    said = _of_start(spec, record)
    decided = found.decision
    if decided.choice is decision.Choice.TRAIN and messages.is_valid(said):
        reasons = (*decided.reasons[:1], f"Training starts from the head at {source.uri}.")
        decided = dataclasses.replace(decided, choice=decision.Choice.WARM_START, reasons=reasons)
    return dataclasses.replace(found, head=result.head, decision=decided, problems=(*found.problems, *said))


def _of_start(spec: DraftTrainingJobSpec, record: results.Record) -> list[Problem]:
    """Return what is to be said of the head that training is to start from; nothing without one."""
    result = record.inspection
    if spec.draft.start_from is None or result is None or result.checkpoint is None:
        return []
    unread = [start.unreadable(one) for one in result.head_problems]
    if result.head is None:
        return unread or [start.unreadable("its files were not read; name another head or start from none")]
    wanted = start.Wanted(layers=spec.draft.layers, auxiliary_layers=tuple(result.auxiliary_layers))
    return [*unread, *start.check(result.checkpoint, result.head, wanted, target_name=serving(spec).target_name)]


def _skipped(seen: observe.Observed, record: results.Record, now: float) -> results.Outcome | None:
    """Return the outcome of a run for a target whose own MTP works; what was not seen is not believed."""
    if seen.spec.train_despite_mtp or seen.start_time is not None:
        return None
    found = inspect(seen.spec, record)
    if found is None or decision.is_mtp_usable(found.target, found.serving) is not True:
        return None
    message = (
        f"No head is trained. {' '.join(found.decision.reasons)} To train one all the same, set "
        "spec.trainDespiteMtp: true."
    )
    return results.Outcome(
        reason=TrainingReason.NATIVE_MTP, message=wording.clip(message), at=conditions.timestamp(now)
    )


def _outgrown(seen: observe.Observed, record: results.Record, now: float) -> results.Outcome | None:
    """Return the failure of a run whose data, now that it is counted, has hidden states beyond the volume."""
    if record.current is not Stage.EXTRACT or Stage.EXTRACT in seen.stage_jobs or record.preparation is None:
        return None
    estimate = estimate_of(seen.spec, record)
    too_small = _too_small(seen.spec, estimate.hidden_bytes) if estimate else []
    if not too_small:
        return None
    return results.Outcome(
        reason=TrainingReason.WORKSPACE_TOO_SMALL,
        message=wording.clip(f"{_sentences(too_small)} Do so in a new DraftTrainingJob."),
        at=conditions.timestamp(now),
        stage=Stage.EXTRACT,
    )


def _most_tokens(spec: DraftTrainingJobSpec) -> int | None:
    """Return the most tokens that can be trained on; None when the prompts are not counted beforehand."""
    samples = spec.data.prompts.max_samples
    if samples is None:
        return None
    return samples * (100 - spec.data.holdout_percent) // 100 * spec.data.sequence_length


def _too_small(spec: DraftTrainingJobSpec, hidden_bytes: int) -> list[Problem]:
    if spec.workspace.size is None:
        return []
    what = f"workspace claim {spec.workspace.claim_name} (workspace.size)"
    return estimates.check_volume(hidden_bytes, estimates.parse_quantity(spec.workspace.size), what=what)


def _in_words(estimate: estimates.Estimate | None, *, is_exact: bool) -> str:
    if estimate is None:
        return ""
    bound = "" if is_exact else "at most "
    return (
        f"Extraction of {bound}{estimate.tokens} tokens writes {bound}{estimates.in_words(estimate.hidden_bytes)} of "
        f"hidden states and takes very roughly {wording.duration(estimate.seconds)} on {estimate.gpus} GPUs."
    )


def _sentences(problems: Sequence[Problem]) -> str:
    said = "; ".join(dict.fromkeys(one.message for one in problems))
    return wording.clip(f"{messages.sentence(said)}.")
