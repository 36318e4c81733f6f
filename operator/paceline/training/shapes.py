"""Which pod a stage gets: who its neighbours are, where it may run, and what it asks of the node."""

from collections.abc import Mapping
from typing import Any

from paceline.api import base, stages
from paceline.api.drafttrainingjob import Stage
from paceline.api.podparts import PodTemplate, Resources
from paceline.engines.base import Extraction, ServeRequest, Speculation
from paceline.training import configs


def engine_request(stage: Stage, known: configs.Known) -> ServeRequest | None:
    """Return the server that runs beside ``stage``; None for a stage that needs none."""
    speculation: Speculation | None = None
    extraction: Extraction | None = None
    if stage is Stage.PREPARE and known.spec.data.regeneration.enabled:
        pass
    elif stage is Stage.EXTRACT:
        found = configs.needed(known.record.inspection)
        # The last id is not a layer: it stands for what the final norm reads, by which the logits are rebuilt.
        extraction = Extraction(
            auxiliary_layers=(*found.auxiliary_layers, found.layers), hidden_states_path=known.folders.hidden_states
        )
    elif stage is Stage.EVALUATE:
        speculation = Speculation(
            method="eagle3",
            num_speculative_tokens=known.spec.evaluation.speculative_tokens,
            draft_path=configs.needed(known.record.training).checkpoint,
        )
    else:
        return None
    target, engine = known.spec.target, known.spec.engine
    return ServeRequest(
        model=known.folders.target.path,
        revision=target.revision,
        trust_remote_code=target.trust_remote_code,
        tensor_parallel_size=engine.tensor_parallel_size,
        port=stages.ENGINE_PORT,
        args=engine.args,
        speculation=speculation,
        extraction=extraction,
    )


def trainer(stage: Stage, template: PodTemplate) -> PodTemplate:
    """Return the main container's part: only Train computes on the accelerator, every other stage must not hold one.

    Extended resources are those with a domain in their name, such as ``nvidia.com/gpu``.
    """
    if stage is Stage.TRAIN:
        return template
    asked = template.resources
    return template.model_copy(
        update={"resources": Resources(requests=_plain(asked.requests), limits=_plain(asked.limits))}
    )


def pod(trainer: PodTemplate, engine: PodTemplate | None) -> PodTemplate:
    """Return the pod-level parts of a pod that holds both: where they differ the engine's win, since it has the needs.

    The user is one for the whole pod, so that both containers may write to what the other made.
    """
    if engine is None:
        return trainer
    pick = _pick(trainer, engine)
    return trainer.model_copy(
        update={
            **pick,
            "labels": {**trainer.labels, **engine.labels},
            "annotations": {**trainer.annotations, **engine.annotations},
            "node_selector": {**trainer.node_selector, **engine.node_selector},
            "tolerations": _union(trainer.tolerations, engine.tolerations),
            "image_pull_secrets": _union(trainer.image_pull_secrets, engine.image_pull_secrets),
            "termination_grace_period": _longer(trainer.termination_grace_period, engine.termination_grace_period),
        }
    )


def _pick(trainer: PodTemplate, engine: PodTemplate) -> Mapping[str, Any]:
    fields = (
        "affinity",
        "service_account_name",
        "priority_class_name",
        "runtime_class_name",
        "shared_memory",
        "run_as_user",
    )
    return {name: getattr(trainer, name) if getattr(engine, name) is None else getattr(engine, name) for name in fields}


def _plain(resources: Mapping[str, str]) -> dict[str, str]:
    return {name: quantity for name, quantity in resources.items() if "/" not in name}


def _union(first: list[Any], second: list[Any]) -> list[Any]:
    return [*first, *(one for one in second if one not in first)]


def _longer(first: str | None, second: str | None) -> str | None:
    known = [one for one in (first, second) if one]
    return max(known, key=base.parse_duration) if known else None
