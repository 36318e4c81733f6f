"""What the machines have found, each played again from its beginning."""

import pytest

from machine import worlds
from machine.server import Fault
from paceline.planning import kinds
from rollout import builders


@pytest.fixture
def sim():
    """A SpeculativeDeployment whose head has been promoted, watched by the rules."""
    made, made.rules = worlds.deployment(
        {**builders.deployment(), "spec": worlds.spec()}, speeds={"EAGLE3 k=3": 1.5, "EAGLE3 k=5": 1.2}
    )
    made.settle(within_s=50_000.0, quiet_s=5_000.0)
    assert made.resource["status"]["speculation"] == "EAGLE3 k=3"
    return made


def edit(sim, **changes):
    """Replace fields of the spec."""
    sim.edit({**sim.resource["spec"], **changes})


def servers(sim):
    """Return what the existing Deployments draft, sorted."""
    found = [one["metadata"]["labels"]["paceline.dev/revision"] for one in sim.server.all(kinds.DEPLOYMENT)]
    return sorted(sim.programs.title(one) for one in found)


def test_candidate_edited_back_and_forth_never_meets_another(sim):
    """With every deletion failing for a while, a known revision's server is still not made beside the one before it."""
    for k in (5, 4, 5, 4):
        edit(sim, speculation=builders.eagle3(k=k))
        for _ in range(4):
            sim.hear()
            sim.operate(faults={1: Fault.BROKEN, 2: Fault.BROKEN})
            assert len([title for title in servers(sim) if title in {"EAGLE3 k=4", "EAGLE3 k=5"}]) <= 1
    sim.settle(within_s=50_000.0, quiet_s=5_000.0)
    assert servers(sim) == ["EAGLE3 k=3"]


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.33.0", "vllm/vllm-openai:v0.34.0"])
def test_records_deleted_by_hand_take_no_endpoint_from_users(sim, image):
    """Nobody knows any more what was decided; what the Service selects serves on until a new baseline takes over."""
    for one in sim.server.all(kinds.CONFIG_MAP):
        sim.server.drop("ConfigMap", one["metadata"]["name"])
    sim.rules.forgotten = True
    edit(sim, engine={**sim.resource["spec"]["engine"], "image": image})
    sim.settle(within_s=50_000.0, quiet_s=5_000.0)
    assert servers(sim) == ["EAGLE3 k=3"]


def test_configuration_deleted_before_its_pod_starts_is_made_again():
    """The pod would wait for its volume for ever, and its run until the deadline."""
    sim, rules = worlds.training_job()
    sim.operate()
    for one in sim.server.all(kinds.CONFIG_MAP):
        sim.server.drop("ConfigMap", one["metadata"]["name"])
    sim.settle(within_s=20_000.0, quiet_s=5_000.0)
    assert sim.resource["status"]["phase"] == "Complete"
    rules.check_rest(sim.operator.decide(sim.watches.picture()), sim.resource)


def test_forgotten_pause_delays_the_guard_once(sim):
    """A pause that outlasted its deadline is done with: the next confirmation replaces the head that does not start."""
    sim.annotate({"paceline.dev/pause": sim.resource["status"]["stable"]["hash"]})
    sim.programs.crashing.add("EAGLE3 k=3")
    sim.kubelet.stir()
    sim.settle(within_s=5 * 86_400.0, quiet_s=100_000.0)
    assert servers(sim) == ["None"]


@pytest.mark.parametrize("strategy", ["Auto", "Surge", "Replace"])
@pytest.mark.parametrize("spare", [0, 1], ids=["full", "room"])
def test_head_that_no_longer_starts_makes_way_for_its_control(sim, strategy, spare):
    """It serves nobody, so neither the strategy nor a full cluster keeps users without service."""
    edit(sim, rollout={**sim.resource["spec"]["rollout"], "strategy": strategy})
    sim.watches.nodes = lambda: sim.kubelet.nodes
    (used,) = {pod["spec"]["nodeName"] for pod in sim.server.all(kinds.POD)}
    others = sorted(set(sim.kubelet.nodes) - {used})
    sim.kubelet.nodes = {used: 8, **dict.fromkeys(others[:spare], 8)}
    sim.programs.crashing.add("EAGLE3 k=3")
    sim.kubelet.stir()
    sim.settle(within_s=50_000.0, quiet_s=5_000.0)
    assert servers(sim) == ["None"]
    assert sim.condition("Available")["status"] == "True"
