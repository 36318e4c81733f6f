"""What follows from where a rollout sits, and how one begins."""

from paceline.api.measurement import Seating
from paceline.api.speculativedeployment import Strategy
from paceline.capacity import forecast
from paceline.planning import fleet
from paceline.rollout import observe, release, revisions
from paceline.rollout.steps import Case


def at_opening(seen: observe.Observed, inputs: revisions.Inputs, *, stable: str) -> Seating:
    """Return how a new rollout begins: by asking, where something serves that might be in its way, else at once."""
    if not stable:
        return Seating.BESIDE
    resources = inputs.engine.pod_template.resources
    asks_devices = bool(forecast.devices_of({**resources.limits, **resources.requests}))
    if seen.owner.spec.rollout.strategy is Strategy.REPLACE or (seen.devices is not None and asks_devices):
        return Seating.ASKED
    return Seating.BESIDE


def to_promote(case: Case) -> int:
    """Return how many replicas a revision needs before it serves: one, where the others come in stable's places."""
    return 1 if case.record.seating in release.SEATINGS else case.seen.owner.spec.replicas


def full(case: Case, digest: str) -> str:
    """Return the digest that gets all its replicas before it serves; empty where they come in stable's places."""
    return "" if case.record.seating in release.SEATINGS else digest


def room_for(case: Case, digest: str, count: int) -> forecast.Forecast | None:
    """Return whether ``count`` more pods of a revision would find a node; None where nobody can know."""
    revision, seen = case.seen.revisions.get(digest), case.seen
    if seen.devices is None or revision is None:
        return None
    return forecast_of(seen, seen.devices, revision, count)


def forecast_of(
    seen: observe.Observed, world: fleet.Fleet, revision: revisions.Revision, count: int
) -> forecast.Forecast:
    """Return what ``world`` would have for ``count`` more pods of a revision, after what was promised before."""
    return forecast.forecast(world, seen.promised, forecast.Claim.of(revision.template["spec"], count))
