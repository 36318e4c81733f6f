"""The story, step by step. Each step applies or edits a resource and watches what the operator makes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from demo import manifests, summary, workload
from demo.cluster import Cluster
from demo.console import Console
from demo.report import Story
from paceline.api import base, names, sources
from paceline.api.measurement import Decision, RolloutRecord

CHART: Final = Path(__file__).resolve().parent.parent / "charts" / "paceline"
SYSTEM: Final = "paceline-system"
RELEASE: Final = "paceline"
_MINUTE: Final = 60.0


class UnexpectedOutcomeError(RuntimeError):
    """The operator decided something else than the demo set out to show; the message carries the numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Image references, as the cluster knows them."""

    operator: str
    trainer: str
    engine: str


@dataclass(slots=True, kw_only=True)
class Flow:
    """One run of the loop on one cluster."""

    cluster: Cluster
    console: Console
    story: Story
    images: Images
    target: str
    """URI of the target model."""
    comparisons: dict[int, Any] = field(default_factory=dict)
    """Rollout number -> comparisons as the status showed them at the verdict."""
    patience: float = 1.0
    """Factor on every limit: slower machines wait longer."""

    def install(self) -> None:
        """Install the chart with Helm."""
        repository, _, tag = self.images.operator.rpartition(":")
        values = [
            f"image.repository={repository}",
            f"image.tag={tag}",
            "image.pullPolicy=IfNotPresent",
            f"stageImage={self.images.trainer}",
        ]
        self.console.progress("helm install paceline")
        self.cluster.helm_install(release=RELEASE, chart=CHART, namespace=SYSTEM, values=values)
        self._moment("the operator runs, installed by Helm")

    def serve(self, recipe: workload.Recipe, *, tokens: int, probe_prompts: list[str]) -> None:
        """Apply the SpeculativeDeployment and wait until the target is served without speculation."""
        self.cluster.apply(manifests.prompts(manifests.PROBE_PROMPTS, probe_prompts))
        self.cluster.apply(
            manifests.deployment(recipe, engine_image=self.images.engine, target=self.target, tokens=tokens)
        )
        self._wait("the target served without speculation", lambda: self._is_true("Available"), minutes=15)
        self._remember_arms()
        self._moment("the target is served, without speculation: there is no head yet")

    def train(self, recipe: workload.Recipe, *, prompts: list[str]) -> dict[str, Any]:
        """Apply the DraftTrainingJob and wait for its head."""
        self.cluster.apply(manifests.prompts(manifests.TRAIN_PROMPTS, prompts))
        self.cluster.apply(
            manifests.training_job(
                recipe, engine_image=self.images.engine, trainer_image=self.images.trainer, target=self.target
            )
        )
        self._moment(f"training begins: {len(prompts)} prompts, {recipe.epochs} epochs")
        job: dict[str, Any] = self._wait("a published head", self._finished_job, minutes=90)
        self.story.job = job
        if job["status"]["phase"] != "Complete":
            raise UnexpectedOutcomeError(f"the training job ended as {job['status']['phase']}: {_messages(job)}")
        output = job["status"]["output"]
        self._moment(f"head published; acceptance length {output['acceptanceLength']} on held-out prompts")
        return job

    def judged(self, number: int) -> RolloutRecord:
        """Wait until rollout ``number`` is decided, and return its evidence."""
        record: RolloutRecord = self._wait(f"a verdict on rollout {number}", lambda: self._decided(number), minutes=60)
        self._remember_arms()
        self.comparisons[number] = self.deployment().get("status", {}).get("rollout", {}).get("comparisons", [])
        name = self.story.arm_names.get(names.short(record.candidate), names.short(record.candidate))
        why = "" if record.reason == record.decision else f", {record.reason}"
        self._moment(f"{name}: {record.decision}{why}. {record.message}")
        return record

    def edit_tokens(self, tokens: int) -> None:
        """Ask for another number of speculative tokens, as a person would."""
        change = {"spec": {"speculation": {"numSpeculativeTokens": tokens}}}
        self.cluster.patch(manifests.API, "SpeculativeDeployment", manifests.NAME, change)
        self._moment(f"edited: numSpeculativeTokens {tokens}")

    def model_name(self) -> str:
        """Return the name under which the engine serves the target: where it lies, seen from a pod."""
        return sources.locate(self.target).path

    def served_by(self) -> str:
        """Return the revision hash that the front Service selects."""
        service = self.cluster.get("v1", "Service", manifests.NAME)
        return str(service["spec"]["selector"][names.LABEL_REVISION]) if service else ""

    def records(self) -> list[RolloutRecord]:
        """Return the evidence of all rollouts, oldest first."""
        found = self.cluster.list("v1", "ConfigMap", labels=f"{names.LABEL_PART}=rollout")
        return summary.records(found)

    def deployment(self) -> dict[str, Any]:
        """Return the SpeculativeDeployment."""
        return self.cluster.get(manifests.API, "SpeculativeDeployment", manifests.NAME) or {}

    def wait_for(self, what: str, look: Any, *, minutes: float) -> Any:
        """Return the first truthy answer of ``look``, showing progress meanwhile."""
        return self._wait(what, look, minutes=minutes)

    def _wait(self, what: str, look: Any, *, minutes: float) -> Any:
        return self.cluster.wait(what, look, timeout_s=minutes * _MINUTE * self.patience, say=self._say_progress)

    def _decided(self, number: int) -> RolloutRecord | None:
        return next((one for one in self.records() if one.number == number and one.decision), None)

    def _finished_job(self) -> dict[str, Any] | None:
        job = self.cluster.get(manifests.API, "DraftTrainingJob", manifests.JOB)
        done = (job or {}).get("status", {}).get("phase") in {"Complete", "Failed"}
        return job if done else None

    def _is_true(self, condition: str) -> bool:
        conditions = self.deployment().get("status", {}).get("conditions", ())
        return any(one["type"] == condition and one["status"] == "True" for one in conditions)

    def _remember_arms(self) -> None:
        for revision in self.cluster.list("apps/v1", "ControllerRevision"):
            inputs = revision.get("data", {}).get("inputs", {})
            label = revision["metadata"]["labels"].get(names.LABEL_REVISION, "")
            self.story.arm_names[label] = _arm_name(inputs)

    def _say_progress(self) -> None:
        job = self.cluster.get(manifests.API, "DraftTrainingJob", manifests.JOB) or {}
        if job.get("status", {}).get("phase") == "Running":
            self._say_training(job["status"])
            return
        status = self.deployment().get("status", {})
        rollout = status.get("rollout", {})
        percent = rollout.get("percent") if rollout.get("phase") == "Measuring" else None
        self.console.progress(_said(status) or "waiting for the operator", percent=percent)

    def _say_training(self, status: Mapping[str, Any]) -> None:
        progress = status.get("progress")
        if not progress:
            self.console.progress(_said(status))
            return
        percent = progress.get("percent", 0)
        self.story.training.append((self.console.elapsed_s(), progress["stage"], percent))
        text = f"{progress['stage']}: {progress.get('message', '')}"
        self.console.progress(text, percent=percent, left_s=_seconds(progress.get("eta")))

    def _moment(self, text: str) -> None:
        self.console.line(text)
        self.story.moments.append((self.console.elapsed_s(), text))


def expect(record: RolloutRecord, decision: Decision) -> None:
    """Check a decision.

    Raises:
        UnexpectedOutcomeError: with the numbers, when it is another.
    """
    if record.decision is decision:
        return
    cells = "; ".join(
        f"{cell.arm} at {cell.concurrency}: {cell.tokens_per_second:.1f} tok/s"
        for cell in summary.cells(record.measurements)
    )
    raise UnexpectedOutcomeError(
        f"rollout {record.number} was expected to be {decision} and is {record.decision} "
        f"({record.reason}: {record.message}) on this machine. Measured: {cells or 'nothing'}"
    )


def _arm_name(inputs: Mapping[str, Any]) -> str:
    method = inputs.get("method", "None")
    return "no speculation" if method == "None" else f"{method} k={inputs.get('numSpeculativeTokens')}"


def _messages(resource: Mapping[str, Any]) -> str:
    said: Sequence[Mapping[str, Any]] = resource.get("status", {}).get("conditions", ())
    return "; ".join(f"{one['reason']}: {one['message']}" for one in said if one.get("message"))


def _said(status: Mapping[str, Any]) -> str:
    """Return what the Progressing condition says."""
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions", ())
    return next((str(one["message"]) for one in conditions if one["type"] == "Progressing"), "")


def _seconds(duration: str | None) -> float | None:
    return base.parse_duration(duration).total_seconds() if duration else None
