"""The whole loop with real parts: a control plane and node, vLLM, EAGLE-3 training, a verdict, and the guard.

One test, since its steps are one story: each needs what the one before left behind.
"""

import pytest

from demo import pace, workload
from demo.flow import Flow, expect
from e2e.traffic import Traffic
from paceline.api import names
from paceline.api.measurement import Decision

# The API client leaves its connections to the end of the process.
pytestmark = [pytest.mark.e2e, pytest.mark.cluster, pytest.mark.filterwarnings("ignore::ResourceWarning")]

# Smaller than the demo's: enough for a head that wins on its own domain. At 1 it wins by most; at 4, where users come,
# the break-even is far above what foreign prompts accept. More rounds than the demo has: they cost time only where
# noise leaves the guard's measurement open.
RECIPE = workload.Recipe(
    train_prompts=160,
    probe_prompts=32,
    answer_tokens=48,
    epochs=5,
    vocabulary_size=1536,
    concurrencies=(1, 4),
    requests_per_slot=4,
    rounds=(2, 8),
)


def test_head_is_trained_promoted_and_taken_out_when_traffic_changes(flow: Flow) -> None:
    """A head that wins on its domain is promoted; out-of-domain traffic makes the guard confirm and roll it back."""
    flow.install()
    prompts = workload.in_domain(RECIPE.train_prompts + RECIPE.probe_prompts)
    flow.serve(RECIPE, tokens=3, probe_prompts=prompts[RECIPE.train_prompts :])
    flow.patience = max(1.0, pace.REFERENCE_TOKENS_PER_SECOND / pace.measure(flow))
    control = flow.served_by()

    flow.train(RECIPE, prompts=prompts[: RECIPE.train_prompts])
    promoted = flow.judged(2)
    expect(promoted, Decision.PROMOTED)
    hash_of_head = names.short(promoted.candidate)
    flow.wait_for("users served by the head", lambda: flow.served_by() == hash_of_head, minutes=5)

    with Traffic(flow, workload.out_of_domain(64), concurrency=6, max_tokens=RECIPE.answer_tokens) as traffic:
        flow.wait_for("a suspicion", lambda: len(flow.records()) > 2, minutes=15)
    assert traffic.answered
    assert not traffic.failed

    judged = flow.judged(3)
    expect(judged, Decision.REJECTED)
    assert judged.reason == "LiveBelowBaseline"
    assert judged.guard_of == promoted.number
    assert judged.live_acceptance_length is not None
    flow.wait_for("users served by the control", lambda: flow.served_by() == control, minutes=5)
    assert flow.deployment()["status"]["rejected"] == [hash_of_head]
