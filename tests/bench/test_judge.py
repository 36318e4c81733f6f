"""The simulation of four rules."""

import json
from pathlib import Path

import numpy as np
import pytest

from bench.judge import __main__ as simulation
from bench.judge import faults, noise, rules

RECORDING = Path(__file__).resolve().parents[2] / "bench" / "results" / "h200-enlarged-6.7b-k3.json"


def test_quick_run_writes_table_and_plot(tmp_path: Path) -> None:
    """With every rule on every line, and the copy in numpy as sharp as the product."""
    assert simulation.main(["--quick", "--out", str(tmp_path), str(RECORDING)]) == 0
    answer = json.loads((tmp_path / "judge.json").read_text())
    assert {row["rule"] for row in answer["rows"]} == {"Paceline", "Argo Rollouts", "Flagger", "Kayenta"}
    assert answer["copyAgrees"]["same"] == answer["copyAgrees"]["of"]
    assert "| as recorded | Paceline |" in (tmp_path / "judge.md").read_text()
    assert (tmp_path / "judge.svg").read_text().startswith("<?xml")


def test_no_fault_gives_a_verdict() -> None:
    """Blocks that show twice the throughput, were it not for what is wrong with them."""
    assert len(faults.verdicts()) > 10
    assert all(said.startswith("Inconclusive: ") for said in faults.verdicts().values())


@pytest.mark.parametrize(
    ("rival", "low", "verdict", "samples"),
    [
        (rules.Argo(threshold=1.0, count=4, failure_limit=1), [0, 1, 0, 0], rules.PROMOTED, 4),
        (rules.Argo(threshold=1.0, count=4, failure_limit=1), [1, 0, 1, 0], rules.REJECTED, 3),
        (rules.Flagger(minimum=1.0, iterations=3, threshold=2), [0, 1, 0, 0], rules.PROMOTED, 4),
        (rules.Flagger(minimum=1.0, iterations=3, threshold=2), [1, 0, 1, 0], rules.REJECTED, 3),
    ],
)
def test_rivals_count_failures_as_their_documents_say(
    rival: rules.Rival, low: list[int], verdict: int, samples: int
) -> None:
    """More than failureLimit fail an Argo run; threshold failed checks roll Flagger back."""
    ours = np.log(np.array([[0.9 if one else 1.1 for one in low]]))
    found, after = rival.judged(ours, np.zeros((1, len(low))), gain=False)
    assert (found[0], after[0]) == (verdict, samples)


def test_kayenta_needs_a_clear_shift() -> None:
    """Ten points that all lie lower are Low; ten that are mixed pass."""
    control = np.linspace(0.0, 0.1, 10)[None, :]
    rule = rules.Kayenta(points=10, confidence=0.98)
    assert rule.judged(control - 0.5, control, gain=False)[0][0] == rules.REJECTED
    assert rule.judged(control[:, ::-1], control, gain=False)[0][0] == rules.PROMOTED


def test_recording_keeps_its_spread() -> None:
    """Simulated blocks vary as the recorded ones did."""
    recording = noise.read(RECORDING)
    source = noise.Source(recording=recording, condition=noise.CONDITIONS[0], random=np.random.default_rng(3))
    ours, theirs = source.rounds(runs=400, rounds=10, effect=0.0)
    for band in range(len(recording.bands)):
        assert np.std(ours[..., band]) == pytest.approx(np.std(recording.candidate[band]), rel=0.1)
        assert np.std(theirs[..., band]) == pytest.approx(np.std(recording.rival[band]), rel=0.1)
