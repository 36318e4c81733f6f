"""What a policy answers: where the rollout stands, and what is to be written to bring it on."""

from dataclasses import dataclass

from paceline.api.conditions import RolloutReason
from paceline.api.measurement import RolloutRecord
from paceline.api.speculativedeployment import DeadlineSpec
from paceline.planning import conditions, plan
from paceline.rollout.view import observe, readiness, symptoms


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One answer. A changed record is written before anything else, so that what was decided survives a crash."""

    reason: RolloutReason
    message: str
    progressing: bool = True
    record: RolloutRecord | None = None
    """The record to store; None when nothing about it changes."""
    full: str = ""
    """Digest that gets all replicas although it does not serve yet; empty when none does."""
    job: str = ""
    """Name of the probe Job that stays; every other one is over."""
    actions: tuple[plan.Action, ...] = ()
    look_again_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An open rollout."""

    seen: observe.Observed
    record: RolloutRecord
    now: float

    @property
    def deadlines(self) -> DeadlineSpec:
        """The spec's waits."""
        return self.seen.owner.spec.rollout.deadlines

    def readiness(self, digest: str, *, wanted: int) -> readiness.Readiness:
        """Return whether ``wanted`` pods of a revision are ready."""
        revision = self.seen.revisions.get(digest)
        arm = readiness.Arm(
            short=revision.short if revision else digest[7:15],
            server=self.seen.server(digest),
            wanted=wanted,
            speculates=bool(revision and revision.inputs.speculates),
            around=symptoms.Surroundings(
                draining_nodes=self.seen.draining_nodes,
                drained_at=conditions.parse_timestamp(self.record.drained_at) if self.record.drained_at else None,
            ),
            since=self._since(),
            asks=bool(self.record.asked_replicas) and wanted > 1,
        )
        return readiness.assess(arm, self.deadlines, self.now)

    def _since(self) -> float:
        """Return when the arms' waits began: with their seats, and anew when stable made way."""
        moments = (self.record.waiting_since, self.record.released_at)
        return max((conditions.parse_timestamp(one) for one in moments if one), default=0.0)


def waiting(wait: readiness.Waiting, now: float, *, full: str = "") -> Step:
    """Return the step of a wait: look again when it is over, if nothing happens before."""
    return Step(reason=wait.reason, message=wait.message, full=full, look_again_s=wait.until - now)
