"""The whole room on the model cluster: what a user sees from the first apply on."""

from rollout import builders
from rollout.cluster import Cluster


def promoted() -> Cluster:
    """Return a cluster in which a head has been promoted."""
    cluster = Cluster()
    cluster.speeds |= {"EAGLE3 k=3": 1.5}
    cluster.settle()
    return cluster


def test_first_revision_served_is_the_control() -> None:
    """Nothing is known of a head before there is something to hold it against."""
    cluster = Cluster(builders.deployment(speculation=builders.none()))
    cluster.settle()
    assert cluster.serving() == "None"
    assert cluster.condition("Available")["status"] == "True"


def test_faster_candidate_is_promoted() -> None:
    """A head that is measurably faster than its control serves."""
    cluster = promoted()
    assert cluster.serving() == "EAGLE3 k=3"
    assert cluster.servers() == ["EAGLE3 k=3"]
    assert cluster.condition("Progressing")["reason"] == "Promoted"


def test_slower_candidate_is_rolled_back() -> None:
    """A head that is measurably slower never serves, and its Deployment goes."""
    cluster = Cluster()
    cluster.speeds |= {"EAGLE3 k=3": 0.8}
    cluster.settle()
    assert cluster.serving() == "None"
    assert cluster.servers() == ["None"]
    assert cluster.condition("Progressing")["reason"] == "SlowerThanControl"


def test_settled_world_is_left_alone() -> None:
    """A pass that has nothing to do writes nothing."""
    cluster = promoted()
    assert not cluster.plan().actions
    assert cluster.plan().status == cluster.resource["status"]
