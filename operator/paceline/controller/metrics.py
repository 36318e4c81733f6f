"""The operator's own Prometheus metrics, in one registry that a test can have for itself."""

from typing import Final

import prometheus_client

_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Every series the operator exports."""

    def __init__(self) -> None:
        """Make the series; nothing is registered globally."""
        self.registry = prometheus_client.CollectorRegistry()
        self.passes = self._counter("passes", "Passes over a resource.", "kind", "outcome")
        self.pass_seconds = self._histogram("pass_duration_seconds", "Duration of a pass.", "kind")
        self.queue_depth = self._gauge("queue_depth", "Keys that are ready or in work.")
        self.queue_seconds = self._histogram("queue_wait_seconds", "Time from ready to picked up.")
        self.writes = self._counter("writes", "Writes that succeeded.", "kind", "verb")
        self.requests = self._counter("api_requests", "Calls to the API server.", "verb", "code")
        self.request_seconds = self._histogram("api_request_duration_seconds", "Duration of such a call.", "verb")
        self.relists = self._counter("relists", "Lists that replaced a part of the cache.", "kind")
        self.cached = self._gauge("cache_objects", "Objects in the cache.", "kind")
        self.transitions = self._counter("transitions", "Events told to users, by reason.", "kind", "reason")
        self.polls = self._counter("polls", "Questions to pods.", "wants", "outcome")
        self.leader = self._gauge("leader", "Whether this process is the leader.")

    def exposition(self) -> bytes:
        """Return all series as Prometheus text."""
        return prometheus_client.generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> prometheus_client.Counter:
        return prometheus_client.Counter(f"paceline_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> prometheus_client.Gauge:
        return prometheus_client.Gauge(f"paceline_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> prometheus_client.Histogram:
        return prometheus_client.Histogram(f"paceline_{name}", text, labels, registry=self.registry, buckets=_SECONDS)
