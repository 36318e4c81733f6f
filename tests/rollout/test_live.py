"""What users' traffic shows: by band, as it changes, and when it says nothing."""

import copy
import dataclasses
from pathlib import Path

import pytest

from paceline.api.measurement import Decision, Purpose
from paceline.engines import metrics
from paceline.judge import comparison
from paceline.planning import kinds
from paceline.rollout.guarding import suspicion
from paceline.rollout.view import observe
from rollout import builders
from rollout.builders import Users
from rollout.cluster import Cluster
from rollout.reading import history

SPECULATING = "EAGLE3 k=3"
# Acceptance 2.2 at 1.5 times the control's throughput breaks even at 1.47, at 1 and at 8 requests in flight.
HEALTHY = Users(accepted_a_draft=1.2)
LOSING = 0.1
STEP_S = 15.0


@pytest.fixture(scope="module")
def settled() -> Cluster:
    """Return a cluster that serves a promoted head, and has had healthy traffic for ten minutes."""
    cluster = Cluster()
    cluster.speeds[SPECULATING] = 1.5
    cluster.settle()
    cluster.users = HEALTHY
    cluster.settle(seconds=60, quiet_s=600)
    assert cluster.condition("Suspect")["reason"] == "Healthy"
    return cluster


@pytest.fixture
def served(settled: Cluster) -> Cluster:
    """Return such a cluster for one test: objects are never changed in place, so that a shallow copy is enough."""
    made = copy.copy(settled)
    for name, value in vars(settled).items():
        if isinstance(value, (dict, list, set)):
            setattr(made, name, value.copy())
    return made


def change(cluster: Cluster, **traffic: float) -> float:
    """Let other users come, and return when."""
    assert cluster.users is not None
    cluster.users = dataclasses.replace(HEALTHY, before=cluster.users, since=cluster.now, **traffic)
    return cluster.now


def watched(cluster: Cluster) -> suspicion.Watch:
    """Return what the guard makes of it now."""
    return suspicion.watch(observe.observe(cluster.picture(), cluster.resource, stage_image="stages:1"), cluster.now)


def pass_time(cluster: Cluster, seconds: float) -> None:
    """Let the operator look every 15 seconds."""
    for _ in range(int(seconds / STEP_S)):
        cluster.operate()
        cluster.play(STEP_S)


def test_collapse_of_acceptance_is_found_within_minutes(served: Cluster) -> None:
    """Suspect in three minutes, and out of service within ten of virtual time, the control's load included."""
    since = change(served, accepted_a_draft=LOSING)
    served.until(lambda: history(served).open is not None, seconds=STEP_S)
    assert served.now - since <= 180
    served.until(lambda: served.serving() == "None", seconds=STEP_S)
    assert served.now - since <= 600
    assert history(served).last.reason == "LiveBelowBaseline"


def test_dead_head_goes_without_a_measurement(served: Cluster) -> None:
    """Nothing accepted is no matter of degree: the control takes over as soon as it is there, unmeasured."""
    since = change(served, accepted_a_draft=0.0)
    served.until(lambda: served.serving() == "None", seconds=STEP_S)
    assert served.now - since <= 300
    last = history(served).last
    assert (last.purpose, last.decision, last.reason) == (Purpose.GUARD, Decision.REJECTED, "DeadDraft")
    assert last.rounds == 0


@pytest.mark.parametrize(
    "traffic",
    [
        pytest.param({"drafts_a_second": 0.5, "running": 0.1}, id="lower load"),
        pytest.param({"drafts_a_second": 0.0, "running": 0.0}, id="no load"),
        pytest.param({"drafts_a_second": 80.0, "running": 8.0}, id="higher load"),
        pytest.param({"prompt_tokens": 10_000}, id="longer prompts"),
        pytest.param({"drafts_a_second": 0.5, "accepted_a_draft": LOSING}, id="too few drafts that accept less"),
    ],
)
def test_what_is_no_fault_of_the_head_raises_no_suspicion(served: Cluster, traffic: dict) -> None:
    """Throughput falls in all of these; acceptance does not, or nobody can say."""
    change(served, **traffic)
    pass_time(served, 300)
    assert history(served).open is None
    assert served.condition("Suspect")["status"] != "True"


def test_fall_under_far_longer_prompts_is_told_and_not_acted_on(served: Cluster) -> None:
    """The break-even was measured on short prompts: it does not hold for long ones, so a person is told to measure."""
    record = history(served).promotion_of(history(served).stable)
    lengths = [one.model_copy(update={"prompt_tokens": 100 * one.requests}) for one in record.measurements]
    stored = next(
        one for one in served.objects(kinds.CONFIG_MAP) if one["metadata"]["name"] == history(served).stored[-1].name
    )
    served.put(
        {
            **stored,
            "data": {"record.json": record.model_copy(update={"measurements": lengths}).model_dump_json(by_alias=True)},
        }
    )
    change(served, accepted_a_draft=LOSING, prompt_tokens=1_000)
    pass_time(served, 180)
    assert watched(served).verdict is comparison.Verdict.INCONCLUSIVE
    assert served.condition("Suspect")["reason"] == "UnlikePrompts"
    assert history(served).open is None


def test_engine_that_stalls_is_replaced_without_a_measurement(served: Cluster) -> None:
    """Its health path answers 200, requests are in flight, and no token comes: vllm#36960, while it serves."""
    change(served, drafts_a_second=0.0, running=4.0)
    served.until(lambda: served.serving() == "None", seconds=STEP_S)
    last = history(served).last
    assert last.reason == "EngineFailed"
    assert "generated no token" in last.message


def test_engine_that_goes_on_after_a_stall_stays(served: Cluster) -> None:
    """Requests come through again before the control is there."""
    served.unschedulable["None"] = "0/1 nodes are available"
    change(served, drafts_a_second=0.0, running=4.0)
    served.until(lambda: history(served).open is not None, seconds=STEP_S)
    change(served)
    served.unschedulable.clear()
    served.until(lambda: history(served).open is None, seconds=STEP_S)
    assert history(served).last.reason == "Healthy"
    assert served.serving() == SPECULATING


def two_bands(cluster: Cluster, *, at_8: float, share_of_8: float) -> None:
    """Let the window hold one part near 1 request in flight, and one near 8 whose users accept ``at_8``."""
    start = cluster.now
    drafts = 10.0
    few = Users(drafts_a_second=drafts * (1 - share_of_8), running=1.0, before=cluster.users, since=start)
    cluster.users = Users(
        drafts_a_second=drafts * share_of_8, running=8.0, accepted_a_draft=at_8, before=few, since=start + 60
    )
    cluster.now = start + 120


def test_band_that_loses_is_named(served: Cluster) -> None:
    """Most drafts are made near 8 requests in flight, and lose there: the confirmation asks about that band."""
    two_bands(served, at_8=LOSING, share_of_8=0.8)
    found = watched(served)
    assert found.verdict is comparison.Verdict.FAIL
    assert found.break_even is not None
    assert found.break_even.concurrency == 8


def test_band_that_loses_less_than_others_gain_is_no_reason_to_lose_both(served: Cluster) -> None:
    """A tenth of the drafts loses 25 percent, nine tenths gain 50."""
    two_bands(served, at_8=LOSING, share_of_8=0.2)
    assert watched(served).verdict is comparison.Verdict.PASS


def test_restart_of_an_engine_is_no_fall(served: Cluster) -> None:
    """The span in which counters begin anew is dropped; those around it are what they are."""
    served.users = dataclasses.replace(HEALTHY, since=served.now - 30)
    found = watched(served)
    assert found.verdict is comparison.Verdict.PASS
    assert found.live is not None
    assert round(found.live.acceptance_length, 2) == 2.2


def test_scrapes_with_gaps_say_nothing(served: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that is mostly unreadable is not covered."""
    real = builders.metrics
    change(served, accepted_a_draft=LOSING)
    served.now += 120
    monkeypatch.setattr(builders, "metrics", lambda users, at: real(users, at) if at > served.now - 40 else "<html>")
    assert watched(served).verdict is comparison.Verdict.INCONCLUSIVE


RECORDED = sorted((Path(__file__).parents[1] / "engines" / "metrics").glob("*.txt"))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_recorded_metrics_that_do_not_move_say_nothing(
    served: Cluster, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN, renamed or absent series, a dead head's totals, an error page: without a difference nothing happened.

    Only one that shows requests in flight all through the window may be an engine that stalls.
    """
    text = file.read_text(errors="replace")
    monkeypatch.setattr(builders, "metrics", lambda *_: text)
    assert watched(served).verdict is comparison.Verdict.INCONCLUSIVE
    served.operate()
    read = metrics.read(text)
    is_busy = isinstance(read, metrics.Reading) and bool(read.requests_running)
    assert history(served).open is None or is_busy
