"""What happens to every operator, whatever it looks after: its process, calls, watches and clock, and its nodes."""

from collections.abc import Mapping
from typing import Any

from hypothesis import stateful
from hypothesis import strategies as st

from machine import jobs
from machine.kubelet import NODES
from machine.server import Fault
from machine.simulation import Simulation
from paceline.planning import kinds

FAULTS = st.dictionaries(st.integers(0, 6), st.sampled_from(list(Fault)), min_size=1, max_size=3)
JUMPS_S = (-7200.0, -90.0, 90.0, 7200.0)


class Trouble(stateful.RuleBasedStateMachine):
    """One resource and its operator; who inherits adds what people and programs do."""

    sim: Simulation
    jumped_s = 0.0
    """How wrong the operator's clock has been at most."""

    def spoil(self) -> None:
        """Note that something was lost which a resource cannot be asked to do without."""

    # -- the operator

    @stateful.rule(seconds=st.sampled_from([60.0, 600.0, 3000.0]))
    def go_on(self, *, seconds: float) -> None:
        """Let everything take its course."""
        self.sim.go_on(seconds)

    @stateful.rule(times=st.integers(1, 4), heard=st.booleans())
    def work(self, *, times: int, heard: bool) -> None:
        """Run a few passes, with or without the news."""
        for _ in range(times):
            if heard:
                self.sim.hear()
            self.sim.operate()

    @stateful.rule(after=st.integers(0, 5))
    def crash(self, *, after: int) -> None:
        """Kill the operator after some writes of a pass; its successor lists everything."""
        self.sim.hear()
        self.sim.operate(crash_after=after)

    @stateful.rule(after=st.integers(0, 5), seconds=st.sampled_from([100.0, 1000.0]))
    def crash_all_along(self, *, after: int, seconds: float) -> None:
        """Kill the operator again and again, each time after as many writes."""
        self.sim.go_on(seconds, crash_after=after)

    @stateful.rule(faults=FAULTS)
    def meet_faults(self, *, faults: Mapping[int, Fault]) -> None:
        """Let calls of a pass fail."""
        self.sim.hear()
        self.sim.operate(faults=faults)

    @stateful.rule(faults=FAULTS, seconds=st.sampled_from([100.0, 1000.0]))
    def meet_faults_all_along(self, *, faults: Mapping[int, Fault], seconds: float) -> None:
        """Let the same calls fail again and again."""
        self.sim.go_on(seconds, faults=faults)

    @stateful.rule(which=st.integers(0, 9), seconds=st.floats(0, 45))
    def hear_of_one_kind(self, *, which: int, seconds: float) -> None:
        """Let one watch be ahead of all others."""
        self.sim.pass_time(seconds)
        known = sorted({kind for kind, _ in self.sim.server.objects})
        self.sim.watches.deliver([known[which % len(known)]])
        self.sim.operate()

    @stateful.rule(seconds=st.sampled_from([1.0, 20.0, 300.0]))
    def miss_events(self, *, seconds: float) -> None:
        """Let things happen of which nobody is told."""
        self.sim.pass_time(seconds)
        self.sim.watches.deliver()

    @stateful.rule(seconds=st.sampled_from(JUMPS_S))
    def clock_jumps(self, *, seconds: float) -> None:
        """Let the operator's clock be wrong, or right again."""
        self.sim.operator.skew_s = 0.0 if self.sim.operator.skew_s else seconds
        self.jumped_s = max(self.jumped_s, abs(seconds))

    @stateful.rule()
    def empty_status(self) -> None:
        """Empty the status by hand."""
        self.sim.server.put({key: one for key, one in self.sim.resource.items() if key != "status"})

    # -- the cluster

    @stateful.rule(count=st.integers(0, 4))
    def change_nodes(self, *, count: int) -> None:
        """Take nodes' GPUs for others' pods, or give them back, a lost node with them; what runs goes on."""
        self.sim.kubelet.nodes = {name: gpus * (place < count) for place, (name, gpus) in enumerate(NODES.items())}

    @stateful.rule(node=st.sampled_from(sorted(NODES)))
    def lose_a_node(self, *, node: str) -> None:
        """Let a node's machine stop for good: its pods answer nobody, and vanish without an end of their own."""
        self.spoil()
        self.sim.kubelet.lose(node)

    @stateful.rule(which=st.integers(0, 9), everything=st.booleans())
    def evict(self, *, which: int, everything: bool) -> None:
        """Have pods leave their nodes, as a drain or a preemption does: one, or all that have a node."""
        found = [one for one in self.all(kinds.POD) if jobs.is_living(one) and one["spec"].get("nodeName")]
        if not found:
            return
        for pod in found if everything else [found[which % len(found)]]:
            self.sim.kubelet.evict(pod)

    # -- what there is

    def all(self, kind: kinds.Kind) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        return self.sim.server.all(kind)
