"""The PodDisruptionBudget of what serves."""

from paceline.api import names
from paceline.planning import kinds
from rollout import builders
from rollout.cluster import Cluster
from rollout.reading import selected


def budgets(cluster: Cluster) -> list[dict]:
    """Return the budgets."""
    return list(cluster.objects(kinds.POD_DISRUPTION_BUDGET))


def serving(**changes) -> Cluster:
    """Return a cluster that serves a promoted head."""
    cluster = Cluster(builders.deployment(**changes))
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.settle()
    return cluster


def test_budget_follows_what_users_reach() -> None:
    """One budget, for the pods of the revision that the front Service selects, also after a promotion."""
    cluster = serving()
    budget = budgets(cluster)[0]
    assert len(budgets(cluster)) == 1
    assert cluster.serving() == "EAGLE3 k=3"
    assert budget["spec"]["selector"]["matchLabels"][names.LABEL_REVISION] == selected(cluster)
    assert budget["spec"]["maxUnavailable"] == 1


def test_nothing_is_protected_before_something_serves() -> None:
    """A budget without pods would only puzzle."""
    cluster = Cluster()
    cluster.until(lambda: bool(cluster.servers()))
    assert budgets(cluster) == []


def test_budget_is_changed_and_taken_away_as_the_spec_says() -> None:
    """More at once, then none at all; a settled world stays settled."""
    cluster = serving()
    cluster.edit(disruptionBudget={"maxUnavailable": 2})
    cluster.settle()
    assert budgets(cluster)[0]["spec"]["maxUnavailable"] == 2
    cluster.edit(disruptionBudget={"enabled": False})
    cluster.settle()
    assert budgets(cluster) == []


def test_budget_that_somebody_changed_is_put_right() -> None:
    """By the next pass, without a second one beside it."""
    cluster = serving()
    changed = budgets(cluster)[0]
    cluster.put({**changed, "spec": {**changed["spec"], "maxUnavailable": "100%"}})
    cluster.operate()
    assert [one["spec"]["maxUnavailable"] for one in budgets(cluster)] == [1]
