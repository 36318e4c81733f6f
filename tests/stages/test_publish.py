"""Publishing is one rename, repeatable, and never overwrites."""

import json
from pathlib import Path

import pytest

from paceline.api import stages
from paceline.stages import publish, workspace
from paceline.stages.failures import PermanentError
from stages import builders

INSPECTION = stages.InspectResult(
    digest=builders.DIGEST,
    tokenizer_digest=builders.DIGEST,
    architecture="LlamaForCausalLM",
    hidden_size=8,
    layers=2,
    vocabulary_size=32,
    weights_bytes=10,
    auxiliary_layers=[0, 1],
    hidden_state_bytes_per_token=48,
)
EVALUATION = stages.EvaluateResult(
    acceptance_length=2.4,
    acceptance_by_position=[0.7, 0.4],
    drafts=10,
    accepted_tokens=14,
    prompts=4,
    speculative_tokens=2,
)
DATA = stages.PrepareResult(data_digest=builders.DIGEST, train_samples=4, holdout_samples=2, train_tokens=100)


def _publish_head(root, *, attempt="pod-1"):
    head = root / "checkpoints" / "0"
    if not head.is_dir():
        builders.write_checkpoint(root / "checkpoints", 0)
    context = builders.make_context(root, attempt=attempt)
    context.workspace.finish("Prepare", workspace.Done(input_digest=builders.DIGEST, folder="p", result=DATA))
    fields = {"head_path": str(head), "output_path": str(root / "heads")}
    config = stages.PublishConfig(**builders.common(root, **fields), evaluation=EVALUATION, inspection=INSPECTION)
    return publish.run(config, context)


def test_head_is_published_with_its_manifest(tmp_path):
    """What an engine loads is there, the trainer's state is not, and every file's digest is told."""
    result = _publish_head(tmp_path)
    folder = Path(result.path)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "manifest.json", "model.safetensors"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest["files"]) == {"config.json", "model.safetensors"}
    assert manifest["evaluation"]["acceptanceByPosition"] == [0.7, 0.4]
    assert manifest["target"]["digest"] == builders.DIGEST
    assert result.manifest_digest.startswith(f"sha256:{folder.name}")


def test_configuration_names_the_target_as_it_is_mounted(tmp_path):
    """The short form of serving a head reads the target's place from there."""
    folder = Path(_publish_head(tmp_path).path)
    document = json.loads((folder / "config.json").read_text())
    assert document["speculators_config"]["verifier"]["name_or_path"] == str(tmp_path / "target")


def test_second_attempt_finds_the_same_head(tmp_path):
    """A rerun after a lost report publishes nothing new and leaves no scratch."""
    assert _publish_head(tmp_path) == _publish_head(tmp_path, attempt="pod-2")
    assert len(list((tmp_path / "heads").iterdir())) == 1


def test_published_head_is_never_overwritten(tmp_path):
    """Something else under the head's name is told, not replaced."""
    folder = Path(_publish_head(tmp_path).path)
    (folder / "model.safetensors").write_bytes(b"other")
    with pytest.raises(PermanentError, match="other content than its manifest"):
        _publish_head(tmp_path, attempt="pod-2")
    assert (folder / "model.safetensors").read_bytes() == b"other"


def test_other_weights_are_another_folder(tmp_path):
    """Two heads live side by side."""
    first = _publish_head(tmp_path)
    builders.write_safetensors(tmp_path / "checkpoints" / "0" / "model.safetensors", {"fc.weight": (3, 3)})
    assert _publish_head(tmp_path).path != first.path


def test_foreign_checkpoint_is_refused(tmp_path):
    """A folder without a speculators configuration is no head."""
    builders.write_target(tmp_path / "checkpoints" / "0")
    with pytest.raises(PermanentError, match="no speculators checkpoint"):
        _publish_head(tmp_path)
