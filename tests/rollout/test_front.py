"""The Service that users call."""

from paceline.api import names
from paceline.planning import kinds, plan
from rollout import builders
from rollout.cluster import Cluster
from rollout.reading import history, selected


def serving() -> Cluster:
    """Return a cluster that serves a promoted head."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.settle()
    return cluster


def test_there_is_no_service_before_something_serves() -> None:
    """A Service without an endpoint only turns errors into time-outs."""
    cluster = Cluster()
    cluster.until(lambda: bool(cluster.servers()))
    assert cluster.objects(kinds.SERVICE) == []


def test_service_selects_exactly_stable() -> None:
    """One revision label, that of stable, on the port of the spec."""
    cluster = serving()
    service = cluster.objects(kinds.SERVICE)[0]
    assert selected(cluster) == names.short(history(cluster).stable)
    assert service["spec"]["ports"][0]["port"] == 8000


def test_flip_carries_the_version_it_was_decided_on() -> None:
    """Two operators cannot flip over each other."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    flips: list[plan.Apply] = []
    while not flips:
        version = next((one["metadata"]["resourceVersion"] for one in cluster.objects(kinds.SERVICE)), "")
        planned = cluster.operate()
        flips = [one for one in planned.actions if isinstance(one, plan.Apply) and one.manifest["kind"] == "Service"]
        cluster.play()
    assert flips[0].resource_version == version


def test_service_is_written_before_any_server() -> None:
    """An operator that ends after every write would else leave users without a Service until a rollout is over."""
    cluster = serving()
    cluster.remove(kinds.SERVICE, builders.NAME)
    cluster.edit(replicas=2)
    kinds_written = [one.manifest["kind"] for one in cluster.operate().actions if hasattr(one, "manifest")]
    assert kinds_written.index("Service") < kinds_written.index("Deployment")


def test_deleted_service_is_made_again() -> None:
    """By the newest decision."""
    cluster = serving()
    before = selected(cluster)
    cluster.remove(kinds.SERVICE, builders.NAME)
    cluster.operate()
    assert selected(cluster) == before


def test_port_change_keeps_the_selection() -> None:
    """Another port flips nothing and drains nothing."""
    cluster = serving()
    before = selected(cluster)
    cluster.edit(traffic={"port": 9000})
    cluster.operate()
    assert selected(cluster) == before
    assert cluster.objects(kinds.SERVICE)[0]["spec"]["ports"][0]["port"] == 9000
    cluster.settle()


def test_foreign_service_is_left_alone() -> None:
    """A Service of our name that is not ours is not taken over: the create tells of it."""
    cluster = Cluster()
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": builders.NAME, "namespace": builders.NAMESPACE, "uid": "foreign"},
        "spec": {"selector": {"app": "theirs"}},
    }
    cluster.put(foreign)
    cluster.until(lambda: bool(history(cluster).stable))
    assert any(isinstance(one, plan.Create) and one.manifest["kind"] == "Service" for one in cluster.plan().actions)
    assert cluster.objects(kinds.SERVICE)[0]["spec"] == {"selector": {"app": "theirs"}}


def test_old_records_flip_nothing_back() -> None:
    """A Service that follows a newer decision than the records seen is not touched."""
    cluster = Cluster()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.until(lambda: cluster.serving() == "EAGLE3 k=3")
    before = cluster.store
    old = cluster.room.reconcile(cluster.torn_picture({"ConfigMap": 3}), cluster.key, cluster.now)
    assert old is not None
    assert old.actions == ()
    assert cluster.store is before


def test_deleted_record_heals_by_a_new_rollout() -> None:
    """Somebody made us forget a promotion: it is measured again, under a number above the forgotten one."""
    cluster = serving()
    newest = history(cluster).stored[-1]
    cluster.remove(kinds.CONFIG_MAP, newest.name)
    cluster.settle()
    assert history(cluster).stored[-1].record.number > newest.record.number
    assert cluster.serving() == "EAGLE3 k=3"
