"""Whether target, head, engine and parallelism of a spec fit, judged from what Inspect read, before a server is made.

Judged anew in every pass: an edit of engine or parallelism reads nothing again, and a table that has learnt more judges
better. What an older version read has no facts to judge; the measurement then decides alone.
"""

from collections.abc import Sequence
from typing import Final

from paceline.api import sources, stages
from paceline.api.checkpoint import Problem, Severity
from paceline.api.conditions import RolloutReason
from paceline.api.speculation import Method, SpeculationSpec
from paceline.api.speculativedeployment import SpeculativeDeploymentSpec
from paceline.checkpoints import decision, fit, support
from paceline.checkpoints import inspection as checkpoints
from paceline.engines import base as engine_base
from paceline.engines import methods

_ENGINES_FAULT: Final = frozenset({"EngineUnsupported", "HeadArchitectureUnsupported"})
"""Findings that another version of the engine would not have."""


def judge(
    spec: SpeculativeDeploymentSpec, target: stages.InspectResult, *, with_head: bool
) -> checkpoints.Inspection | None:
    """Return the whole judgement; None when the files were read by a version that reported no facts.

    Args:
        spec: the wanted state.
        target: what Inspect read.
        with_head: whether the head that it read is the spec's.
    """
    if target.checkpoint is None:
        return None
    return checkpoints.inspect(target.checkpoint, serving(spec), head=target.head if with_head else None)


def serving(spec: SpeculativeDeploymentSpec) -> fit.Serving:
    """Return how the spec wants the target served."""
    engine, wanted = spec.engine, spec.speculation
    version = engine_base.version_of(engine)
    location = sources.locate(spec.target.uri)
    return fit.Serving(
        engine=support.Engine(name=engine.name.lower(), version=support.parse_version(version), text=version),
        tensor_parallel_size=engine.tensor_parallel_size,
        draft_tensor_parallel_size=wanted.draft_tensor_parallel_size,
        args=tuple(engine.args),
        method=methods.word(wanted.method) if _is_named(wanted) else "",
        target_name="" if location.claim or location.path.startswith("s3://") else location.path,
    )


def _is_named(wanted: SpeculationSpec) -> bool:
    """Whether a head is to be run in a way that the spec names."""
    return wanted.method is not Method.AUTO and bool(wanted.draft or wanted.training_job_ref)


def of_target(found: checkpoints.Inspection | None) -> str:
    """Return why the target cannot be served so at all, with what to change; empty when it can."""
    if found is None:
        return ""
    return _sentences([*found.target.problems, *fit.check_target(found.target, found.serving)])


def of_method(spec: SpeculativeDeploymentSpec, found: checkpoints.Inspection | None) -> str:
    """Return why the target does not draft for itself as the spec wants; empty when it may."""
    if found is None or spec.speculation.method is not Method.MTP or spec.speculation.draft is not None:
        return ""
    if decision.is_mtp_usable(found.target, found.serving) is not False:
        return ""
    return f"method MTP cannot be used. {' '.join(found.decision.reasons)} Set another method."[:1024]


def of_head(found: checkpoints.Inspection | None) -> tuple[list[str], RolloutReason]:
    """Return why the head cannot be used, each with what to change, and the reason of the condition."""
    if found is None or found.head is None:
        return [], RolloutReason.HEAD_MISMATCH
    wrong = [
        one
        for one in [*found.head.problems, *fit.check_head(found.target, found.head, found.serving)]
        if one.severity is Severity.ERROR
    ]
    all_engines = bool(wrong) and all(one.code in _ENGINES_FAULT for one in wrong)
    reason = RolloutReason.METHOD_UNSUPPORTED if all_engines else RolloutReason.HEAD_MISMATCH
    return list(dict.fromkeys(one.message for one in wrong)), reason


def warnings(found: checkpoints.Inspection | None) -> int:
    """Return how many warnings there are."""
    return sum(1 for one in found.problems if one.severity is Severity.WARNING) if found else 0


def _sentences(problems: Sequence[Problem]) -> str:
    wrong = dict.fromkeys(one.message for one in problems if one.severity is Severity.ERROR)
    return "; ".join(wrong)[:1000]
