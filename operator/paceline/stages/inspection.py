"""Inspect: facts about the target from its files, and whether they are whole, before a GPU is asked for.

The digest tells this target from any other: small files by content, weights by name, size and header. A changed
weight in an unchanged file of the same size is not seen; reading terabytes to see it would cost more than the
training.
"""

import hashlib
from pathlib import Path
from typing import Any, Final

import pydantic

from paceline.api import names, stages
from paceline.stages import heads, target_files, workspace
from paceline.stages.context import Context
from paceline.stages.failures import PermanentError

_STATE_BYTES: Final = 2
"""Hidden states are written as bfloat16."""
_GENERATION_FILES: Final = (target_files.CONFIG, "generation_config.json")


class TextConfig(pydantic.BaseModel):
    """The part of ``config.json`` that matters; a multimodal wrapper's text model has it one level down."""

    hidden_size: pydantic.PositiveInt
    num_hidden_layers: pydantic.PositiveInt
    vocab_size: pydantic.PositiveInt


def run(config: stages.InspectConfig, context: Context) -> stages.InspectResult:
    """Return what the files say.

    Raises:
        PermanentError: when they are missing, cut off, or not a model that a head can be trained for.
    """
    context.progress.update(0.1, "reading the target's files")
    folder = target_files.locate(config.target, weights=False)
    document = target_files.read_json(folder / target_files.CONFIG)
    text = parse_text_config(document)
    weights = read_weights(folder, config)
    layers = choose_layers(config.auxiliary_layers, layers=text.num_hidden_layers)
    tokenizer = tokenizer_digest(folder)
    facts = heads.Facts(
        digest=names.digest(
            {"files": small_digests(folder, _GENERATION_FILES), "weights": weights, "tokenizer": tokenizer}
        ),
        tokenizer_digest=tokenizer,
        hidden_size=text.hidden_size,
        layers=text.num_hidden_layers,
        vocabulary_size=text.vocab_size,
    )
    return stages.InspectResult(
        digest=facts.digest,
        tokenizer_digest=tokenizer,
        architecture=str(next(iter(document.get("architectures") or ["unknown"]))),
        hidden_size=facts.hidden_size,
        layers=facts.layers,
        vocabulary_size=facts.vocabulary_size,
        weights_bytes=sum(size for _, size, _ in weights),
        auxiliary_layers=layers,
        hidden_state_bytes_per_token=(len(layers) + 1) * facts.hidden_size * _STATE_BYTES,
        head_problems=_head_problems(config, facts),
    )


def _head_problems(config: stages.InspectConfig, facts: heads.Facts) -> list[str]:
    if config.head_path is None:
        return []
    head = stages.TargetRef(path=config.head_path)
    return heads.problems(
        head, facts, manifest_digest=config.head_manifest_digest, stands_alone=config.head_stands_alone
    )


def parse_text_config(document: dict[str, Any]) -> TextConfig:
    """Return the text model's sizes from a ``config.json``.

    Raises:
        PermanentError: naming the fields that are missing.
    """
    nested = document.get("text_config")
    try:
        return TextConfig.model_validate(nested if isinstance(nested, dict) else document)
    except pydantic.ValidationError as error:
        fields = ", ".join(str(problem["loc"][0]) for problem in error.errors())
        raise PermanentError(
            f"the target's config.json has no usable {fields}; "
            "target.uri must name a causal language model's checkpoint"
        ) from error


def choose_layers(wanted: list[int], *, layers: int) -> list[int]:
    """Return the layers whose inputs the head reads: those wanted, or EAGLE-3's own low, middle and high one.

    Raises:
        PermanentError: when a wanted layer does not exist.
    """
    if wanted:
        if wrong := [layer for layer in wanted if layer >= layers]:
            raise PermanentError(
                f"draft.auxiliaryLayers names layer {wrong[0]}; the target has layers 0 to {layers - 1}"
            )
        return wanted
    # Shallow models (tests) have no three distinct layers; what they have is used once.
    return sorted({min(2, layers - 1), layers // 2, max(0, layers - 3)})


def read_weights(folder: Path, config: stages.InspectConfig) -> list[tuple[str, int, str]]:
    """Return (name, bytes, digest of the header) of each weight file; a hub tells it without a download."""
    if config.target.path.startswith("/"):
        return [
            (file.path.name, file.size_bytes, hashlib.sha256(file.header).hexdigest())
            for file in target_files.weight_files(folder)
        ]
    from huggingface_hub import HfApi  # noqa: PLC0415 - only the trainer image has it

    info = HfApi().model_info(config.target.path, revision=config.target.revision, files_metadata=True)
    files = [entry for entry in info.siblings or [] if entry.rfilename.endswith(".safetensors")]
    if not files:
        raise PermanentError(
            f"target hf://{config.target.path} holds no *.safetensors; choose a safetensors checkpoint"
        )
    return [(file.rfilename, file.size or 0, file.lfs.sha256 if file.lfs else "") for file in files]


def tokenizer_digest(folder: Path) -> str:
    """Return the digest of all tokenizer files.

    Raises:
        PermanentError: when there are none.
    """
    found = small_digests(folder, target_files.TOKENIZER_FILES)
    if not found:
        raise PermanentError(
            f"{folder} holds no tokenizer (tokenizer.json or tokenizer.model); copy the whole checkpoint"
        )
    return names.digest(found)


def small_digests(folder: Path, wanted: tuple[str, ...]) -> dict[str, str]:
    """Return digests by name of those of the wanted files that exist."""
    return {name: workspace.file_digest(folder / name) for name in wanted if (folder / name).is_file()}
