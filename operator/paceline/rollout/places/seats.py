"""What follows from where a rollout sits, and how one begins."""

from typing import Final

from paceline.api import names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Seating
from paceline.api.speculativedeployment import Strategy
from paceline.capacity import forecast
from paceline.planning import fleet
from paceline.rollout.documents import claims, revisions
from paceline.rollout.steps import Case, Step
from paceline.rollout.view import observe

# A watch that is quiet says how far it is about once a minute.
_UNREAD_S: Final = 5.0


def at_opening(seen: observe.Observed, inputs: revisions.Inputs, *, stable: str) -> Seating:
    """Return how a new rollout begins: by asking, where there are devices to ask for or stable is to make way."""
    resources = inputs.engine.pod_template.resources
    asks_devices = bool(forecast.devices_of({**resources.limits, **resources.requests}))
    replaces = bool(stable) and seen.owner.spec.rollout.strategy is Strategy.REPLACE
    return Seating.ASKED if replaces or (seen.devices is not None and asks_devices) else Seating.BESIDE


def to_promote(case: Case) -> int:
    """Return how many replicas a revision needs before it serves: one, where the others come in stable's places."""
    return 1 if case.record.seating in claims.IN_STABLES_PLACE else case.seen.owner.spec.replicas


def full(case: Case, digest: str) -> str:
    """Return the digest that gets all its replicas before it serves; empty where they come in stable's places."""
    return "" if case.record.seating in claims.IN_STABLES_PLACE else digest


def room_for(case: Case, digest: str, count: int, *, beside_own: bool = False) -> forecast.Forecast | None:
    """Return whether ``count`` more pods of a revision would find a node; None where nobody can know.

    With ``beside_own`` what this rollout was granted itself comes before them too.
    """
    revision, seen = case.seen.revisions.get(digest), case.seen
    if seen.devices is None or revision is None:
        return None
    before = (*seen.standing.promised, *seen.standing.own) if beside_own else seen.standing.promised
    return forecast.forecast(seen.devices, before, forecast.Claim.of(revision.template["spec"], count))


def takes_promised(case: Case, digest: str, count: int) -> bool:
    """Whether ``count`` more pods of a revision could land on what others were promised before."""
    revision, seen = case.seen.revisions.get(digest), case.seen
    if seen.devices is None or revision is None:
        return False
    wanted = forecast.Claim.of(revision.template["spec"], count)
    return forecast.takes_promised(seen.devices, seen.standing.promised, wanted, own=seen.standing.own)


def unread(case: Case) -> Step:
    """Return the wait for watches that have not yet told all that comes before a rollout in the ledger."""
    short = names.short(case.record.candidate)
    message = f"Revision {short} waits until the claims of all namespaces have been read."
    return Step(reason=RolloutReason.SCHEDULING, message=message, look_again_s=_UNREAD_S)


def forecast_of(
    seen: observe.Observed, world: fleet.Fleet, revision: revisions.Revision, count: int
) -> forecast.Forecast:
    """Return what ``world`` would have for ``count`` more pods of a revision, after what was promised before."""
    return forecast.forecast(world, seen.standing.promised, forecast.Claim.of(revision.template["spec"], count))
