"""Evaluate: held-out acceptance from the engine's counters, with a gate."""

import json

import pytest

from paceline.api import stages
from paceline.stages import evaluate, workspace
from paceline.stages.failures import PermanentError
from stages import builders, vllm_double

PREPARED = stages.PrepareResult(data_digest=builders.DIGEST, train_samples=9, holdout_samples=5, train_tokens=90)


def _run(root, double, **fields):
    holdout = root / "prepare-x" / "dataset" / "holdout.jsonl"
    holdout.parent.mkdir(parents=True, exist_ok=True)
    holdout.write_text("".join(json.dumps({"prompt": f"question {index}"}) + "\n" for index in range(5)))
    context = builders.make_context(root)
    context.workspace.finish(
        "Prepare", workspace.Done(input_digest=builders.DIGEST, folder="prepare-x", result=PREPARED)
    )
    with vllm_double.serving(double):
        told = {
            "server_url": double.url,
            "head_path": str(root / "head"),
            "speculative_tokens": 2,
            "min_acceptance_length": 1.2,
            "max_prompts": 4,
            "max_tokens": 16,
            **fields,
        }
        return evaluate.run(stages.EvaluateConfig(**builders.common(root, **told)), context)


def test_acceptance_is_measured_on_held_out_prompts(tmp_path):
    """One of two drafted tokens is taken each time, on as many prompts as were asked for."""
    double = vllm_double.Double(accepted=1)
    result = _run(tmp_path, double)
    assert (result.acceptance_length, result.acceptance_by_position) == (2.0, [1.0, 0.0])
    assert (result.prompts, len(double.asked)) == (4, 4)


def test_measurement_is_kept_for_the_next_attempt(tmp_path):
    """The engine is asked once."""
    first = _run(tmp_path, vllm_double.Double())
    double = vllm_double.Double()
    assert _run(tmp_path, double) == first
    assert double.asked == []


def test_gate_fails_with_the_figures(tmp_path):
    """The message tells what was measured, what was asked, and what to change."""
    with pytest.raises(evaluate.GateNotMetError, match=r"2\.00 tokens a step at k=2 on 4 .* 2\.5; train on more"):
        _run(tmp_path, vllm_double.Double(), min_acceptance_length=2.5)


def test_dead_head_never_passes(tmp_path):
    """Drafts of which nothing is taken fail even the lowest gate."""
    with pytest.raises(evaluate.GateNotMetError):
        _run(tmp_path, vllm_double.Double(accepted=0), min_acceptance_length=1.0)


def test_needs_the_data_set(tmp_path):
    """Without held-out prompts there is nothing to measure on."""
    told = {"server_url": "http://x", "head_path": "/h", "speculative_tokens": 1, "min_acceptance_length": 1}
    config = stages.EvaluateConfig(**builders.common(tmp_path, **told, max_prompts=1, max_tokens=16))
    with pytest.raises(PermanentError, match="Prepare stage must succeed first"):
        evaluate.run(config, builders.make_context(tmp_path))
