"""Steps: shares of users' traffic on the way to promotion, by whole replicas behind the front Service."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.api import names
from paceline.api.measurement import Decision
from paceline.planning import kinds
from paceline.rollout.traffic import exposure, weights
from rollout import builders
from rollout.cluster import Cluster
from rollout.reading import history

STEPS = [{"weight": 20, "pause": "5m"}, {"weight": 50, "pause": "5m"}]


def measured(*, replicas: int = 4, steps: list | None = None) -> Cluster:
    """Return a cluster whose baseline serves when a head is asked for, which wins its measurement."""
    cluster = Cluster(builders.deployment(speculation=builders.none(), replicas=replicas))
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.settle()
    cluster.users = builders.Users()
    stepwise = {**builders.rollout(), "steps": STEPS if steps is None else steps}
    cluster.edit(speculation=builders.eagle3(), rollout=stepwise)
    return cluster


def shared(cluster: Cluster) -> bool:
    """Whether the front Service selects more than one revision."""
    service = cluster.objects(kinds.SERVICE)[0]
    return names.LABEL_REVISION not in service["spec"]["selector"]


def sizes(cluster: Cluster) -> dict[str, int]:
    """Return replicas by what is drafted."""
    return {
        cluster.title(one["metadata"]["labels"][names.LABEL_REVISION]): one["spec"]["replicas"]
        for one in cluster.objects(kinds.DEPLOYMENT)
    }


def test_candidate_gets_its_shares_one_after_the_other() -> None:
    """A fifth by one of five pods, half by four of eight; stable keeps its four until the promotion."""
    cluster = measured()
    seen = []
    while history(cluster).last.number == 1:
        cluster.operate()
        if shared(cluster):
            told = cluster.resource["status"]["rollout"]
            seen.append((told["weight"], tuple(sorted(sizes(cluster).items()))))
        cluster.play()
    shares = list(dict.fromkeys(seen))
    assert (20, (("EAGLE3 k=3", 1), ("None", 4))) in shares
    assert (50, (("EAGLE3 k=3", 4), ("None", 4))) in shares
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"
    assert sizes(cluster) == {"EAGLE3 k=3": 4}


def test_pool_is_selected_only_once_the_control_is_gone() -> None:
    """Users never reach a pod that is neither stable nor the candidate."""
    cluster = measured()
    cluster.until(lambda: cluster.serving() == "EAGLE3 k=3", passes=300)
    cluster.speeds["EAGLE3 k=5"] = 2.0
    cluster.edit(speculation=builders.eagle3(k=5))
    while cluster.serving() != "EAGLE3 k=5":
        cluster.operate()
        cluster.play()
        if shared(cluster):
            assert set(sizes(cluster)) == {"EAGLE3 k=3", "EAGLE3 k=5"}
            pods = {cluster.title(one["metadata"]["labels"][names.LABEL_REVISION]) for one in servers(cluster)}
            assert pods == {"EAGLE3 k=3", "EAGLE3 k=5"}
        if not shared(cluster) and cluster.serving() == "EAGLE3 k=5":
            break


def servers(cluster: Cluster) -> list[dict]:
    """Return the pods of servers."""
    return [one for one in cluster.objects(kinds.POD) if one["metadata"]["labels"][names.LABEL_PART] == "server"]


def until_share(cluster: Cluster, weight: int) -> None:
    """Run until the candidate's share of this weight is in place."""

    def reached() -> bool:
        opened = history(cluster).open
        return bool(opened and opened.record.weight == weight and opened.record.weight_since)

    cluster.until(reached, passes=300)


def test_restart_at_a_share_goes_on_there() -> None:
    """Killed at a share with measurements behind it: nothing is measured again, and no second candidate is made."""
    cluster = measured(steps=[{"weight": 30, "pause": "10m"}])
    until_share(cluster, 30)
    before = history(cluster).open.record
    made = len(cluster.objects(kinds.DEPLOYMENT))
    for crash in range(3):
        cluster.run(cluster.plan(), crash_after=crash)
    cluster.operate()
    after = history(cluster).open.record
    assert (after.weight, after.measurements) == (30, before.measurements)
    assert not cluster.objects(kinds.JOB)
    assert len(cluster.objects(kinds.DEPLOYMENT)) == made == 2
    assert shared(cluster)


def test_candidate_that_breaks_with_a_share_is_taken_back_and_its_streams_end() -> None:
    """The Service selects stable alone at once; the candidate's pods go when their streams have had their time."""
    cluster = measured()
    until_share(cluster, 20)
    cluster.acceptance["EAGLE3 k=3"] = 0.0
    cluster.users = builders.Users(accepted_a_draft=0.0)
    cluster.until(lambda: history(cluster).last.number > 1)
    assert history(cluster).last.decision is Decision.REJECTED
    assert history(cluster).last.reason == "DeadDraft"
    cluster.operate()
    assert not shared(cluster)
    assert cluster.serving() == "None"
    assert sizes(cluster) == {"EAGLE3 k=3": 1, "None": 4}
    cluster.settle()
    assert sizes(cluster) == {"None": 4}


def test_edit_at_a_share_abandons_the_candidate() -> None:
    """The spec moves on: stable has all traffic again, and the candidate is not remembered as rejected."""
    cluster = measured()
    until_share(cluster, 20)
    cluster.edit(speculation=builders.none())
    cluster.settle()
    assert cluster.serving() == "None"
    assert not shared(cluster)
    assert sizes(cluster) == {"None": 4}
    assert cluster.resource["status"]["rejected"] == []


def test_single_replica_without_a_gateway_has_no_steps() -> None:
    """Beside one pod the least share is half: the probe has judged, so it is promoted."""
    cluster = measured(replicas=1)
    cluster.until(lambda: cluster.serving() == "EAGLE3 k=3", passes=200)
    assert history(cluster).last.weight == 0


def test_share_stays_while_one_side_has_no_endpoint() -> None:
    """The Service leads to the other side by itself; taking stable alone would lead users nowhere."""
    cluster = measured()
    until_share(cluster, 20)
    cluster.crashing.add("None")
    cluster.play()
    cluster.operate()
    cluster.play()
    cluster.operate()
    assert shared(cluster) or cluster.serving() == "EAGLE3 k=3"


def test_autoscaler_moves_both_sides_of_a_share() -> None:
    """Replicas edited in mid-step: stable follows at once, and the candidate keeps its proportion."""
    cluster = measured()
    until_share(cluster, 50)
    cluster.edit(replicas=6)
    cluster.operate()
    assert sizes(cluster) == {"EAGLE3 k=3": 6, "None": 6}
    assert cluster.resource["status"]["replicas"] <= 6


def test_unreadable_metrics_are_neither_success_nor_failure() -> None:
    """Nobody could watch the share, so it ends as the spec says for what cannot be judged."""
    cluster = measured(steps=[{"weight": 20, "pause": "1m"}])
    until_share(cluster, 20)
    cluster.users = None
    cluster.until(lambda: history(cluster).last.number > 1, passes=400)
    assert history(cluster).last.reason == "Inconclusive"
    assert "metrics could not be read" in history(cluster).last.message
    assert cluster.serving() == "None"


@given(weight=st.integers(1, 99), replicas=st.integers(2, 1000))
def test_share_is_the_nearest_that_whole_replicas_give(weight: int, replicas: int) -> None:
    """Beside a stable that keeps its own: at least one pod, at most as many, and no other number comes nearer."""
    found = weights.of_replicas(replicas, weight)
    assert 1 <= found.replicas <= replicas
    assert found.percent <= 50

    def off(count: int) -> float:
        return abs(100 * count / (count + replicas) - weight)

    near = {max(1, found.replicas - 1), min(replicas, found.replicas + 1)}
    assert all(off(found.replicas) <= off(one) + 1 for one in near)


def scrape(*, requests: int, wait_s: float = 0.1, errors: int = 0, drafts: int = 0, accepted: int = 0) -> str:
    """Return an engine's metrics."""
    label = '{engine="0",model_name="m"}'
    rows = {
        f"vllm:generation_tokens_total{label}": requests * 10,
        f"vllm:time_to_first_token_seconds_sum{label}": requests * wait_s,
        f"vllm:time_to_first_token_seconds_count{label}": requests,
        f"vllm:spec_decode_num_drafts_total{label}": drafts,
        f"vllm:spec_decode_num_accepted_tokens_total{label}": accepted,
        'http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"}': requests - errors,
        'http_requests_total{handler="/v1/chat/completions",method="POST",status="5xx"}': errors,
        'http_requests_total{handler="/metrics",method="GET",status="2xx"}': 10_000,
    }
    return "".join(f"{name} {float(value)}\n" for name, value in rows.items())


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (scrape(requests=130), None),
        (scrape(requests=110, errors=10), None),
        (scrape(requests=200, errors=5), "RequestErrors"),
        (scrape(requests=130, wait_s=0.9), "LatencyAboveLimit"),
        (scrape(requests=130, drafts=500), "DeadDraft"),
        (scrape(requests=130, drafts=500, accepted=1), None),
        ("<html>502</html>", None),
        (scrape(requests=3, wait_s=9.0, errors=3), None),
    ],
    ids=["fine", "few answers", "errors", "slow", "dead head", "bad head", "no metrics", "restarted"],
)
def test_what_users_saw_is_judged_by_counts_that_suffice(last: str, reason: str | None) -> None:
    """Errors, waits and dead heads; few requests, a restart or unreadable metrics say nothing."""
    seen = exposure.look([[(0.0, "old"), (10.0, scrape(requests=100)), (20.0, last)]], since=5.0)
    found = exposure.fault(seen, ttft_limit_ms=200)
    assert (found.reason.value if found else None) == reason
