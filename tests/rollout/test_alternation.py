"""Arms that take turns on one place: stop-and-start of a single replica, and a control without a place of its own."""

from typing import Any

import pytest

from paceline.api import names
from paceline.api.measurement import BlockOutcome, Decision, Mode, Purpose, Seating
from paceline.planning import conditions, kinds
from paceline.rollout.places import downtime
from rollout import builders
from rollout.gpus import FIRST, GpuCluster, engine, resource, sizes
from rollout.reading import history

HEAD, LONGER, BASE = "EAGLE3 k=3", "EAGLE3 k=5", "None"
CONSENT = {"replace": {"allowDowntime": True}}
NEWER = {**engine(8, **FIRST), "image": "vllm/vllm-openai:v0.34.0"}


def single(*, load_s: float = 60.0, **policy: Any) -> GpuCluster:
    """Return a full cluster that serves its baseline on one node, and consents to stopping it."""
    spec = resource(speculation=builders.none(), policy={**CONSENT, **policy})
    cluster = GpuCluster(spec, {"gpu-1": 8})
    cluster.load_s = load_s
    cluster.settle(passes=100, quiet_s=load_s + 200.0)
    assert cluster.serving() == BASE
    cluster.least_ready = None
    return cluster


def after(cluster: GpuCluster, speed: float, **edit: Any) -> GpuCluster:
    """Ask for a head of that speed, or another edit, and let things come to rest."""
    cluster.speeds.setdefault(HEAD, speed)
    cluster.edit(**(edit or {"speculation": builders.eagle3()}))
    cluster.settle(seconds=30.0, quiet_s=200.0)
    return cluster


def candidate_of(cluster: GpuCluster) -> Any:
    """Return the newest rollout of a candidate."""
    return next(one.record for one in reversed(history(cluster).stored) if one.record.purpose is Purpose.CANDIDATE)


def released(cluster: GpuCluster) -> bool:
    """Whether stable has been asked to make way."""
    opened = history(cluster).open
    return bool(opened and opened.record.released_at)


def by_image(cluster: GpuCluster, speeds: dict[str, float]) -> None:
    """Make revisions as fast as their engine's version says."""
    title = cluster.title

    def titled(short: str) -> str:
        revision = cluster.revision(short)
        return f"{title(short)} {revision.inputs.engine_version}" if revision else BASE

    cluster.title = titled  # type: ignore[method-assign]  # the model's knob
    cluster.speeds = speeds


def test_single_replica_is_stopped_and_a_winner_takes_its_place() -> None:
    """Stable is measured while it serves, then makes way; the candidate serves as soon as it has won."""
    cluster = after(single(), 1.6)
    record = candidate_of(cluster)
    assert cluster.serving() == HEAD
    assert (record.seating, record.decision) == (Seating.STOPPED, Decision.PROMOTED)
    assert sizes(cluster) == {HEAD: 1}
    assert [names.short(one) for one in record.turns] == [names.short(record.control), names.short(record.candidate)]


def test_status_states_the_cost_before_stable_is_stopped() -> None:
    """What it will take, from stable's own load time, and at most, from the deadlines; while stable still serves."""
    cluster = single(load_s=600.0)
    cluster.speeds[HEAD] = 1.6
    cluster.edit(speculation=builders.eagle3())
    cluster.until(lambda: "longestDowntime" in cluster.resource["status"].get("rollout", {}))
    status = cluster.resource["status"]["rollout"]
    assert sizes(cluster) == {BASE: 1}
    assert (status["strategy"], status["evidenceMode"]) == ("Replace", "Alternating")
    assert status["longestDowntime"] == "2h20m"


def test_stable_is_released_only_for_a_candidate_that_waits() -> None:
    """The candidate's pod exists and is Pending before stable loses its own."""
    cluster = single()
    cluster.speeds[HEAD] = 1.6
    cluster.edit(speculation=builders.eagle3())
    seen: list[dict[str, int]] = []
    for _ in range(200):
        cluster.operate()
        if sizes(cluster) not in seen:
            seen.append(sizes(cluster))
        cluster.play()
    assert seen[:3] == [{BASE: 1}, {BASE: 1, HEAD: 1}, {BASE: 0, HEAD: 1}]


@pytest.mark.parametrize(("speed", "reason"), [(0.5, "SlowerThanControl"), (1.0, "Inconclusive")])
def test_loser_gives_stable_its_place_back(speed: float, reason: str) -> None:
    """Rejected or undecided: users are not kept waiting for more rounds, and stable's recovery is measured."""
    cluster = after(single(onInconclusive="Hold"), speed)
    record = candidate_of(cluster)
    assert (record.decision, record.reason) == (Decision.REJECTED, reason)
    assert sizes(cluster) == {BASE: 1}
    recovery = history(cluster).stored[-1].record
    assert (recovery.purpose, recovery.guard_of, recovery.reason) == (Purpose.RECOVERY, record.number, "Recovered")
    assert cluster.condition("Progressing")["reason"] == "Recovered"
    status = cluster.resource["status"]["rollout"]
    assert (status["phase"], status["strategy"], status["evidenceMode"]) == ("Recovered", "Replace", "Alternating")
    assert [one["against"] for one in status["comparisons"]] == ["Stable"]
    assert status["expectedDowntime"] == downtime.in_words(record.expected_downtime_s)


def test_downtime_stays_within_what_was_stated() -> None:
    """From the release of stable until its pod is ready again."""
    cluster = single(load_s=300.0)
    cluster.speeds[HEAD] = 0.5
    cluster.edit(speculation=builders.eagle3())
    cluster.until(lambda: released(cluster))
    stated = candidate_of(cluster).expected_downtime_s
    began = cluster.now
    cluster.play()
    cluster.until(lambda: not cluster.endpoints(cluster.store["Service", builders.NAME]), seconds=5)
    cluster.until(lambda: bool(cluster.endpoints(cluster.store["Service", builders.NAME])), seconds=5, passes=1000)
    assert cluster.now - began <= stated


def test_recovery_is_not_claimed_when_stable_came_back_slower() -> None:
    """It serves, and the condition says what was measured."""
    cluster = single()
    cluster.speeds[HEAD] = 0.5
    cluster.edit(speculation=builders.eagle3())
    cluster.until(lambda: cluster.resource["status"]["rejected"] != [], passes=300)
    cluster.speeds[BASE] = 0.5
    cluster.settle(seconds=30.0, quiet_s=200.0)
    condition = cluster.condition("Progressing")
    assert condition["reason"] == "NotRecovered"
    assert "its own profile" in condition["message"]
    assert cluster.condition("Available")["status"] == "True"


def test_recovery_that_users_touch_is_neither_confirmed_nor_denied() -> None:
    """They are back as soon as stable is, and no block is left to compare; it serves, and that is all that is known."""
    cluster = single(analysis={**builders.rollout()["analysis"], "maxRounds": 3})
    cluster.speeds[HEAD] = 0.5
    cluster.edit(speculation=builders.eagle3())
    cluster.until(lambda: cluster.resource["status"]["rejected"] != [], passes=300)
    cluster.users = builders.Users(accepted_a_draft=1.0, drafts_a_second=200.0)
    cluster.settle(seconds=30.0, quiet_s=200.0)
    condition = cluster.condition("Progressing")
    assert condition["reason"] == "RecoveryUnconfirmed"
    assert "users' requests may have touched them" in condition["message"]
    assert cluster.condition("Available")["status"] == "True"


def test_candidate_that_does_not_load_is_rolled_back_and_stable_recovers() -> None:
    """A crash in stable's place costs the time it took, no more."""
    cluster = single()
    cluster.crashing.add(HEAD)
    after(cluster, 1.6)
    assert candidate_of(cluster).reason in {"HeadLoadFailed", "EngineFailed"}
    assert history(cluster).stored[-1].record.reason == "Recovered"


def test_stable_that_cannot_be_measured_is_not_stopped() -> None:
    """Users' requests spoil every block of its turn: the rollout ends before it costs them anything."""
    cluster = single()
    measure = cluster.measure

    def spoiled(config: Any) -> Any:
        report = measure(config)
        blocks = [one.model_copy(update={"outcome": BlockOutcome.CONTAMINATED}) for one in report.measurements]
        return report.model_copy(update={"measurements": blocks, "error": "users came in mid-block"})

    cluster.measure = spoiled  # type: ignore[method-assign]  # the model's knob
    after(cluster, 1.6)
    record = candidate_of(cluster)
    assert (record.decision, record.reason, record.released_at) == (Decision.REJECTED, "Inconclusive", None)
    assert "Of the last round: users came in mid-block." in record.message
    assert cluster.least_ready == 1


def test_users_do_not_wait_for_a_paused_rollout_for_ever() -> None:
    """A pause while stable is stopped ends with the time that was stated."""
    cluster = single()
    cluster.speeds[HEAD] = 1.6
    cluster.edit(speculation=builders.eagle3())
    cluster.until(lambda: released(cluster))
    cluster.annotate(pause=names.short(candidate_of(cluster).candidate))
    cluster.settle(seconds=300.0, quiet_s=9000.0)
    assert candidate_of(cluster).decision is Decision.REJECTED
    assert sizes(cluster) == {BASE: 1}


def test_edit_while_stable_is_stopped_brings_it_back_first() -> None:
    """The rollout that stopped it is called off; the new one asks again."""
    cluster = single()
    cluster.speeds |= {HEAD: 1.6, LONGER: 1.8}
    cluster.edit(speculation=builders.eagle3())
    cluster.until(lambda: released(cluster))
    cluster.edit(speculation=builders.eagle3(k=5))
    cluster.settle(seconds=30.0, quiet_s=200.0)
    assert cluster.serving() == LONGER
    assert [one.record.decision for one in history(cluster).stored][1] is Decision.ABORTED


def two_bars(*, stable: float, candidate: float, newer_base: float) -> GpuCluster:
    """Return a cluster whose head serves, after a newer image with its own head was asked for."""
    cluster = GpuCluster(resource(policy=CONSENT), {"gpu-1": 8})
    by_image(cluster, {f"{BASE} 0.33.0": 1.0, f"{HEAD} 0.33.0": stable})
    cluster.settle(passes=300)
    assert cluster.serving() == f"{HEAD} 0.33.0"
    cluster.speeds |= {f"{BASE} 0.34.0": newer_base, f"{HEAD} 0.34.0": candidate}
    cluster.edit(engine=NEWER)
    cluster.settle(seconds=30.0, quiet_s=200.0)
    return cluster


def test_candidate_that_beats_only_its_control_is_not_promoted() -> None:
    """Two bars: a slower new image whose head still beats its own control; 1.6x stable against a 1.1x candidate."""
    cluster = two_bars(stable=1.6, candidate=1.1, newer_base=0.6)
    record = candidate_of(cluster)
    assert (record.decision, record.reason) == (Decision.REJECTED, "SlowerThanStable")
    assert len(record.turns) == 3
    assert cluster.serving() == f"{HEAD} 0.33.0"
    assert history(cluster).stored[-1].record.reason == "Recovered"


def test_recorded_control_is_not_loaded_again_for_another_head() -> None:
    """Its profile stands in for it while image and arguments are the same."""
    cluster = after(single(), 1.6)
    cluster.speeds[LONGER] = 2.6
    after(cluster, 1.6, speculation=builders.eagle3(k=5))
    record = candidate_of(cluster)
    assert record.carried_rounds == 2
    assert {one.mode for one in record.measurements if one.round <= 2} == {Mode.ALTERNATING}
    assert cluster.serving() == LONGER


def test_recorded_control_is_measured_again_for_another_image_or_when_too_old() -> None:
    """Another image is another revision; an old profile says little of today."""
    assert candidate_of(two_bars(stable=1.6, candidate=2.4, newer_base=1.0)).carried_rounds == 0
    cluster = after(single(replace={"allowDowntime": True, "baselineMaxAge": "1h"}), 1.6)
    cluster.now = conditions.parse_timestamp("2027-06-01T00:00:00Z")
    cluster.speeds[LONGER] = 2.6
    after(cluster, 1.6, speculation=builders.eagle3(k=5))
    assert candidate_of(cluster).carried_rounds == 0


def test_one_free_node_is_shared_by_control_and_candidate() -> None:
    """Stable keeps its own, and both take turns beside it until loads enough have been seen."""
    cluster = GpuCluster(resource(policy={"strategy": "Surge"}), {"gpu-1": 8, "gpu-2": 8})
    by_image(cluster, {f"{BASE} 0.33.0": 1.0, f"{HEAD} 0.33.0": 1.2})
    cluster.settle(passes=300)
    cluster.least_ready = None
    cluster.speeds |= {f"{BASE} 0.34.0": 1.0, f"{HEAD} 0.34.0": 1.7}
    cluster.edit(engine=NEWER)
    cluster.settle(seconds=30.0, quiet_s=200.0)
    record = candidate_of(cluster)
    assert (record.seating, record.decision) == (Seating.SHARED, Decision.PROMOTED)
    assert cluster.least_ready == 1
    assert cluster.resource["status"]["rollout"]["evidenceMode"] == "Alternating"
    assert not cluster.objects(kinds.JOB)
