"""The guard: users' traffic raises suspicion, a fresh measurement decides."""

import itertools

import pytest

from paceline.api.measurement import BlockOutcome, Decision, Purpose
from paceline.judge import comparison
from paceline.planning import kinds
from paceline.rollout.guarding import suspicion
from paceline.rollout.view import observe
from rollout import builders
from rollout.cluster import Cluster
from rollout.reading import history

SPECULATING = "EAGLE3 k=3"
# Acceptance 2.2 at 1.5 times the control's throughput breaks even at 1.47.
HEALTHY, HOPELESS = 1.2, 0.1


@pytest.fixture
def served() -> Cluster:
    """Return a cluster that serves a promoted head, without traffic."""
    cluster = Cluster()
    cluster.speeds[SPECULATING] = 1.5
    cluster.settle()
    assert cluster.serving() == SPECULATING
    return cluster


def seen(cluster: Cluster) -> observe.Observed:
    """Return what a pass sees."""
    return observe.observe(cluster.picture(), cluster.resource, stage_image="stages:1")


def test_no_metrics_say_nothing(served: Cluster) -> None:
    """Missing data is neither healthy nor suspicious."""
    watched = suspicion.watch(seen(served), served.now)
    assert watched.verdict is comparison.Verdict.INCONCLUSIVE
    served.settle()
    assert served.condition("Suspect")["reason"] == "NoTraffic"
    assert history(served).open is None


def test_unreadable_metrics_say_nothing(served: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error page is not a dead head."""
    served.users = builders.Users(accepted_a_draft=HOPELESS)
    monkeypatch.setattr(builders, "metrics", lambda *_: "<html>502 Bad Gateway</html>")
    assert suspicion.watch(seen(served), served.now).verdict is comparison.Verdict.INCONCLUSIVE


def test_too_few_drafts_say_nothing(served: Cluster) -> None:
    """A window with fewer drafts than spec.guard.minDrafts is silent."""
    served.users = builders.Users(accepted_a_draft=HOPELESS, drafts_a_second=0.5)
    assert suspicion.watch(seen(served), served.now).verdict is comparison.Verdict.INCONCLUSIVE


def test_healthy_traffic_is_healthy(served: Cluster) -> None:
    """Users who accept what the probe accepted leave things as they are."""
    served.users = builders.Users(accepted_a_draft=HEALTHY)
    served.settle()
    assert served.condition("Suspect")["reason"] == "Healthy"
    assert history(served).open is None
    told = served.resource["status"]["guard"]
    assert told["acceptanceLength"] == "2.2"
    assert 1.4 < float(told["breakEven"]) < 1.5


def test_suspicion_alone_rolls_nothing_back(served: Cluster) -> None:
    """The control is loaded again before anything is decided, and users stay where they are."""
    served.users = builders.Users(accepted_a_draft=HOPELESS)
    served.until(lambda: history(served).open is not None)
    opened = history(served).stored[-1].record
    assert (opened.purpose, opened.guard_of, opened.band) == (Purpose.GUARD, 2, 1)
    assert served.serving() == SPECULATING
    served.until(lambda: served.servers() == ["EAGLE3 k=3", "None"])
    assert served.condition("Suspect")["reason"] == "Confirming"


def test_confirmed_fall_brings_the_control_back(served: Cluster) -> None:
    """Below a fresh break-even the control serves, and the revision is remembered as rejected."""
    served.users = builders.Users(accepted_a_draft=HOPELESS)
    served.until(lambda: served.serving() == "None")
    served.users = None
    served.settle()
    last = history(served).last
    assert last is not None
    assert (last.decision, last.reason) == (Decision.REJECTED, "LiveBelowBaseline")
    assert served.servers() == ["None"]
    assert served.condition("Progressing")["reason"] == "LiveBelowBaseline"
    assert served.resource["status"]["rejected"] == [last.candidate[7:15]]


def test_fresh_measurement_clears_a_suspicion(served: Cluster) -> None:
    """If speculation pays by now even at users' acceptance, stable stays."""
    served.users = builders.Users(accepted_a_draft=0.3)
    served.until(lambda: history(served).open is not None)
    served.speeds[SPECULATING] = 2.0
    served.users = None
    served.settle()
    last = history(served).last
    assert last is not None
    assert (last.decision, last.reason) == (Decision.ABORTED, "Healthy")
    assert served.serving() == SPECULATING


def test_contaminated_blocks_confirm_nothing(served: Cluster) -> None:
    """Blocks that other traffic touched are no evidence; stable stays, and the next try waits."""
    served.users = builders.Users(accepted_a_draft=HOPELESS)
    served.until(lambda: history(served).open is not None)
    measure = served.measure
    served.measure = lambda config: measure(config).model_copy(
        update={
            "measurements": [
                one.model_copy(update={"outcome": BlockOutcome.CONTAMINATED}) for one in measure(config).measurements
            ]
        }
    )
    served.until(lambda: history(served).open is None)
    last = history(served).last
    assert last is not None
    assert last.decision is Decision.ABORTED
    assert served.serving() == SPECULATING
    for _ in range(8):
        served.operate()
        served.play()
    assert history(served).open is None
    assert served.condition("Suspect")["reason"] == "AcceptanceFell"


def test_control_that_does_not_load_confirms_nothing(served: Cluster) -> None:
    """Without a control there is nothing to compare with."""
    served.users = builders.Users(accepted_a_draft=HOPELESS)
    served.crashing.add("None")
    served.until(lambda: history(served).open is not None)
    served.until(lambda: history(served).open is None)
    assert served.serving() == SPECULATING


def test_crashing_stable_is_replaced_without_a_measurement(served: Cluster) -> None:
    """An engine that no longer starts needs no figures: its control takes over."""
    served.crashing.add(SPECULATING)
    for pod in served.objects(kinds.POD):
        served.remove(kinds.POD, pod["metadata"]["name"])
    served.until(lambda: served.serving() == "None")
    last = history(served).last
    assert last is not None
    assert last.reason == "HeadLoadFailed"


def test_control_gets_all_replicas_before_it_serves(served: Cluster) -> None:
    """The Service never flips to fewer replicas than are asked for."""
    served.edit(replicas=3)
    served.settle()
    served.users = builders.Users(accepted_a_draft=HOPELESS)
    served.until(lambda: served.serving() == "None")
    front = served.store[("Service", builders.NAME)]["spec"]["selector"]["paceline.dev/revision"]
    deployments = {one["metadata"]["labels"]["paceline.dev/revision"]: one for one in served.objects(kinds.DEPLOYMENT)}
    assert deployments[front]["spec"]["replicas"] == 3


def test_guard_that_is_off_watches_nothing() -> None:
    """spec.guard.enabled: false is obeyed."""
    cluster = Cluster(builders.deployment(guard={"enabled": False}))
    cluster.speeds[SPECULATING] = 1.5
    cluster.settle()
    cluster.users = builders.Users(accepted_a_draft=HOPELESS)
    cluster.settle()
    assert cluster.serving() == SPECULATING
    assert "guard" not in cluster.resource["status"]


def test_pause_between_confirmations_grows_beyond_what_the_history_keeps(served: Cluster) -> None:
    """Each costs the control's GPUs: one record in the history remembers the tries before it."""
    served.edit(revisionHistoryLimit=1, guard={"window": "30s"})
    served.crashing |= {SPECULATING, "None"}
    for pod in served.objects(kinds.POD):
        served.remove(kinds.POD, pod["metadata"]["name"])
    pauses, ended = [], 0.0
    for _ in range(5):
        served.until(lambda: history(served).open is not None, passes=1000)
        pauses.append(served.now - ended)
        served.until(lambda: history(served).open is None, passes=1000)
        ended = served.now
    assert [one > 1.8 * before for before, one in itertools.pairwise(pauses[1:])] == [True, True, True]
