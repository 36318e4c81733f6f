"""Stop-and-start with real parts: one node with one GPU's worth of room, one replica, vLLM, and a candidate that loses.

One test, since its steps are one story. A lookout asks the front Service all along, so that what users went without is
counted, and held against what was stated beforehand.
"""

from typing import Any

import pytest

from bedctl import gpus, record
from demo import manifests, workload
from demo.flow import Flow, expect
from lookout import Lookout, Outage
from paceline.api import names
from paceline.api.measurement import Decision, Purpose, RolloutRecord, Seating

# The API client leaves its connections to the end of the process.
pytestmark = [
    pytest.mark.e2e, pytest.mark.cluster, pytest.mark.chaos, pytest.mark.filterwarnings("ignore::ResourceWarning"),
]  # fmt: skip

BED = "stopbed"
"""What the fixture calls the bed."""
RECIPE = workload.Recipe(
    train_prompts=0,
    probe_prompts=24,
    answer_tokens=32,
    epochs=0,
    vocabulary_size=0,
    # A step costs this target nearly the same for 1 token and for 8, so a loss shows where many are in flight.
    concurrencies=(4, 8),
    requests_per_slot=4,
    rounds=(1, 3),
)
# Looked up after a single token that came before, which says little: most of what is drafted is computed in vain.
LOSER = {"method": "Ngram", "numSpeculativeTokens": 20, "ngram": {"minTokens": 1, "maxTokens": 2}}
FIRST = "served-first"
GPU = {"nvidia.com/gpu": "1"}


def test_only_replica_is_stopped_for_a_loser_and_recovers_within_the_stated_time(flow: Flow) -> None:
    """Measured, stopped, replaced by what loses, loaded again, measured again; users wait as long as was said."""
    gpus.advertise(one_bed(), "node-1", 1)
    flow.install()
    serve(flow)
    stable = flow.served_by()
    with Lookout(address(flow), model=flow.model_name()) as lookout:
        lookout.users_come()
        flow.wait_for("users served", lambda: lookout.completions > 3, minutes=5)
        lookout.users_go()

        flow.cluster.patch(manifests.API, "SpeculativeDeployment", manifests.NAME, {"spec": {"speculation": LOSER}})
        stated = flow.wait_for("a stated downtime", lambda: stated_by(flow), minutes=10)
        assert flow.records()[-1].released_at is None
        assert (stated["strategy"], stated["evidenceMode"]) == ("Replace", "Alternating")

        lost = flow.judged(2)
        recovered = flow.judged(3)
        before = lookout.completions
        lookout.users_come()
        flow.wait_for("users served again", lambda: lookout.completions > before + 3, minutes=5)

    stays_within(lookout, lost, flow)
    lost_fairly(lost)
    came_back(lost, recovered)
    is_told(flow, stable, lost)


def one_bed() -> record.Bed:
    """Return the bed of this test."""
    bed = record.load(BED)
    assert bed is not None
    return bed


def serve(flow: Flow) -> None:
    """Have the target served by one replica that takes the node's only GPU, with consent to stopping it."""
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": FIRST}}
    flow.cluster.apply({**priority, "value": 1000, "preemptionPolicy": "Never"})
    flow.cluster.apply(manifests.prompts(manifests.PROBE_PROMPTS, workload.out_of_domain(RECIPE.probe_prompts)))
    resource = manifests.deployment(RECIPE, engine_image=flow.images.engine, target=flow.target, tokens=1)
    spec: dict[str, Any] = resource["spec"]
    spec["speculation"] = {"method": "None"}
    spec["guard"] = {"enabled": False}
    spec["rollout"] |= {"strategy": "Replace", "replace": {"allowDowntime": True}}
    spec["rollout"]["deadlines"] = {"scheduling": "2m", "loading": "6m", "analysis": "8m", "draining": "5s"}
    template = spec["engine"]["podTemplate"]
    template["priorityClassName"] = FIRST
    template["resources"]["limits"] = GPU
    flow.cluster.apply(resource)
    flow.wait_for("the target served", lambda: condition(flow, "Available").get("status") == "True", minutes=15)


def address(flow: Flow) -> str:
    """Return the front Service's own address, to which this machine has a route."""
    service = flow.cluster.get("v1", "Service", manifests.NAME)
    assert service is not None
    return f"http://{service['spec']['clusterIP']}:8000"


def condition(flow: Flow, kind: str) -> dict[str, Any]:
    """Return a condition; empty while there is none."""
    told = flow.deployment().get("status", {}).get("conditions", ())
    return next((one for one in told if one["type"] == kind), {})


def stated_by(flow: Flow) -> dict[str, Any] | None:
    """Return the rollout's status once it says what it will cost."""
    told: dict[str, Any] = flow.deployment().get("status", {}).get("rollout", {})
    return told if "expectedDowntime" in told and "longestDowntime" in told else None


def stays_within(lookout: Lookout, lost: RolloutRecord, flow: Flow) -> None:
    """Check that there was one outage, no longer than was stated, and not one lost request beside it."""
    found = lookout.outages()
    assert len(found) == 1, [told(one) for one in found]
    flow.console.line(
        f"{len(lookout.asked)} requests, {len(found[0].refused)} of them refused in {found[0].lasted_s:.0f} s without"
        f" service; stated were about {lost.expected_downtime_s} s, at most {lost.longest_downtime_s} s"
    )
    assert found[0].lasted_s <= lost.longest_downtime_s
    assert not lookout.asked[-1].fault
    assert {one.is_completion for one in found[0].refused} == {True, False}


def told(outage: Outage) -> str:
    """Return an outage in words."""
    return f"{outage.lasted_s:.1f} s, {len(outage.refused)} refused, first {outage.refused[0].fault}"


def lost_fairly(lost: RolloutRecord) -> None:
    """Check that the candidate was measured in stable's place against stable's profile from before."""
    expect(lost, Decision.REJECTED)
    assert (lost.seating, lost.reason) == (Seating.STOPPED, "SlowerThanControl")
    assert lost.turns == [lost.stable, lost.candidate]
    pods = {one.arm: one.pod_uid for one in lost.measurements}
    assert len(set(pods.values())) == len(pods) == 2
    assert any(one.drafts for one in lost.measurements if one.arm == names.short(lost.candidate))


def came_back(lost: RolloutRecord, recovered: RolloutRecord) -> None:
    """Check that recovery was measured, on another load of the same revision."""
    assert (recovered.purpose, recovered.guard_of) == (Purpose.RECOVERY, lost.number)
    assert recovered.reason == "Recovered", recovered.message
    assert recovered.candidate == lost.stable
    profiles = [one.pod_uid for one in recovered.measurements if one.round <= recovered.carried_rounds]
    again = [one.pod_uid for one in recovered.measurements if one.round > recovered.carried_rounds]
    assert again
    assert set(profiles).isdisjoint(again)


def is_told(flow: Flow, stable: str, lost: RolloutRecord) -> None:
    """Check that the status says how it ended, and that nothing of the loser is left."""
    status = flow.deployment()["status"]
    assert status["rejected"] == [names.short(lost.candidate)]
    assert condition(flow, "Progressing")["reason"] == "Recovered"
    assert "its own profile from before" in condition(flow, "Progressing")["message"]
    assert condition(flow, "Available")["status"] == "True"
    assert flow.served_by() == stable == status["stable"]["hash"]
    servers = flow.cluster.list("apps/v1", "Deployment", labels=f"{names.LABEL_PART}=server")
    assert [one["metadata"]["labels"][names.LABEL_REVISION] for one in servers] == [stable]
