"""Whether a head fits a target, from files alone: told before a server is started that could only fail.

Each finding is a sentence with a remedy. What the files do not say (a head without a manifest names no digest of a
target) is not held against a head; the measurement will tell.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paceline.api import names, stages
from paceline.stages import publish, target_files, workspace
from paceline.stages.failures import PermanentError

_LIMIT: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a head must fit."""

    digest: str
    tokenizer_digest: str
    hidden_size: int
    layers: int
    vocabulary_size: int


def problems(
    head: stages.TargetRef, target: Facts, *, manifest_digest: str | None, stands_alone: bool = False
) -> list[str]:
    """Return why the head does not fit; nothing when it does.

    Args:
        head: where it lies.
        target: what it must fit.
        manifest_digest: what its manifest must hash to, when the user or a training job said so.
        stands_alone: whether it is a model of its own, whose shape need not be the target's.
    """
    try:
        folder = target_files.locate(head, weights=False)
        found = [*_of_config(folder, target, stands_alone=stands_alone), *_of_manifest(folder, target, manifest_digest)]
        if head.path.startswith("/"):
            list(target_files.weight_files(folder))
    except PermanentError as error:
        found = [str(error).replace("target.uri", "the draft's uri").replace("target", "head", 1)]
    return [problem[:_LIMIT] for problem in found]


def _of_config(folder: Path, target: Facts, *, stands_alone: bool) -> Iterator[str]:
    """Yield what the head's own configuration says against it."""
    document = target_files.read_json(folder / target_files.CONFIG)
    decoder = document.get("transformer_layer_config")
    decoder = decoder if isinstance(decoder, dict) else document
    hidden = document.get("target_hidden_size") or decoder.get("hidden_size")
    if isinstance(hidden, int) and hidden != target.hidden_size and not stands_alone:
        yield (
            f"the head reads hidden states of size {hidden} and the target's have {target.hidden_size}; "
            "use a head that was trained for this target"
        )
    vocabulary = decoder.get("vocab_size")
    if isinstance(vocabulary, int) and vocabulary != target.vocabulary_size:
        yield (
            f"the head's vocabulary has {vocabulary} tokens and the target's {target.vocabulary_size}; "
            "use a head that was trained for this target"
        )
    draft = document.get("draft_vocab_size")
    if isinstance(draft, int) and draft > target.vocabulary_size:
        yield (
            f"the head's draft vocabulary of {draft} exceeds the target's {target.vocabulary_size}; "
            "use a head that was trained for this target"
        )
    if beyond := [layer for layer in _auxiliary_layers(document) if layer > target.layers]:
        yield (
            f"the head reads layer {beyond[0]} and the target has {target.layers}; "
            "use a head that was trained for this target"
        )


def _auxiliary_layers(document: dict[str, Any]) -> list[int]:
    """Return the layers that a head reads, in either of the places where formats write them."""
    nested = document.get("eagle_config")
    for place in (document, nested if isinstance(nested, dict) else {}):
        layers = place.get("eagle_aux_hidden_state_layer_ids")
        if isinstance(layers, list):
            return [layer for layer in layers if isinstance(layer, int)]
    return []


def _of_manifest(folder: Path, target: Facts, wanted: str | None) -> Iterator[str]:
    """Yield where the head's manifest names another target, or other files than those that lie there."""
    path = folder / publish.MANIFEST
    if not path.is_file():
        if wanted:
            yield f"{folder} holds no {publish.MANIFEST}, whose digest is given; remove the digest or publish again"
        return
    manifest = target_files.read_json(path)
    if wanted and names.digest(manifest) != wanted:
        yield f"the head's manifest has digest {names.digest(manifest)}, not {wanted}; name the head that is meant"
    trained_for = manifest.get("target")
    trained_for = trained_for if isinstance(trained_for, dict) else {}
    for key, have, what in (
        ("tokenizerDigest", target.tokenizer_digest, "tokenizer"),
        ("digest", target.digest, "target"),
    ):
        if trained_for.get(key) not in (None, have):
            yield (
                f"the head was trained for {what} {str(trained_for[key])[:19]} and this one is {have[:19]}; "
                "train a head for this target"
            )
    yield from _changed_files(folder, manifest)


def _changed_files(folder: Path, manifest: dict[str, Any]) -> Iterator[str]:
    files = manifest.get("files")
    for name, digest in (files if isinstance(files, dict) else {}).items():
        path = folder / Path(name).name
        if not path.is_file() or workspace.file_digest(path) != digest:
            yield f"{path} is missing or not what the head's manifest says; publish the head again"
