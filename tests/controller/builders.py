"""Objects and a clock for the controller's tests."""

import asyncio
from collections.abc import Callable
from typing import Any

from paceline.controller import cache, freshness, metrics, settings
from paceline.planning import kinds, plan
from paceline.planning.plan import Key

NAMESPACE = "shop"
KEY = Key(kind=kinds.DRAFT_TRAINING_JOB, namespace=NAMESPACE, name="run")
OWNER_UID = "uid-of-run"


class FakeClock:
    """Stands still until told; sleeping only yields."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return 1_700_000_000.0 + self.now

    def monotonic(self) -> float:
        """Return the time that was set."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Move the time, and yield once."""
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


def resource(*, version: str = "1", status: dict[str, Any] | None = None, uid: str = OWNER_UID) -> dict[str, Any]:
    """Return the DraftTrainingJob of KEY."""
    return {
        "apiVersion": kinds.DRAFT_TRAINING_JOB.api_version,
        "kind": "DraftTrainingJob",
        "metadata": {
            "name": KEY.name,
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": version,
            "generation": 1,
        },
        "spec": {},
        **({} if status is None else {"status": status}),
    }


def config_map(
    name: str = "child", *, version: str | None = None, uid: str | None = None, **data: str
) -> dict[str, Any]:
    """Return a ConfigMap that KEY's resource controls."""
    meta: dict[str, Any] = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": {"app.kubernetes.io/managed-by": "paceline", "paceline.dev/training-job": KEY.name},
        "ownerReferences": [plan.owner_reference(resource())],
    }
    if version is not None:
        meta |= {"resourceVersion": version, "uid": uid or f"uid-of-{name}"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def settings_for(**changes: Any) -> settings.Settings:
    """Return settings of a test."""
    return settings.Settings(**{"namespace": "paceline-system", "identity": "me", "forecast": False, **changes})


class World:
    """A cache and its freshness, with what they told."""

    def __init__(self) -> None:
        self.caught_up: list[Key] = []
        self.changes: list[tuple[str, str | None, str | None]] = []
        self.measured = metrics.Metrics()
        self.fresh = freshness.Freshness(caught_up=self.caught_up.append)
        self.cache = cache.Cache(
            (*kinds.OURS, *kinds.CHILDREN, *kinds.FOREIGN),
            fresh=self.fresh,
            listener=self._heard,
            measured=self.measured,
        )

    def _heard(self, kind: Any, before: Any, after: Any) -> None:
        name = (after or before)["metadata"]["name"]
        told = tuple(None if one is None else one["metadata"]["resourceVersion"] for one in (before, after))
        self.changes.append((f"{kind.kind}/{name}", *told))


async def eventually(predicate: Callable[[], bool], *, within_s: float = 5.0) -> None:
    """Wait until ``predicate`` holds."""
    async with asyncio.timeout(within_s):
        while not predicate():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.002)
