"""Anything at any time: edits, crashes between writes, old pictures, objects deleted by hand, engines that break.

Whatever happened, users are only ever given a revision that a record says they should have, and once nothing more
happens the resource comes to rest with nothing left over.
"""

import hypothesis
import pytest
from hypothesis import stateful
from hypothesis import strategies as st

from paceline.api import names, stages
from paceline.api.measurement import Decision, Purpose
from paceline.planning import kinds
from paceline.rollout.documents import records
from rollout import builders
from rollout.cluster import Cluster, ConflictError, Picture

# Longer than all deadlines of a rollout together, twice: whatever waits must have ended by then.
LONGEST_WAIT_S = 13_000.0

TITLES = ("None", "EAGLE3 k=3", "EAGLE3 k=5", "Ngram k=4")
SPECULATIONS = (
    builders.none(),
    builders.eagle3(k=3),
    builders.eagle3(k=5),
    builders.eagle3(uri="pvc://models/other-head"),
    builders.from_job(),
    {"method": "Ngram", "numSpeculativeTokens": 4},
)
IMAGES = ("vllm/vllm-openai:v0.33.0", "vllm/vllm-openai:v0.34.0")
TARGETS = ("pvc://models/target", "pvc://models/new-target", "pvc://models/broken")
CHILDREN = (kinds.DEPLOYMENT, kinds.JOB, kinds.POD, kinds.SERVICE)


def inspect(config: stages.InspectConfig) -> stages.StageReport:
    """Return what Inspect finds: one target is broken, another has its own digest, which no head was trained for."""
    if config.target.path.endswith("broken"):
        return stages.StageReport(error="config.json is missing; name a folder that holds a model", permanent=True)
    if config.target.path.endswith("new-target"):
        problems = ["the head was trained for another target"] if config.head_path else []
        return stages.StageReport(result=builders.inspected(builders.sha("new"), problems=problems))
    return stages.StageReport(result=builders.inspected())


class Rollouts(stateful.RuleBasedStateMachine):
    """One SpeculativeDeployment in a cluster where everything may happen."""

    def __init__(self) -> None:
        super().__init__()
        # A candidate without a node waits for as long as everything else may take, not for a day.
        policy = {**builders.rollout(), "deadlines": {"capacity": "1h"}}
        self.cluster = Cluster(builders.deployment(rollout=policy))
        self.cluster.inspect = inspect
        self.decisions: dict[int, Decision] = {}
        self.templates: dict[str, object] = {}
        self.selected = ""
        self.sees_old = False

    @stateful.initialize(served=st.booleans(), speculation=st.sampled_from(SPECULATIONS))
    def begin(self, served: bool, speculation: dict) -> None:  # noqa: FBT001 - hypothesis passes it by name
        """Start with a new resource, or with one whose head has been promoted."""
        self.cluster.speeds |= {"EAGLE3 k=3": 1.5, "EAGLE3 k=5": 0.8, "Ngram k=4": 1.3}
        if served:
            self.cluster.settle()
            self.cluster.edit(speculation=speculation)

    # -- the operator

    @stateful.rule(seconds=st.sampled_from([5.0, 60.0, 400.0]))
    def work(self, seconds: float) -> None:
        """Let one pass run, and time go on."""
        before = self.history().stable
        self.cluster.operate()
        self.check_promotion(before)
        self.look()
        self.cluster.play(seconds)

    @stateful.rule(times=st.integers(5, 30))
    def work_for_long(self, times: int) -> None:
        """Let things take their course."""
        for _ in range(times):
            self.work(45.0)

    @stateful.rule()
    def work_through(self) -> None:
        """Let things take their course for as long as a rollout takes."""
        self.work_for_long(25)

    @stateful.rule(after=st.integers(0, 4))
    def crash(self, after: int) -> None:
        """Kill the operator between two writes of a pass."""
        self.cluster.run(self.cluster.plan(), crash_after=after)

    @stateful.rule(age=st.integers(1, 25))
    def act_on_an_old_picture(self, age: int) -> None:
        """Let a pass decide on what was true some writes ago, as after a lost lease."""
        self.act_on(self.cluster.picture(age))

    # A Service that somebody has deleted carries no number that could tell old records from new ones.
    @stateful.precondition(lambda self: bool(self.cluster.objects(kinds.SERVICE)))
    @stateful.rule(ages=st.dictionaries(st.sampled_from([kind.kind for kind in kinds.CHILDREN]), st.integers(1, 25)))
    def act_on_a_torn_picture(self, ages: dict[str, int]) -> None:
        """Let a pass decide on a picture whose parts are of different ages."""
        self.act_on(self.cluster.torn_picture(ages))

    def act_on(self, picture: Picture) -> None:
        """Run a pass, and look after each of its writes."""
        planned = self.cluster.room.reconcile(picture, self.cluster.key, self.cluster.now)
        self.sees_old = True
        for action in planned.actions if planned else ():
            try:
                self.cluster.execute(action)
            except ConflictError:
                break
            self.look()
        self.sees_old = False

    # -- people

    @stateful.rule(speculation=st.sampled_from(SPECULATIONS))
    def edit_speculation(self, speculation: dict) -> None:
        """Ask for another draft."""
        self.cluster.edit(speculation=speculation)

    @stateful.rule(image=st.sampled_from(IMAGES))
    def edit_engine(self, image: str) -> None:
        """Ask for another engine."""
        self.cluster.edit(engine={"image": image})

    @stateful.rule(uri=st.sampled_from(TARGETS))
    def edit_target(self, uri: str) -> None:
        """Ask for another target."""
        self.cluster.edit(target={"uri": uri})

    @stateful.rule(replicas=st.integers(0, 3))
    def scale(self, replicas: int) -> None:
        """Scale."""
        self.cluster.edit(replicas=replicas)

    @stateful.rule(copy=st.sampled_from(["Auto", "Always", "Never"]), most=st.sampled_from([1, 8]))
    def edit_copy(self, copy: str, most: int) -> None:
        """Ask for a measuring copy, or for none."""
        self.cluster.edit(rollout=builders.rollout(measuringCopy=copy, maxProbeConcurrency=most))

    @stateful.rule(verb=st.sampled_from(["promote", "abort", "retry", "undo", "pause"]), which=st.integers(0, 9))
    def annotate(self, verb: str, which: int) -> None:
        """Ask for a verb on some revision."""
        known = [
            one["metadata"]["labels"][names.LABEL_REVISION] for one in self.cluster.objects(kinds.CONTROLLER_REVISION)
        ]
        self.cluster.annotate(**({verb: known[which % len(known)]} if known else {}))

    @stateful.rule()
    def take_annotations_away(self) -> None:
        """Take all verbs away."""
        self.cluster.annotate()

    @stateful.rule(kind=st.sampled_from(CHILDREN), which=st.integers(0, 9))
    def delete_by_hand(self, kind: kinds.Kind, which: int) -> None:
        """Delete some child."""
        found = self.cluster.objects(kind)
        if found:
            self.cluster.remove(kind, found[which % len(found)]["metadata"]["name"])

    @stateful.rule(published=st.booleans())
    def train(self, published: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        """Let a training job be under way, or publish."""
        self.cluster.put(builders.training_job(published=published))

    # -- the world

    @stateful.rule(title=st.sampled_from(TITLES), speed=st.sampled_from([0.7, 1.0, 1.5]))
    def change_speed(self, title: str, speed: float) -> None:
        """Make a revision's servers faster or slower."""
        self.cluster.speeds[title] = speed

    @stateful.rule(title=st.sampled_from(TITLES), crashes=st.booleans())
    def break_engine(self, title: str, crashes: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        """Break or mend an engine."""
        (self.cluster.crashing.add if crashes else self.cluster.crashing.discard)(title)

    @stateful.rule(title=st.sampled_from(TITLES), full=st.booleans())
    def fill_nodes(self, title: str, full: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        """Take the GPUs away, or free them."""
        message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
        self.cluster.unschedulable = {title: message} if full else {}

    @stateful.rule(accepted=st.sampled_from([None, 0.05, 1.2]))
    def change_traffic(self, accepted: float | None) -> None:
        """Let users ask for what the head knows, for what it does not, or for nothing."""
        self.cluster.users = None if accepted is None else builders.Users(accepted_a_draft=accepted)

    @stateful.rule(error=st.sampled_from(["", "no prompts"]))
    def break_probe(self, error: str) -> None:
        """Break or mend the probe."""
        self.cluster.probe_error = error

    # -- what always holds

    @stateful.invariant()
    def look(self) -> None:
        """Check what must be true after any write."""
        self.check_service()
        self.check_records()
        self.check_templates()

    def check_service(self) -> None:
        """The Service selects one revision, and is given another only by a decision that serves it."""
        service = self.cluster.store.get(("Service", builders.NAME))
        if service is None:
            self.selected = ""
            return
        selected = service["spec"]["selector"][names.LABEL_REVISION]
        if selected == self.selected:
            return
        history = self.history()
        assert selected == names.short(history.stable)
        assert history.refused(history.stable) is None
        # No write can be made conditional on pods, so only a pass that sees them as they are can spare users an outage.
        assert self.sees_old or self.has_endpoint(selected) or not self.has_endpoint(self.selected)
        self.selected = selected

    def has_endpoint(self, short: str) -> bool:
        """Whether a pod of this revision is ready."""
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for pod in self.cluster.objects(kinds.POD)
            if pod["metadata"]["labels"].get(names.LABEL_REVISION) == short
            and pod["metadata"]["labels"][names.LABEL_PART] == "server"
            for condition in pod["status"].get("conditions", ())
        )

    def check_promotion(self, before: str) -> None:
        """A pass on the newest picture promotes only what the spec asks for at that moment."""
        last = self.history().last
        if last is None or last.serving == before or last.purpose is not Purpose.CANDIDATE:
            return
        revision, spec = self.cluster.revision(names.short(last.serving)), self.cluster.resource["spec"]
        assert revision is not None
        assert revision.inputs.engine.image == spec["engine"]["image"]
        assert revision.inputs.target.uri == spec["target"]["uri"]
        if revision.inputs.speculates:
            assert revision.inputs.method == spec["speculation"]["method"]
            assert revision.inputs.num_speculative_tokens == spec["speculation"]["numSpeculativeTokens"]

    def check_records(self) -> None:
        """Only the newest rollout is undecided, and what is decided stays so."""
        stored = self.history().stored
        assert all(one.record.decision is not None for one in stored[:-1])
        for one in stored:
            known = self.decisions.get(one.record.number)
            assert known in {None, one.record.decision}
            if one.record.decision is not None:
                self.decisions[one.record.number] = one.record.decision

    def check_templates(self) -> None:
        """A revision's template is never rendered again, and its Deployment uses it."""
        for one in self.cluster.objects(kinds.CONTROLLER_REVISION):
            known = self.templates.setdefault(one["metadata"]["name"], one["data"])
            assert known == one["data"]
        for one in self.cluster.objects(kinds.DEPLOYMENT):
            revision = self.cluster.revision(one["metadata"]["labels"][names.LABEL_REVISION])
            assert revision is not None
            # A measuring copy's pods differ in the label by which Services pass them by.
            labels = {**one["spec"]["template"]["metadata"]["labels"], names.LABEL_PART: "server"}
            template = one["spec"]["template"]
            assert revision.template == {**template, "metadata": {**template["metadata"], "labels": labels}}

    def history(self) -> records.History:
        """Return the records as they lie in the cluster."""
        maps = [one for one in self.cluster.objects(kinds.CONFIG_MAP) if records.KEY in one["data"]]
        stored = sorted((records.read(one) for one in maps), key=lambda one: one.record.number)
        return records.History(owner=builders.NAME, owner_uid="uid", stored=tuple(stored))

    def teardown(self) -> None:
        """Let everything take its course: it comes to rest, and nothing is left over."""
        self.cluster.users = None
        self.cluster.settle(passes=600, seconds=200.0, quiet_s=LONGEST_WAIT_S)
        planned = self.cluster.plan()
        assert not planned.actions
        assert planned.status == self.cluster.resource["status"]
        assert not self.cluster.objects(kinds.JOB)
        history = self.history()
        opened = history.open.record if history.open else None
        wanted = {history.stable} | ({opened.candidate, opened.control} if opened else set())
        left = {one["metadata"]["labels"][names.LABEL_REVISION] for one in self.cluster.objects(kinds.DEPLOYMENT)}
        assert left <= {names.short(one) for one in wanted if one} | {self.selected}
        parts = {one["metadata"]["labels"][names.LABEL_PART] for one in self.cluster.objects(kinds.DEPLOYMENT)}
        assert parts <= {"server"}, "a measuring copy goes with the rollout that asked for it"
        reason = self.cluster.condition("Progressing")["reason"]
        waits = {"Held", "Paused", "EngineFailed"}
        overdue = reason.endswith("DeadlineExceeded")
        assert opened is None or reason in waits or overdue or not history.stable


TestRollouts = Rollouts.TestCase
TestRollouts.settings = hypothesis.settings(
    max_examples=50,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
TestRollouts.pytestmark = [pytest.mark.timeout(900)]
