"""Reads what a test wants to know from a cluster."""

from paceline.planning import kinds
from paceline.rollout.documents import records
from rollout import builders
from rollout.cluster import Cluster, selected_by


def history(cluster: Cluster) -> records.History:
    """Return the rollout records in a cluster."""
    maps = [one for one in cluster.objects(kinds.CONFIG_MAP) if records.KEY in one["data"]]
    stored = sorted((records.read(one) for one in maps), key=lambda one: one.record.number)
    return records.History(owner=builders.NAME, owner_uid=f"uid-of-{builders.NAME}", stored=tuple(stored))


def selected(cluster: Cluster) -> str:
    """Return the short hash that the front Service selects; empty without a Service."""
    service = cluster.store.get(("Service", builders.NAME))
    return selected_by(service) if service else ""
