"""A head's files: whether they are whole and what their manifest says, and the facts by which its fit is judged."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paceline.api import names, stages
from paceline.api.checkpoint import HeadCheckpoint, TargetCheckpoint
from paceline.stages import checkpoint_facts, publish, reading, target_files, workspace
from paceline.stages.failures import PermanentError

_LIMIT: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a head's files say."""

    problems: list[str]
    """Why they are not what they should be."""
    facts: HeadCheckpoint | None = None
    """None when they cannot be read."""


def read(
    head: stages.TargetRef, target: TargetCheckpoint, *, tokenizer_digest: str, manifest_digest: str | None
) -> Reading:
    """Return what a head's files say; whether it fits is for the control plane to judge.

    Args:
        head: where it lies.
        target: what it is to serve.
        tokenizer_digest: of the target's tokenizer files.
        manifest_digest: what its manifest must hash to, when the user or a training job said so.
    """
    try:
        with reading.open_place(head) as place:
            folder = place.folder
            found = list(of_manifest(place, manifest_digest))
            if place.is_whole:
                list(target_files.weight_files(folder))
            facts = checkpoint_facts.of_head(place.files)
            tokenizer = _trained_for(folder).get("tokenizerDigest")
    except PermanentError as error:
        said = str(error).replace("target.uri", "the draft's uri").replace("target", "head", 1)
        return Reading(problems=[said[:_LIMIT]])
    if facts.tokenizer_fingerprint is None and tokenizer == tokenizer_digest:
        facts = facts.model_copy(update={"tokenizer_fingerprint": target.tokenizer_fingerprint})
    return Reading(problems=[problem[:_LIMIT] for problem in found], facts=facts)


def of_manifest(place: reading.Place, wanted: str | None) -> Iterator[str]:
    """Yield where the head's manifest is another than the wanted one, or names other files."""
    path = place.folder / publish.MANIFEST
    if not path.is_file():
        if wanted:
            where = place.folder
            yield f"{where} holds no {publish.MANIFEST}, whose digest is given; remove the digest or publish again"
        return
    manifest = target_files.read_json(path)
    if wanted and names.digest(manifest) != wanted:
        yield f"the head's manifest has digest {names.digest(manifest)}, not {wanted}; name the head that is meant"
    yield from _changed_files(place, manifest)


def _trained_for(folder: Path) -> dict[str, Any]:
    """Return what the manifest says of the target; nothing when there is none."""
    path = folder / publish.MANIFEST
    target = target_files.read_json(path).get("target") if path.is_file() else None
    return target if isinstance(target, dict) else {}


def _changed_files(place: reading.Place, manifest: dict[str, Any]) -> Iterator[str]:
    """Yield files that differ; weights that were not downloaded are left to the engine that will load them."""
    files = manifest.get("files")
    for name, digest in (files if isinstance(files, dict) else {}).items():
        path = place.folder / Path(name).name
        if not place.is_whole and not path.is_file() and path.name in place.files.sizes():
            continue
        if not path.is_file() or workspace.file_digest(path) != digest:
            yield f"{path} is missing or not what the head's manifest says; publish the head again"
