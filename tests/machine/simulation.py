"""Operator and cluster together, from one happening to the next."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from machine.kubelet import NODES, Kubelet, Programs
from machine.process import Faults, Operator
from machine.server import Server
from machine.watches import Watches
from paceline.planning import plan, view

# So much later than it asked for may a pass run that has nothing to do: a busy operator is late, and nothing is lost.
_LATEST_S: Final = 1200.0


# So many passes at one moment are a loop that never ends.
_MOST_AT_ONCE: Final = 100


class Simulation:
    """One resource in its cluster."""

    def __init__(
        self,
        room: view.Room,
        resource: Mapping[str, Any],
        *,
        now: float,
        programs: Callable[[Server], Programs],
        look: Callable[[plan.Action], None] = lambda _action: None,
        nodes: Mapping[str, int] = NODES,
    ) -> None:
        self.server = Server(now=now)
        self.programs = programs(self.server)
        self.kubelet = Kubelet(self.server, self.programs, nodes=nodes)
        self.watches = Watches(self.server, scraped=self.programs.scraped)
        meta = resource["metadata"]
        self.key = plan.Key(kind=room.kind, namespace=meta["namespace"], name=meta["name"])
        self.operator = Operator(room, self.key, server=self.server, watches=self.watches, look=look)
        self.server.put(resource)
        self.hear()
        self._worked_at, self._at_once = now, 0

    # -- time and events

    def hear(self) -> None:
        """Let every watch show what is, and wake the operator if that is news."""
        if self.watches.deliver():
            self.operator.wake()

    def pass_time(self, seconds: float) -> None:
        """Let time go on, and the cluster with it; nobody hears of it yet."""
        until = self.server.now + seconds
        self.kubelet.step()
        while (due := self.kubelet.next_time()) is not None and due <= until:
            self.server.now = due
            self.kubelet.step()
        self.server.now = until

    def operate(self, *, faults: Faults | None = None, crash_after: int | None = None) -> None:
        """Run a pass at once."""
        self.operator.work(faults=faults, crash_after=crash_after)

    def go_on(self, seconds: float, *, faults: Faults | None = None, crash_after: int | None = None) -> None:
        """Let everything take its course for so long; with trouble, every second pass meets it."""
        until, met = self.server.now + seconds, 0
        while self.server.now < until:
            if self.operator.is_due and (faults or crash_after is not None):
                met += 1
                if met % 2:
                    self.operator.work(faults=faults, crash_after=crash_after)
            self._happen(until, patience_s=0.0)

    def settle(self, *, within_s: float, quiet_s: float) -> float:
        """Go on until nothing has been written for ``quiet_s``; return how long that took, the quiet left out.

        It ends early when nothing is to come: no event, and no wish of the operator's to look again.

        Raises:
            AssertionError: there is no rest within ``within_s`` of virtual time.
        """
        began = self.server.now
        self.hear()
        self.operator.restart()
        last, states, patience_s = self.server.now, len(self.server.states), 0.0
        while self.server.now - last < quiet_s:
            assert last - began < within_s, f"no rest within {within_s:.0f} s: {self.resource.get('status')}"
            if not self._happen(self.server.now + quiet_s, patience_s=patience_s):
                break
            if len(self.server.states) == states:
                patience_s = min(_LATEST_S, 2 * patience_s + 1.0)
            else:
                last, states, patience_s = self.server.now, len(self.server.states), 0.0
        return last - began

    def _happen(self, until: float, *, patience_s: float) -> bool:
        """Do what comes next, at the latest at ``until``; return whether anything is to come at all."""
        self.kubelet.step()
        self.hear()
        if self.operator.is_due:
            self._at_once = self._at_once + 1 if self.server.now == self._worked_at else 1
            self._worked_at = self.server.now
            assert self._at_once < _MOST_AT_ONCE, f"the operator runs in circles; it wrote {self._newest_writes()}"
            self.operator.work()
            return True
        wake = self.operator.wake_at
        own = None if wake is None else max(wake, self.server.now + patience_s)
        coming = [at for at in (own, self.kubelet.next_time()) if at is not None]
        self.server.now = min([until, *coming])
        return bool(coming)

    # -- what there is

    def _newest_writes(self) -> list[str]:
        """Return what the operator wrote last, newest last."""
        named = plan.Delete | plan.Amend
        return [
            f"{type(one).__name__} {one.kind.kind if isinstance(one, named) else one.manifest['kind']}"
            for one in self.server.written[-6:]
        ]

    @property
    def resource(self) -> dict[str, Any]:
        """The resource, as it is stored."""
        found = self.server.get(self.key.kind, self.key.name)
        assert found is not None, "the resource is gone"
        return found

    @property
    def exists(self) -> bool:
        """Whether the resource has not been deleted."""
        return self.server.get(self.key.kind, self.key.name) is not None

    def condition(self, kind: str) -> dict[str, Any]:
        """Return a condition of the stored status; empty when it is not said."""
        told = (self.resource.get("status") or {}).get("conditions") or ()
        return next((one for one in told if one["type"] == kind), {})

    # -- what people do

    def edit(self, spec: Mapping[str, Any]) -> None:
        """Replace the spec; nothing happens when it says what it said."""
        resource = self.resource
        if resource["spec"] != spec:
            meta = {**resource["metadata"], "generation": resource["metadata"]["generation"] + 1}
            self.server.put({**resource, "metadata": meta, "spec": dict(spec)})

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Replace all annotations."""
        resource = self.resource
        self.server.put({**resource, "metadata": {**resource["metadata"], "annotations": dict(annotations)}})
