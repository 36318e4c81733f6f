"""Steps by the weights of an HTTPRoute: what they are when, and what is done where they cannot be had."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from paceline.api import names
from paceline.api.measurement import Decision
from paceline.planning import kinds, plan
from paceline.planning.view import Sight
from rollout import builders, gateway
from rollout.cluster import Cluster
from rollout.reading import history

STEPS = [{"weight": 20, "pause": "5m"}, {"weight": 80, "pause": "5m"}]
HEAD, NONE = "EAGLE3 k=3", "None"


class Routed(Cluster):
    """A cluster with a gateway, which takes in what is written between two passes."""

    gateway_works = True

    def play(self, seconds: float = 30.0) -> None:
        """Let time pass."""
        super().play(seconds)
        if self.gateway_works:
            gateway.play(self)


def measured(*, replicas: int = 4, route: dict[str, Any] | None = None, steps: list | None = None) -> Routed:
    """Return a cluster whose baseline serves behind a route when a head is asked for, which wins its measurement."""
    traffic = {"httpRoute": {"name": gateway.NAME}}
    cluster = Routed(builders.deployment(speculation=builders.none(), replicas=replicas, traffic=traffic))
    cluster.put(route or gateway.route())
    cluster.speeds[HEAD] = 1.5
    cluster.settle()
    cluster.users = builders.Users()
    stepwise = {**builders.rollout(), "steps": STEPS if steps is None else steps}
    cluster.edit(speculation=builders.eagle3(), rollout=stepwise)
    return cluster


def sizes(cluster: Cluster) -> dict[str, int]:
    """Return replicas by what is drafted."""
    return {
        cluster.title(one["metadata"]["labels"][names.LABEL_REVISION]): one["spec"]["replicas"]
        for one in cluster.objects(kinds.DEPLOYMENT)
    }


def at(cluster: Cluster, weight: int) -> bool:
    """Whether the open rollout's share of this weight is in place."""
    opened = history(cluster).open
    return bool(opened and opened.record.weight == weight and opened.record.weight_since)


def until_share(cluster: Cluster, weight: int) -> None:
    """Run until the candidate's share is in place."""
    cluster.until(lambda: at(cluster, weight), passes=300)


def services(cluster: Cluster) -> list[str]:
    """Return the parts of our Services."""
    return sorted(one["metadata"]["labels"][names.LABEL_PART] for one in cluster.objects(kinds.SERVICE))


def written(cluster: Cluster) -> list[plan.Amend]:
    """Return the writes of routes."""
    return [one for one in cluster.writes if isinstance(one, plan.Amend)]


@pytest.mark.parametrize(("replicas", "first", "last"), [(4, 1, 4), (1, 1, 1)], ids=["four replicas", "one"])
def test_candidate_goes_from_nothing_through_its_steps_to_all(replicas: int, first: int, last: int) -> None:
    """0 while it is measured, 20, 80, then the front Service is its own; a single replica has steps too."""
    cluster, seen = measured(replicas=replicas), []
    while history(cluster).last.number == 1 or len(gateway.backends(cluster)) > 1:
        cluster.operate()
        told = cluster.resource["status"]["rollout"]
        seen.append((gateway.split(cluster), cluster.serving(), sizes(cluster).get(HEAD), told["weight"]))
        cluster.play()
    shares = [one for at, one in enumerate(seen) if one not in seen[:at]]
    assert ({"front": 100, HEAD: 0}, NONE, 1, 0) in shares
    assert ({"front": 80, HEAD: 20}, NONE, first, 20) in shares
    assert ({"front": 20, HEAD: 80}, NONE, last, 80) in shares
    assert ({"front": 100, HEAD: 0}, HEAD, replicas, 0) in shares
    cluster.settle()
    assert gateway.split(cluster) == {"front": 1}
    assert sizes(cluster) == {HEAD: replicas}
    assert services(cluster) == ["front"]


def test_everything_else_of_the_route_stays_and_in_the_end_all_of_it() -> None:
    """Matches, time-outs, other rules, labels and annotations are the user's; so are the weights once it is over."""
    mine = {**gateway.front(weight=7), "filters": [{"type": "RequestHeaderModifier"}]}
    before = gateway.route(gateway.rule(mine), gateway.OTHER)
    cluster = measured(route=copy.deepcopy(before))
    until_share(cluster, 20)
    now = gateway.stored(cluster)
    assert [one["filters"] for one in gateway.backends(cluster)] == [mine["filters"]] * 2
    assert now["spec"]["rules"][0]["timeouts"] == gateway.TIMEOUTS
    assert now["spec"]["rules"][1] == gateway.OTHER
    cluster.until(lambda: cluster.serving() == HEAD)
    cluster.settle()
    assert cluster.serving() == HEAD
    after = gateway.stored(cluster)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert [one.is_last for one in written(cluster)] == [False] * (len(written(cluster)) - 1) + [True]


def test_settled_resource_writes_no_route() -> None:
    """Before the first rollout, and after the last."""
    cluster = Routed(builders.deployment(traffic={"httpRoute": {"name": gateway.NAME}}))
    cluster.put(gateway.route())
    cluster.settle()
    assert written(cluster) == []
    assert cluster.condition("Routed")["status"] == "True"


def test_rollback_takes_the_weight_away_at_once_and_the_pods_after_their_streams() -> None:
    """The very pass that decides writes 0, before anything is deleted."""
    cluster = measured()
    until_share(cluster, 80)
    cluster.acceptance[HEAD], cluster.users = 0.0, builders.Users(accepted_a_draft=0.0)
    cluster.until(lambda: history(cluster).last.number > 1)
    assert history(cluster).last.decision is Decision.REJECTED
    assert gateway.split(cluster) == {"front": 100, HEAD: 0}
    assert sizes(cluster) == {HEAD: 4, NONE: 4}
    cluster.settle()
    assert gateway.split(cluster) == {"front": 1}
    assert sizes(cluster) == {NONE: 4}
    assert services(cluster) == ["front"]


def test_withdrawal_comes_before_every_other_write_but_the_record() -> None:
    """A write that fails must not leave users on a rejected candidate."""
    cluster = measured()
    until_share(cluster, 20)
    cluster.annotate(abort=names.short(history(cluster).open.record.candidate))
    record, withdrawal, *_ = cluster.plan().actions
    assert isinstance(record, plan.Apply)
    assert record.manifest["kind"] == "ConfigMap"
    assert isinstance(withdrawal, plan.Amend)


def unready(cluster: Cluster, title: str) -> None:
    """Let all pods of a revision fail their readiness probe."""
    for pod in cluster.objects(kinds.POD):
        short = pod["metadata"]["labels"].get(names.LABEL_REVISION)
        if short and cluster.title(short) == title:
            told = [one for one in pod["status"]["conditions"] if one["type"] != "Ready"]
            told.append({"type": "Ready", "status": "False"})
            cluster.put({**pod, "status": {**pod["status"], "conditions": told}})


def test_arm_without_an_endpoint_has_no_weight() -> None:
    """The candidate's pod goes down: 0; it comes back: its share; all of stable's go down: it has everything."""
    cluster = measured()
    until_share(cluster, 20)
    unready(cluster, HEAD)
    cluster.operate()
    assert gateway.split(cluster) == {"front": 100, HEAD: 0}
    cluster.play(1)
    cluster.operate()
    assert gateway.split(cluster) == {"front": 80, HEAD: 20}
    unready(cluster, NONE)
    cluster.operate()
    assert gateway.split(cluster) == {"front": 0, HEAD: 100}


def test_share_waits_until_the_gateway_knows_of_it() -> None:
    """A step's pause counts from the version that the gateway has taken in, and a gateway that never does ends it."""
    cluster = measured()
    cluster.until(lambda: gateway.split(cluster) == {"front": 100, HEAD: 0})
    cluster.gateway_works = False
    cluster.until(lambda: gateway.split(cluster) == {"front": 80, HEAD: 20}, passes=300)
    cluster.operate()
    assert not at(cluster, 20)
    cluster.until(lambda: history(cluster).last.number > 1, passes=400)
    assert history(cluster).last.reason == "Inconclusive"
    assert cluster.serving() == NONE


def reset(cluster: Cluster) -> None:
    """Write the user's own rules again, as a GitOps tool does."""
    now = copy.deepcopy(gateway.stored(cluster))
    now["spec"] = gateway.route()["spec"]
    now["metadata"]["generation"] += 1
    cluster.put(now)


def replace(cluster: Cluster) -> None:
    """Replace the route by the user's own, mark and all."""
    generation = gateway.stored(cluster)["metadata"]["generation"] + 1
    now = gateway.route()
    now["metadata"]["generation"] = generation
    cluster.put(now)


@pytest.mark.parametrize("change", [reset, replace])
def test_weights_that_somebody_else_changes_are_not_fought_for(change: Callable[[Cluster], None]) -> None:
    """It is told, what was seen meanwhile proves nothing, and the rules stay as they were put."""
    cluster = measured()
    until_share(cluster, 20)
    change(cluster)
    before = len(written(cluster))
    cluster.play(1)
    cluster.operate()
    assert "somebody else has changed" in history(cluster).last.message.lower()
    cluster.settle()
    assert gateway.stored(cluster)["spec"] == gateway.route()["spec"]
    assert len(written(cluster)) <= before + 1, "no more than what takes our mark away"
    assert cluster.serving() == NONE
    assert sizes(cluster) == {NONE: 4}


def test_conflict_is_told_while_the_candidate_is_still_measured() -> None:
    """Nobody depends on the weights yet, so there is time to tell the other owner."""
    cluster = measured()
    cluster.until(lambda: gateway.split(cluster) == {"front": 100, HEAD: 0})
    reset(cluster)
    cluster.play(1)
    cluster.operate()
    assert cluster.condition("Routed")["reason"] == "RouteConflict"
    assert history(cluster).open


@pytest.mark.parametrize(
    ("sight", "reason", "words"),
    [
        (Sight.OFF, "RoutesUnseen", "set gateway.enabled"),
        (Sight.ABSENT, "RoutesUnseen", "install the Gateway API's CRDs"),
        (Sight.REFUSED, "RoutesUnseen", "may not list HTTPRoutes"),
    ],
)
def test_routes_that_cannot_be_seen_are_told_and_stop_nothing_else(
    sight: Sight, reason: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The baseline serves; a candidate that cannot get its share is not promoted unseen."""
    monkeypatch.setattr("rollout.cluster.Picture.sight", lambda _self, _kind: sight)
    cluster = measured()
    cluster.until(lambda: history(cluster).last.number > 1, passes=300, seconds=150.0)
    assert cluster.condition("Routed")["reason"] == reason
    assert words in cluster.condition("Routed")["message"]
    assert history(cluster).last.reason == "Inconclusive"
    cluster.settle()
    assert cluster.serving() == NONE
    assert written(cluster) == []


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([gateway.OTHER], "No rule of HTTPRoute llm has Service smol as a backend"),
        ([gateway.rule(gateway.front(), gateway.OTHER["backendRefs"][0])], "give smol a rule alone"),
        ([gateway.rule(gateway.front(weight=0))], "gives Service smol weight 0"),
    ],
    ids=["no rule", "shared rule", "switched off"],
)
def test_route_that_cannot_be_weighted_is_left_alone(rules: list, words: str) -> None:
    """The condition says what to change."""
    cluster = measured(route=gateway.route(*rules))
    cluster.until(lambda: history(cluster).last.number > 1, passes=300, seconds=150.0)
    assert cluster.condition("Routed")["reason"] == "RouteUnfit"
    assert words in cluster.condition("Routed")["message"]
    assert written(cluster) == []


def test_route_that_is_missing_is_waited_for() -> None:
    """Made in time, it gets its weights."""
    cluster = measured()
    cluster.remove(kinds.HTTP_ROUTE, gateway.NAME)
    cluster.until(lambda: bool((one := history(cluster).open) and one.record.weight), passes=300)
    assert cluster.condition("Routed")["reason"] == "RouteNotFound"
    cluster.put(gateway.route())
    until_share(cluster, 20)
    assert gateway.split(cluster) == {"front": 80, HEAD: 20}


@pytest.mark.parametrize("traffic", [{}, {"httpRoute": {"name": "other"}}], ids=["by replicas", "another route"])
def test_share_moves_when_the_spec_names_something_else(traffic: dict[str, Any]) -> None:
    """The old route gets its user's weights back, and the share comes in place anew."""
    cluster = measured()
    other = gateway.route()
    other["metadata"] = {**other["metadata"], "name": "other", "uid": "uid-of-other"}
    cluster.put(gateway.answer(other))
    until_share(cluster, 20)
    cluster.edit(traffic=traffic)
    cluster.operate()
    assert gateway.split(cluster) == {"front": 100, HEAD: 0}
    assert not at(cluster, 20)
    cluster.settle()
    assert gateway.stored(cluster)["spec"] == gateway.route()["spec"]


def test_two_resources_share_a_route_without_touching_each_other() -> None:
    """Each has its own rules and its own mark."""
    cluster = measured(
        route=gateway.route(gateway.rule(gateway.front()), gateway.OTHER, **{"paceline.dev/weights-12345678": "{}"})
    )
    until_share(cluster, 20)
    assert gateway.stored(cluster)["metadata"]["annotations"]["paceline.dev/weights-12345678"] == "{}"
    assert gateway.stored(cluster)["spec"]["rules"][1] == gateway.OTHER


def test_change_of_a_route_wakes_who_names_it_and_who_has_left_something_on_it() -> None:
    """Also a resource that has dropped the route's name since."""
    cluster = measured()
    woken = cluster.room.dependents(cluster.picture(), gateway.stored(cluster))
    assert woken == [cluster.key]
    until_share(cluster, 20)
    cluster.edit(traffic={})
    assert cluster.room.dependents(cluster.picture(), gateway.stored(cluster)) == [cluster.key]
    assert cluster.room.dependents(cluster.picture(), gateway.route()) == []


def test_crash_after_any_write_ends_the_same() -> None:
    """Killed after each write of every pass that writes, the rollout ends as without."""
    cluster = measured(replicas=1, steps=[{"weight": 30, "pause": "1m"}])
    for _ in range(60):
        for crash in range(len(cluster.plan().actions)):
            cluster.run(cluster.plan(), crash_after=crash)
        cluster.operate()
        cluster.play(60)
    assert cluster.serving() == HEAD
    assert gateway.stored(cluster)["spec"] == gateway.route()["spec"]
    assert not cluster.plan().actions
