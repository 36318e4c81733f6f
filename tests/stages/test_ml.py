"""The stages with their real packages on a tiny target: prepare, train, be stopped, go on, publish.

Slow by what it imports, not by what it computes. Needs the environment of requirements/cpu.lock; without it, the tests
say so and are skipped, since building it takes gigabytes.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from paceline.api import report, stages
from paceline.stages import checkpoints
from stages import builders

REPOSITORY = Path(__file__).resolve().parents[2]
EPOCHS = 6

pytestmark = [pytest.mark.ml, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def run(python, tmp_path_factory):
    """Return a run over one tiny target, prepared and with hidden states."""
    root = tmp_path_factory.mktemp("tiny")
    run = Run(python=python, root=root)
    run.program("target")
    fields = {
        "prompts_path": str(root / "prompts.jsonl"),
        "holdout_percent": 20,
        "sequence_length": 64,
        "regenerate": False,
        "max_tokens": 24,
        "concurrency": 1,
    }
    run.prepared = run.stage("prepare", stages.PrepareConfig(**run.common, **fields))
    run.program("states")
    return run


class Run:
    """A workspace and the means to run stages on it."""

    def __init__(self, *, python, root):
        self.python, self.root = python, root
        self.common = builders.common(root / "work", target=stages.TargetRef(path=str(root / "target")))
        search = f"{REPOSITORY / 'operator'}:{REPOSITORY / 'tests'}"
        # One thread: tensors this small are not worth a second one that waits.
        fixed = {"PYTHONPATH": search, "HF_HUB_OFFLINE": "1", "HOME": str(root), "OMP_NUM_THREADS": "1"}
        self.environment = {**os.environ, **fixed}

    def program(self, verb, *more):
        """Run the target's maker and return what it printed."""
        path = Path(__file__).with_name("tiny_target.py")
        command = [self.python, path, verb, self.root, *more]
        done = subprocess.run(  # noqa: S603 - our own program
            command, env=self.environment, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout

    def start(self, name, config, *, attempt):
        """Start a stage as a pod would; its report goes to <attempt>.report."""
        path = self.root / f"{attempt}.json"
        path.write_text(config.model_dump_json(by_alias=True))
        command = [self.python, "-m", "paceline.stages", name, "--config", path, "--port", "0"]
        command += ["--report", self.root / f"{attempt}.report"]
        return subprocess.Popen(command, env={**self.environment, "HOSTNAME": attempt})  # noqa: S603 - our own program

    def report(self, attempt):
        """Return what a stage reported."""
        return report.decode((self.root / f"{attempt}.report").read_text(), stages.StageReport)

    def stage(self, name, config, *, attempt=None):
        """Run a stage to its end and return its result."""
        attempt = attempt or f"{name}-1"
        code = self.start(name, config, attempt=attempt).wait()
        told = self.report(attempt)
        assert code == 0, told.error
        return told.result


def _training(run, **changes):
    fields = {
        "layers": 1,
        "vocabulary_size": 192,
        "auxiliary_layers": [0, 1, 2],
        "epochs": EPOCHS,
        "learning_rate": 3e-3,
        "total_sequence_length": 64,
        "ttt_steps": 2,
        "seed": 1,
        "hidden_states_path": str(run.root / "work" / "hidden"),
    }
    return stages.TrainConfig(**run.common, **fields | changes)


def test_prepared_answers_are_learnt_and_counted(run):
    """Every training prompt has its 24 answer tokens under the mask."""
    assert run.prepared.train_tokens == run.prepared.train_samples * 24


def test_hidden_states_of_the_target_agree_with_its_answers(run):
    """The gate's arithmetic rebuilds the target's logits: greedy answers are named back."""
    done = json.loads((run.root / "work" / "extract.done.json").read_text())
    assert done["result"]["agreementPercent"] > 98


def test_training_stopped_on_the_way_goes_on_and_is_published(run):
    """SIGTERM saves and exits as stopped; the next attempt starts from there, ends, and its head can be published."""
    config = _training(run)
    others = set((run.root / "work").glob("train-*"))
    process = run.start("train", config, attempt="train-1")
    root = _wait_for_epoch(run.root / "work", 0, process, others=others)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    assert checkpoints.final(root, epochs=EPOCHS) is None
    assert not list(root.glob("interrupted"))
    saved = checkpoints.whole(root)[-1]

    result = run.stage("train", config, attempt="train-2")
    assert Path(result.checkpoint).name == str(EPOCHS - 1)
    assert len(result.accuracy_by_position) == 2
    assert saved.epoch < EPOCHS - 1 or not saved.ends_epoch
    _publish(run, result.checkpoint)


def test_started_head_is_the_given_one_until_it_learns(run):
    """At a learning rate of zero, what comes out is what went in: weights of another layout, by name and by token.

    Its draft vocabulary is taken over where the sizes are equal; asked for another size, it is remapped, and tokens
    that both have keep their rows.
    """
    run.program("head")
    head = run.root / "head"
    still = {"epochs": 1, "learning_rate": 0.0, "start": stages.TargetRef(path=str(head))}
    first = run.stage("train", _training(run, **still), attempt="start-1")
    told = json.loads(run.program("compare", head, first.checkpoint))
    assert all(told["same"].values()), told
    assert told["vocabulary"]
    assert first.start == f"Started from 13 tensors of {head}. Its draft vocabulary of 192 was taken over."

    still["start"] = stages.TargetRef(path=first.checkpoint)
    second = run.stage("train", _training(run, **still, vocabulary_size=160), attempt="start-2")
    told = json.loads(run.program("compare", first.checkpoint, second.checkpoint))
    assert all(told["same"].values()), told
    assert 0 < told["tokens"] < 160
    assert second.start.endswith("The draft vocabulary was remapped: 160 tokens of this data for its 192.")


def test_weights_of_another_shape_end_the_stage_for_good(run, tmp_path):
    """A retry would meet the same tensor; the message names it and the field."""
    head = tmp_path / "head"
    head.mkdir()
    config = json.loads((run.root / "target" / "config.json").read_text())
    (head / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}))
    builders.write_safetensors(head / "model.safetensors", {"fc.weight": (64, 64)})
    start = stages.TargetRef(path=str(head))
    process = run.start("train", _training(run, start=start, vocabulary_size=256), attempt="start-3")
    assert process.wait(timeout=240) == stages.EXIT_PERMANENT
    assert "tensor fc.weight is [64, 64] instead of [64, 192]" in run.report("start-3").error


def _wait_for_epoch(work, epoch, process, *, others):
    """Return the checkpoint folder once an epoch's checkpoint is whole."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        assert process.poll() is None, "training ended before it could be stopped"
        for root in (folder / "checkpoints" for folder in set(work.glob("train-*")) - others):
            if any(checkpoint.epoch >= epoch for checkpoint in checkpoints.whole(root)):
                return root
        time.sleep(0.02)
    raise AssertionError("no checkpoint within 240 s")


def _publish(run, checkpoint):
    inspection = run.stage("inspect", stages.InspectConfig(**run.common))
    evaluation = stages.EvaluateResult(
        acceptance_length=2.0,
        acceptance_by_position=[1.0],
        drafts=1,
        accepted_tokens=1,
        prompts=1,
        speculative_tokens=1,
    )
    places = {"head_path": checkpoint, "output_path": str(run.root / "heads")}
    published = run.stage(
        "publish", stages.PublishConfig(**run.common, **places, evaluation=evaluation, inspection=inspection)
    )
    head = {"head_path": published.path, "head_manifest_digest": published.manifest_digest}
    checked = run.stage("inspect", stages.InspectConfig(**run.common, **head), attempt="inspect-2")
    assert checked.head_problems == []
