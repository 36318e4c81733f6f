"""What one pass decides on, and what that costs, among many resources of its kind.

    PYTHONPATH=operator:tests:tests/cluster python bench/controller/decide.py --sizes 100,1000

The real cache and the real room of SpeculativeDeployment, in this process, without queue, threads and API server. All
resources of a size are in one state, each in a namespace and on a node of its own. Processor time a pass: the plan, and
whom to ask, on pictures in which nothing has changed since the last pass, or in which a pod has.
"""

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from paceline.controller import cache, fleet, freshness, metrics, poller, view
from paceline.planning import kinds, plan
from paceline.planning import view as views
from paceline.rollout import room
from rollout import builders, gpus
from rollout.cluster import Cluster

_PASSES: Final = 200
_NODE: Final = "gpu-1"
_VERSION: Final = re.compile(r'"resourceVersion": "(\d+)"')


def serving() -> Cluster:
    """Return a resource that serves its target without a draft."""
    cluster = gpus.GpuCluster(gpus.resource(speculation=builders.none(), policy={"strategy": "Surge"}), {_NODE: 8})
    cluster.settle(passes=60)
    return cluster


def waiting() -> Cluster:
    """Return one whose head waits for a node, beside a full one."""
    cluster = serving()
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.edit(speculation=builders.eagle3())
    cluster.until(lambda: cluster.condition("Progressing")["reason"] == "InsufficientGPU")
    cluster.settle(passes=10)
    return cluster


STATES: Final[dict[str, Callable[[], Cluster]]] = {"serving": serving, "waiting": waiting}


class Crowd:
    """Many copies of one resource, as the controller keeps them."""

    def __init__(self, one: Cluster, size: int) -> None:
        measured = metrics.Metrics()
        fresh = freshness.Freshness(caught_up=lambda _key: None)
        self._known = cache.Cache(
            (*kinds.OURS, *kinds.CHILDREN, *kinds.FOREIGN),
            fresh=fresh,
            listener=lambda *_change: None,
            measured=measured,
        )
        self._fleet = fleet.FleetStore(measured=measured)
        self._heard = poller.Heard(window_s=600.0)
        self._room = room.Rollout(stage_image="stages:1")
        self._now = one.now
        self._pods: list[dict[str, Any]] = []
        for number in range(size):
            self._take(_renamed(one.store.values(), number))
            node = {"metadata": {"name": f"node-{number}"}, "status": {"allocatable": {gpus.GPU: "8"}}}
            self._fleet.put(kinds.NODE, node)

    def _take(self, objects: Iterable[dict[str, Any]]) -> None:
        for one in objects:
            kind = kinds.BY_KIND.get(one["kind"])
            if kind is not None and kind is not kinds.REPLICA_SET:
                self._known.put(kind, one)
            if kind is kinds.POD:
                self._fleet.put(kind, one)
                self._pods.append(one)

    def picture(self) -> views.View:
        """Return what a pass would see now."""
        return view.CacheView(known=self._known, heard=self._heard, fleet=self._fleet.snapshot())

    def a_pod_changes(self, number: int) -> None:
        """Let a pod go and come back, so that what was counted of pods is counted anew."""
        pod = self._pods[number % len(self._pods)]
        self._fleet.remove(kinds.POD, pod)
        self._fleet.put(kinds.POD, pod)

    def decide(self, number: int) -> plan.Plan | None:
        """Decide as a pass does."""
        seen, key = self.picture(), plan.Key(kind=self._room.kind, namespace=_namespace(number), name=builders.NAME)
        planned = self._room.reconcile(seen, key, self._now)
        self._room.polled(seen, key)
        return planned


def _renamed(objects: Iterable[dict[str, Any]], number: int) -> Iterator[dict[str, Any]]:
    for one in objects:
        text = json.dumps(one).replace(f'"{builders.NAMESPACE}"', f'"{_namespace(number)}"')
        text = text.replace('"uid-', f'"uid-{number}-').replace(f'"{_NODE}"', f'"node-{number}"')
        # Written one after another, as no two versions of a cluster are one.
        yield json.loads(_VERSION.sub(lambda found: f'"resourceVersion": "{int(found[1]) + 10_000 * number}"', text))


def _namespace(number: int) -> str:
    return f"crowd-{number:04d}"


def measure(crowd: Crowd, size: int, *, changing: bool) -> float:
    """Return the milliseconds of processor time of a pass."""
    numbers = random.Random(size).choices(range(size), k=_PASSES)  # noqa: S311 - which ones is no secret
    spent = 0.0
    for number in numbers:
        if changing:
            crowd.a_pod_changes(number)
        began = time.process_time()
        planned = crowd.decide(number)
        spent += time.process_time() - began
        if planned is None or planned.actions:
            raise SystemExit(f"{_namespace(number)} does not stand: {planned}")
    return 1000.0 * spent / _PASSES


def run(sizes: Sequence[int]) -> None:
    """Measure every state at every size."""
    for state, make in STATES.items():
        one = make()
        for size in sizes:
            crowd = Crowd(one, size)
            crowd.decide(0)
            answer = {"state": state, "size": size}
            answer |= {"ms": round(measure(crowd, size, changing=False), 2)}
            answer |= {"changingMs": round(measure(crowd, size, changing=True), 2)}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    parse = argparse.ArgumentParser(description="Measures what a pass decides on.")
    parse.add_argument("--sizes", type=lambda text: [int(one) for one in text.split(",")], default=[100, 1000])
    run(parse.parse_args().sizes)
