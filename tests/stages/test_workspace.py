"""Work counts when its done file names the wanted inputs, and appears in one step."""

from paceline.api import stages
from paceline.stages import workspace

RESULT = stages.TrainResult(checkpoint="/x", epochs=3)


def _space(root, attempt="pod-1"):
    return workspace.Workspace(root=root, attempt=attempt)


def test_finished_work_is_read_back(tmp_path):
    """What one attempt finished, the next one finds."""
    _space(tmp_path).finish("Train", workspace.Done(input_digest="sha256:1", folder="train-1", result=RESULT))
    done = _space(tmp_path, "pod-2").read_done("Train", stages.TrainResult)
    assert done.input_digest == "sha256:1"
    assert done.result == RESULT


def test_damaged_done_file_is_unfinished_work(tmp_path):
    """Half a document is no proof."""
    (tmp_path / "train.done.json").write_text('{"inputDigest": "sha256:1"')
    assert _space(tmp_path).read_done("Train", stages.TrainResult) is None


def test_folder_depends_on_the_inputs(tmp_path):
    """Work on other inputs never meets this one's files."""
    assert _space(tmp_path).folder("Train", "sha256:" + "1" * 64) != _space(tmp_path).folder(
        "Train", "sha256:" + "2" * 64
    )


def test_scratch_of_two_attempts_differs_and_starts_empty(tmp_path):
    """Attempts are fenced by name, and one that runs again finds nothing of its own past."""
    first = _space(tmp_path, "pod-1").scratch(tmp_path)
    (first / "half").touch()
    assert _space(tmp_path, "pod-2").scratch(tmp_path) != first
    assert list(_space(tmp_path, "pod-1").scratch(tmp_path).iterdir()) == []


def test_second_commit_keeps_the_first(tmp_path):
    """Of two attempts that finish the same folder, the first one's stays and nothing is mixed."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    assert workspace.commit_folder(tmp_path / "a", tmp_path / "target")
    assert not workspace.commit_folder(tmp_path / "b", tmp_path / "target")
    assert (tmp_path / "target" / "file").read_text() == "a"
    assert not (tmp_path / "b").exists()


def test_atomic_write_leaves_no_scratch(tmp_path):
    """Only the file itself remains."""
    workspace.write_atomically(tmp_path / "f.json", b"1")
    workspace.write_atomically(tmp_path / "f.json", b"2")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f.json", b"2")]
