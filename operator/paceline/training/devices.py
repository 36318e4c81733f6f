"""Devices of a stage: asked for before its Job is made, so that it takes nothing that a rollout was promised.

The claim lies on the run's record, beside those of rollouts in one ledger. A stage waits only for what was promised to
others: where no node would have room even without them, its pod may as well wait in the scheduler's queue, in which a
cluster that grows on demand finds it. A run with ``spec.queue`` asks nobody here: its queue decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from paceline.capacity import forecast, ledger, reading
from paceline.planning import plan
from paceline.training import observe

_AGAIN_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What a stage's Job may count on."""

    claim: Mapping[str, Any] = field(default_factory=dict)
    """What the record is to claim."""
    waits: str = ""
    """What has to come before the Job may be made; empty when it may be."""
    look_again_s: float | None = None


def seat(seen: observe.Observed, job: plan.Manifest) -> Seat:
    """Return what a stage's Job, as rendered, may count on."""
    pod_spec = job["spec"]["template"]["spec"]
    if seen.devices is None or seen.spec.queue or not reading.needs(pod_spec):
        return Seat()
    name = str(plan.metadata(job)["name"])
    kept = claim_of(seen, name)
    if kept and not kept[name].get("asked"):
        return Seat(claim=kept)
    asked = _claim(name, pod_spec, asked=True)
    if kept != asked:
        return Seat(claim=asked, waits="its devices are asked for.")
    if not seen.standing.is_whole:
        return Seat(claim=asked, waits="the claims of all namespaces are being read.", look_again_s=_AGAIN_S)
    wanted = forecast.Claim.of(pod_spec, 1)
    if not forecast.takes_promised(seen.devices, seen.standing.promised, wanted):
        return Seat(claim=_claim(name, pod_spec, asked=False))
    found = forecast.forecast(seen.devices, seen.standing.promised, wanted)
    return Seat(
        claim=asked,
        waits=f"it needs {found.each} {found.resource} on one node, and what is free was promised to others before.",
        look_again_s=_AGAIN_S,
    )


def claim_of(seen: observe.Observed, job_name: str) -> dict[str, Any]:
    """Return the claim that the record holds for a Job; empty when it holds none, or that of another stage."""
    kept = ledger.read(seen.record_object) if seen.record_object is not None else {}
    return kept if set(kept) == {job_name} else {}


def _claim(name: str, pod_spec: Mapping[str, Any], *, asked: bool) -> dict[str, Any]:
    return ledger.document({name: ledger.Wish(count=1, pod_spec=pod_spec, asked=asked, job=name)})
