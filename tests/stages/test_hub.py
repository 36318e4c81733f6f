"""Inspect reads a hub over HTTP by the hub's own client: pinned, gated, and what is not there."""

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest

from paceline.api import report, stages
from stages import builders
from stages.hub_double import Hub

pytestmark = [pytest.mark.ml, pytest.mark.timeout(300)]

REPOSITORY = Path(__file__).resolve().parents[2]
NAME = "organisation/model"
OLD, NEW = "a" * 40, "b" * 40
WEIGHTS = "model-00001-of-00001.safetensors"


def _files(layers):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 8,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "vocab_size": 32,
    }
    header = json.dumps({"lm_head.weight": {"dtype": "F32", "shape": [32, 8], "data_offsets": [0, 1024]}}).encode()
    return {
        "config.json": json.dumps(config).encode(),
        "tokenizer.json": b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}',
        "model.safetensors.index.json": json.dumps({"weight_map": {"lm_head.weight": WEIGHTS}}).encode(),
        WEIGHTS: struct.pack("<Q", len(header)) + header + bytes(1024),
    }


@pytest.fixture
def inspect(python, tmp_path):
    """Return a function that runs the stage against a hub and returns its exit code and report."""

    def run(hub, *, name=NAME, revision=None, token=None):
        secret = tmp_path / "secret"
        if token:
            secret.mkdir(exist_ok=True)
            (secret / "token").write_text(token)
        target = stages.TargetRef(path=name, revision=revision, credentials_path=str(secret) if token else None)
        config = stages.InspectConfig(**builders.common(tmp_path, target=target))
        (tmp_path / "config.json").write_text(config.model_dump_json(by_alias=True))
        told = tmp_path / "report"
        command = [python, "-m", "paceline.stages", "inspect", "--config", tmp_path / "config.json", "--port", "0"]
        home = {"HOME": str(tmp_path / "home"), "HF_HOME": str(tmp_path / "cache")}
        reach = {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONPATH": str(REPOSITORY / "operator")}
        kept = {key: value for key, value in os.environ.items() if "proxy" not in key.lower() and key[:3] != "HF_"}
        done = subprocess.run(  # noqa: S603 - our own program
            [*command, "--report", told], env={**kept, **home, **reach, "NO_PROXY": "*"}, check=False
        )
        return done.returncode, report.decode(told.read_text(), stages.StageReport)

    return run


def test_pinned_commit_is_what_is_read(inspect):
    """Though main has moved on; of the weights, the name and size alone."""
    with Hub({NAME: {OLD: _files(30), NEW: _files(40)}}).serving() as hub:
        code, told = inspect(hub, revision=OLD)
    assert code == stages.EXIT_OK, told.error
    assert (told.result.layers, told.result.checkpoint.layers) == (30, 30)
    assert told.result.weights_bytes == len(_files(30)[WEIGHTS])
    assert told.result.checkpoint.tokenizer_fingerprint
    read = [path for path in hub.asked if "/resolve/" in path]
    assert read
    assert all(f"/resolve/{OLD}/" in path for path in read)
    assert not any(path.endswith(WEIGHTS) for path in read)


def test_token_of_the_secret_opens_a_gated_repository(inspect):
    """Without it, the pod is tried again, since the Secret may come; the message names the field and no token."""
    with Hub({NAME: {NEW: _files(30)}}, token="right").serving() as hub:  # noqa: S106 - a double's
        code, told = inspect(hub, token="wrong")  # noqa: S106 - likewise
        assert code not in {stages.EXIT_OK, stages.EXIT_PERMANENT}
        assert not told.permanent
        assert told.error.startswith(f"target hf://{NAME} is gated; name a Secret with a token of access in")
        assert "wrong" not in told.error
        code, told = inspect(hub, token="right")  # noqa: S106 - likewise
    assert code == stages.EXIT_OK, told.error


@pytest.mark.parametrize(
    ("name", "revision"), [("organisation/none", None), (NAME, "c" * 40)], ids=["repository", "revision"]
)
def test_what_does_not_exist_fails_for_good(inspect, name, revision):
    """And says what to correct."""
    with Hub({NAME: {NEW: _files(30)}}).serving() as hub:
        code, told = inspect(hub, name=name, revision=revision)
    assert (code, told.permanent) == (stages.EXIT_PERMANENT, True)
    assert told.error.startswith(f"target hf://{name} at revision {revision or 'main'} does not exist")
    assert "correct target.uri and target.revision" in told.error
