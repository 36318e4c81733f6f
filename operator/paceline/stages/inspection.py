"""Inspect: facts about the target from its files, and whether they are whole, before a GPU is asked for.

The digest tells this target from any other: small files by content, weights by name, size and header. A changed
weight in an unchanged file of the same size is not seen; reading terabytes to see it would cost more than the
training.
"""

from pathlib import Path
from typing import Final

from paceline.api import names, stages
from paceline.api.checkpoint import TargetCheckpoint
from paceline.checkpoints import auxiliary
from paceline.stages import checkpoint_facts, heads, reading, target_files, workspace
from paceline.stages.context import Context
from paceline.stages.failures import PermanentError

_GENERATION_FILES: Final = (target_files.CONFIG, "generation_config.json")


def run(config: stages.InspectConfig, context: Context) -> stages.InspectResult:
    """Return what the files say.

    Raises:
        PermanentError: when they are missing, cut off, or not a model that a head can be trained for.
    """
    context.progress.update(0.1, "reading the target's files")
    with reading.open_place(config.target) as place:
        return _look(config, place)


def _look(config: stages.InspectConfig, place: reading.Place) -> stages.InspectResult:
    folder = place.folder
    # Before anything is listed: a source without a configuration is told as such.
    target_files.read_json(folder / target_files.CONFIG)
    weights = reading.list_weights(place, config.target)
    facts = checkpoint_facts.of_target(place.files)
    hidden_size, layers, vocabulary_size = sizes(facts)
    auxiliary_layers = choose_layers(config.auxiliary_layers, layers=layers)
    tokenizer = tokenizer_digest(folder)
    digest = names.digest(
        {"files": small_digests(folder, _GENERATION_FILES), "weights": weights, "tokenizer": tokenizer}
    )
    facts = facts.model_copy(update={"digest": digest})
    head = _read_head(config, facts, tokenizer)
    return checkpoint_facts.within_report(
        stages.InspectResult(
            digest=digest,
            tokenizer_digest=tokenizer,
            architecture=next(iter(facts.architectures), "unknown"),
            hidden_size=hidden_size,
            layers=layers,
            vocabulary_size=vocabulary_size,
            weights_bytes=sum(size for _, size, _ in weights),
            auxiliary_layers=auxiliary_layers,
            hidden_state_bytes_per_token=(len(auxiliary_layers) + 1) * hidden_size * auxiliary.STATE_BYTES,
            head_problems=head.problems,
            checkpoint=facts,
            head=head.facts,
        )
    )


def _read_head(config: stages.InspectConfig, target: TargetCheckpoint, tokenizer: str) -> heads.Reading:
    if config.head_path is None:
        return heads.Reading(problems=[])
    head = stages.TargetRef(
        path=config.head_path, revision=config.head_revision, credentials_path=config.head_credentials_path
    )
    return heads.read(head, target, tokenizer_digest=tokenizer, manifest_digest=config.head_manifest_digest)


def sizes(facts: TargetCheckpoint) -> tuple[int, int, int]:
    """Return hidden size, layers and vocabulary size.

    Raises:
        PermanentError: naming those that the configuration does not tell.
    """
    hidden_size, layers, vocabulary_size = facts.hidden_size, facts.layers, facts.vocabulary_size
    if hidden_size is None or layers is None or vocabulary_size is None:
        why = "; ".join(one.message for one in facts.problems if one.code in {"InvalidTarget", "SizesUnknown"})
        raise PermanentError(f"the target has no usable sizes: {why}; target.uri must name a whole checkpoint")
    return hidden_size, layers, vocabulary_size


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
    return auxiliary.default(layers)


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
