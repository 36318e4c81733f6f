"""What each stage is told: the spec, and what the stages before it found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from paceline.api import stages
from paceline.api.drafttrainingjob import DraftTrainingJobSpec, Stage
from paceline.training import observe, places, results
from paceline.workloads import pods

SERVER_URL: Final = f"http://127.0.0.1:{stages.ENGINE_PORT}"
TARGET_CREDENTIALS: Final = f"{stages.CREDENTIALS_DIR}/target"
START_CREDENTIALS: Final = f"{stages.CREDENTIALS_DIR}/head"
PROMPTS_FILE: Final = f"{stages.PROMPTS_DIR}/prompts.jsonl"
# Inspect leaves nothing behind. Mounting the workspace there could bind a volume that waits for its first consumer to a
# node without the accelerators that the later stages need.
_INSPECT_WORKSPACE: Final = f"{pods.SCRATCH}/workspace"

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that a stage's configuration and pod are made from."""

    name: str
    uid: str
    spec: DraftTrainingJobSpec
    record: results.Record
    folders: places.Places

    @property
    def common(self) -> dict[str, object]:
        """Fields of every configuration."""
        return {
            "job_name": self.name,
            "job_uid": self.uid,
            "workspace": self.folders.workspace.path,
            "target": self.target,
        }

    @property
    def target(self) -> stages.TargetRef:
        """The target as a pod sees it."""
        target = self.spec.target
        return stages.TargetRef(
            path=self.folders.target.path,
            revision=target.revision,
            trust_remote_code=target.trust_remote_code,
        )

    @property
    def start(self) -> stages.TargetRef | None:
        """The head to start from, likewise; None for random weights."""
        source, place = self.spec.draft.start_from, self.folders.start
        return stages.TargetRef(path=place.path, revision=source.revision) if source and place else None


def known(seen: observe.Observed, record: results.Record) -> Known:
    """Return what the next stage's pod is made from."""
    return Known(
        name=seen.name,
        uid=seen.uid,
        spec=seen.spec,
        record=record,
        folders=places.locate(seen.spec, seen.uid),
    )


def needed(result: ResultT | None) -> ResultT:
    """Return a result that an earlier stage must have left; stages are begun in order, so its absence is our fault."""
    if result is None:
        raise AssertionError("a stage was begun before the one it builds on had a result")
    return result


def config(stage: Stage, known: Known) -> stages.StageConfig:
    """Return the configuration of ``stage``."""
    return _CONFIGS[stage](known)


def _inspect(known: Known) -> stages.StageConfig:
    target, secret = known.target, known.spec.target.credentials_secret
    return stages.InspectConfig.model_validate(
        {
            **known.common,
            "target": target.model_copy(update={"credentials_path": TARGET_CREDENTIALS if secret else None}),
            "workspace": _INSPECT_WORKSPACE,
            "auxiliary_layers": known.spec.draft.auxiliary_layers,
            **_inspected_start(known),
        }
    )


def _inspected_start(known: Known) -> dict[str, object]:
    """Return what Inspect is told of the head to start from; nothing without one."""
    source, start = known.spec.draft.start_from, known.start
    if source is None or start is None:
        return {}
    return {
        "head_path": start.path,
        "head_revision": start.revision,
        "head_manifest_digest": source.manifest_digest,
        "head_credentials_path": START_CREDENTIALS if source.credentials_secret else None,
    }


def _prepare(known: Known) -> stages.StageConfig:
    data = known.spec.data
    answers = data.regeneration
    return stages.PrepareConfig.model_validate(
        {
            **known.common,
            "prompts_path": known.folders.prompts.path if known.folders.prompts else PROMPTS_FILE,
            "max_samples": data.prompts.max_samples,
            "holdout_percent": data.holdout_percent,
            "sequence_length": data.sequence_length,
            "regenerate": answers.enabled,
            "max_tokens": answers.max_tokens,
            "concurrency": answers.concurrency,
            "server_url": SERVER_URL if answers.enabled else None,
        }
    )


def _extract(known: Known) -> stages.StageConfig:
    extraction = known.spec.extraction
    return stages.ExtractConfig.model_validate(
        {
            **known.common,
            "server_url": SERVER_URL,
            "concurrency": extraction.concurrency,
            "sequence_length": known.spec.data.sequence_length,
            "min_agreement_percent": extraction.min_agreement_percent,
            "hidden_states_path": known.folders.hidden_states,
        }
    )


def _train(known: Known) -> stages.StageConfig:
    draft, training = known.spec.draft, known.spec.training
    return stages.TrainConfig.model_validate(
        {
            **known.common,
            "layers": draft.layers,
            "vocabulary_size": draft.vocabulary_size,
            "auxiliary_layers": needed(known.record.inspection).auxiliary_layers,
            "epochs": training.epochs,
            "learning_rate": float(training.learning_rate),
            "total_sequence_length": training.total_sequence_length,
            "ttt_steps": training.ttt_steps,
            "seed": training.seed,
            "hidden_states_path": known.folders.hidden_states,
            "start": known.start,
            "start_manifest_digest": draft.start_from.manifest_digest if draft.start_from else None,
        }
    )


def _evaluate(known: Known) -> stages.StageConfig:
    evaluation = known.spec.evaluation
    return stages.EvaluateConfig.model_validate(
        {
            **known.common,
            "server_url": SERVER_URL,
            "head_path": needed(known.record.training).checkpoint,
            "speculative_tokens": evaluation.speculative_tokens,
            "min_acceptance_length": float(evaluation.min_acceptance_length),
            "max_prompts": evaluation.max_prompts,
            "max_tokens": evaluation.max_tokens,
        }
    )


def _publish(known: Known) -> stages.StageConfig:
    return stages.PublishConfig.model_validate(
        {
            **known.common,
            "head_path": needed(known.record.training).checkpoint,
            "output_path": known.folders.output.path,
            "evaluation": needed(known.record.evaluation),
            "inspection": needed(known.record.inspection),
        }
    )


_CONFIGS: Final[Mapping[Stage, Callable[[Known], stages.StageConfig]]] = {
    Stage.INSPECT: _inspect,
    Stage.PREPARE: _prepare,
    Stage.EXTRACT: _extract,
    Stage.TRAIN: _train,
    Stage.EVALUATE: _evaluate,
    Stage.PUBLISH: _publish,
}
