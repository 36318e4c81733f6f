"""A checkpoint on a hub or in a bucket: small files are fetched, weights are looked at where they are."""

import contextlib
import json
import struct
import tempfile

import pytest

from paceline.api import stages
from paceline.checkpoints.documents import UnreadableError
from paceline.stages import inspection, remote_files
from paceline.stages.failures import PermanentError, TransientError
from stages import builders


class FakeBucket:
    """An fsspec file system of a dict, which counts what it is asked."""

    def __init__(self, files, *, raises=None):
        self.files = files
        self.raises = raises
        self.reads = []

    def ls(self, path, *, detail):
        """List a folder, as s3fs does: a missing one is an error, and folders are entries too."""
        assert detail
        if self.raises is not None:
            raise self.raises
        if not any(name.startswith(f"{path}/") for name in self.files):
            raise FileNotFoundError(path)
        found = [
            {"name": name, "size": len(content), "type": "file", "ETag": f'"{len(content):x}"'}
            for name, content in self.files.items()
        ]
        return [*found, {"name": f"{path}/onnx", "size": 0, "type": "directory"}]

    def cat_file(self, path, *, start, end):
        """Read part of a file."""
        self.reads.append((path, start, end))
        return self.files[path][start:end]


def _safetensors(tensors):
    header = {
        name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * at, 4 * at + 4]} for at, name in enumerate(tensors)
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4 * len(tensors))


def _target(**more):
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "num_hidden_layers": 30, "vocab_size": 32}
    files = {
        "bucket/model/config.json": json.dumps(config).encode(),
        "bucket/model/tokenizer.json": b"{}",
        "bucket/model/model.safetensors": _safetensors(["model.norm.weight", "lm_head.weight"]),
    }
    return files | {f"bucket/model/{name}": content for name, content in more.items()}


def _inspect(monkeypatch, tmp_path, bucket, **fields):
    """Inspect a target in ``bucket``; the one thing put in place of real parts is the client."""
    remote = remote_files.Remote(system=bucket, root="bucket/model", title="s3://bucket/model")
    monkeypatch.setattr(remote_files, "open_bucket", lambda _: remote)
    target = stages.TargetRef(path="s3://bucket/model")
    config = stages.InspectConfig(**builders.common(tmp_path, target=target, **fields))
    return inspection.run(config, builders.make_context(tmp_path))


def test_target_in_a_bucket_is_read_without_its_weights(monkeypatch, tmp_path):
    """Of the weights only a header is read, and the digest tells one upload from another."""
    bucket = FakeBucket(_target())
    result = _inspect(monkeypatch, tmp_path, bucket)
    assert (result.layers, result.checkpoint.layers, result.checkpoint.mtp.weights) == (30, 30, "absent")
    assert result.weights_bytes == len(bucket.files["bucket/model/model.safetensors"])
    of_weights = [(start, end) for path, start, end in bucket.reads if path.endswith(".safetensors")]
    assert of_weights[0] == (0, 8)
    assert max(end for _, end in of_weights) < result.weights_bytes
    other = FakeBucket(_target(**{"model.safetensors": _safetensors(["model.norm.weight"])}))
    assert _inspect(monkeypatch, tmp_path, other).digest != result.digest


@pytest.mark.parametrize("files", [_target(), {"bucket/model/config.json": b"{"}], ids=["whole", "broken"])
def test_fetched_files_are_gone_after_the_inspection(monkeypatch, tmp_path, files):
    """The pod's disk is the node's, whether the inspection ends well or not."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with contextlib.suppress(PermanentError):
        _inspect(monkeypatch, tmp_path, FakeBucket(files))
    assert not list(scratch.iterdir())


def test_index_spares_every_header(monkeypatch, tmp_path):
    """A terabyte in a hundred files is a hundred round trips that nobody needs."""
    index = {"weight_map": {"model.norm.weight": "model.safetensors"}}
    bucket = FakeBucket(_target(**{"model.safetensors.index.json": json.dumps(index).encode()}))
    assert _inspect(monkeypatch, tmp_path, bucket).checkpoint.mtp.weights == "absent"
    assert not [path for path, _, _ in bucket.reads if path.endswith(".safetensors")]


def test_weights_that_the_index_names_must_be_in_the_bucket(monkeypatch, tmp_path):
    """An upload that broke off is told by the listing."""
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    bucket = FakeBucket(_target(**{"model.safetensors.index.json": json.dumps(index).encode()}))
    (problem,) = _inspect(monkeypatch, tmp_path, bucket).checkpoint.problems
    assert (problem.code, problem.severity) == ("WeightsMissing", "error")


@pytest.mark.parametrize(
    ("raised", "error", "said"),
    [
        (FileNotFoundError("bucket/model"), PermanentError, "does not exist; correct the uri"),
        (PermissionError("AKIAEXAMPLE signature wrong"), TransientError, "may not be read; name a Secret"),
        (OSError("https://AKIAEXAMPLE@host is away"), TransientError, r"cannot be read now \(OSError\)"),
        (type("NoCredentialsError", (Exception,), {})(), TransientError, "needs credentials; name a Secret"),
    ],
)
def test_server_that_refuses_is_told_apart_from_one_that_is_away(monkeypatch, tmp_path, raised, error, said):
    """And what it answered is not repeated: it may quote what it was given."""
    with pytest.raises(error, match=said) as told:
        _inspect(monkeypatch, tmp_path, FakeBucket({}, raises=raised))
    assert "AKIAEXAMPLE" not in str(told.value)


def test_file_that_is_not_there_is_unreadable():
    """Reading beyond the end gives nothing, and reading what is absent is an error."""
    remote = remote_files.Remote(system=FakeBucket({"b/a": b"abc"}), root="b", title="s3://b")
    assert remote.read("a", at_most=10, start=1) == b"bc"
    assert remote.read("a", at_most=10, start=3) == b""
    with pytest.raises(UnreadableError, match="has no file z"):
        remote.read("z", at_most=1)


def test_secret_is_read_from_its_mount(tmp_path):
    """One file a key, as the kubelet lays them out; its links and hidden folders are no keys."""
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "token").write_text("hf_example\n")
    (tmp_path / "token").symlink_to(tmp_path / "..data" / "token")
    source = stages.TargetRef(path="org/model", credentials_path=str(tmp_path))
    assert remote_files.read_secret(source) == {"token": "hf_example"}
    assert remote_files.hub_token(source) == "hf_example"
    assert remote_files.hub_token(stages.TargetRef(path="org/model")) is None


def test_secret_that_is_missing_is_awaited(tmp_path):
    """The pod starts without it and says so; it may be created later, without an edit of the spec."""
    source = stages.TargetRef(path="org/model", credentials_path=str(tmp_path))
    with pytest.raises(TransientError, match="missing or empty; create it"):
        remote_files.read_secret(source)
