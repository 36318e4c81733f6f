"""What becomes of a rollout for which there is no room: ``onInsufficientGPU`` waits, holds or rejects."""

from typing import Final

from paceline.api import base, names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Purpose
from paceline.api.speculativedeployment import OnInsufficientGPU, Strategy
from paceline.planning import conditions
from paceline.rollout import rollback, verbs
from paceline.rollout.steps import Case, Step

AGAIN_S: Final = 15.0


class Lack:
    """Why no place can be had."""

    __slots__ = ("in_vain", "message", "needs_consent")

    def __init__(self, message: str, *, needs_consent: bool = False, in_vain: bool = False) -> None:
        self.message = message
        self.needs_consent = needs_consent
        self.in_vain = in_vain
        """Whether no free device would change it."""


def settle(case: Case, lack: Lack) -> Step:
    """Return what the spec says to do without room."""
    record = case.record
    if record.purpose in {Purpose.GUARD, Purpose.UNDO}:
        return rollback.abort(case, RolloutReason.ABORTED, f"It cannot be done now. {lack.message}"[:1024])
    if lack.in_vain:
        return rollback.reject(case, RolloutReason.VOLUME_EXCLUSIVE, lack.message)
    match case.seen.owner.spec.rollout.on_insufficient_gpu:
        case OnInsufficientGPU.REJECT:
            return rollback.reject(case, RolloutReason.NO_FREE_GPU, lack.message)
        case OnInsufficientGPU.HOLD:
            return held(case, lack)
        case OnInsufficientGPU.WAIT:
            return waits(case, lack)


def until(case: Case) -> float:
    """Return when the wait for devices is over."""
    span = base.parse_duration(case.deadlines.capacity).total_seconds()
    return conditions.parse_timestamp(case.record.started_at) + span


def waits(case: Case, lack: Lack) -> Step:
    """Return the wait for devices, and its end."""
    if case.now >= until(case):
        over = f"{lack.message} rollout.deadlines.capacity ({case.deadlines.capacity}) is over."
        return rollback.reject(case, RolloutReason.NO_FREE_GPU, over)
    reason = RolloutReason.CONSENT_NEEDED if lack.needs_consent else RolloutReason.INSUFFICIENT_GPU
    remedy = "" if lack.needs_consent else _remedy(case)
    return Step(
        reason=reason,
        message=f"{lack.message}{remedy} Stable serves on."[:1024],
        progressing=not lack.needs_consent,
        look_again_s=min(AGAIN_S, until(case) - case.now),
    )


def _remedy(case: Case) -> str:
    surge = case.seen.owner.spec.rollout.strategy is Strategy.SURGE
    return " Free a node, or set rollout.strategy: Auto." if surge else " Free a node."


def held(case: Case, lack: Lack | None = None) -> Step:
    """Return the halt until a person asks for another try; nothing is made, so nothing is kept from others."""
    record, short = case.record, names.short(case.record.candidate)
    token = verbs.asked(case.seen, "retry", record.candidate)
    if token and record.capacity_held:
        tried = record.model_copy(update={"capacity_held": False, "handled": [*record.handled, token], "message": ""})
        return Step(reason=RolloutReason.SCHEDULING, message="Asked for again by annotation.", record=tried)
    said = lack.message if lack else record.message
    held = None if lack is None else record.model_copy(update={"capacity_held": True, "message": said[:1024]})
    todo = f"annotate paceline.dev/retry: {short} when there is room, or paceline.dev/abort: {short}."
    return Step(reason=RolloutReason.HELD, message=f"{said} It is held; {todo}"[:1024], progressing=False, record=held)
