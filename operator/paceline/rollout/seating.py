"""Where a rollout's arms get their devices, decided before any pod is made.

From nodes and the ledger of promises a forecast tells whether there is room beside stable. Without room the strategy
says whether an arm may have one of stable's places, and ``onInsufficientGPU`` what becomes of the rollout otherwise.
What is decided is written down, and only then are pods made. A forecast may be wrong, or not to be had: PodScheduled
decides, and a rollout whose pods found no node in time is seated anew.
"""

from dataclasses import replace
from typing import Final

from paceline.api import names
from paceline.api.conditions import RolloutReason
from paceline.api.measurement import Purpose, Seating
from paceline.api.speculativedeployment import OnInsufficientGPU, Strategy
from paceline.capacity import forecast
from paceline.planning import conditions
from paceline.rollout import shortage, verbs
from paceline.rollout.documents import claims, revisions
from paceline.rollout.places import downtime, release, seats, turns, volumes
from paceline.rollout.steps import Case, Step
from paceline.rollout.view import observe, readiness

# What stable itself asks for: where a candidate goes, and what it may cost, says nothing of these.
_OF_STABLE: Final = frozenset({Purpose.GUARD, Purpose.UNDO})
_LACKS_NODE: Final = frozenset({RolloutReason.SCHEDULING, RolloutReason.INSUFFICIENT_GPU})


def settle(case: Case) -> Step | None:
    """Return the step that seats a rollout, or says what it waits for; None when it is seated."""
    if case.record.seating is not Seating.ASKED:
        return _without_node(case) or _released(case)
    paused = verbs.pause(case)
    if paused is not None:
        return paused
    if case.record.capacity_held:
        return shortage.held(case)
    unheard = _unheard(case)
    if unheard is not None:
        return unheard
    found = _choose(case)
    if isinstance(found, Seating):
        return _after_others(case, found) or _seated(case, found)
    return shortage.settle(case, found)


def _unheard(case: Case) -> Step | None:
    """Return the pass by which the record comes to hold its claim, or the wait for those that come before it.

    Whoever has just come back goes to the end.
    """
    if case.seen.devices is None:
        return None
    if case.seen.standing.has_asked:
        return None if case.seen.standing.is_whole else seats.unread(case)
    short = names.short(turns.newcomer(case.record))
    message = f"Revision {short} asks for its devices."
    return Step(reason=RolloutReason.SCHEDULING, message=message, look_again_s=shortage.AGAIN_S)


def _after_others(case: Case, seating: Seating) -> Step | None:
    """Return the wait for pods of others, where those of this rollout could land on what the others were promised.

    Whoever comes in stable's place, and whoever has nothing to fall back on, needs no free node to be seated; but what
    waits for a node takes the first that is free.
    """
    count = _places(case) if seating in {Seating.BESIDE, Seating.TAKEN} else 1
    digest = turns.newcomer(case.record)
    if case.now >= shortage.until(case) or not seats.takes_promised(case, digest, count):
        return None
    message = f"Revision {names.short(digest)} waits for GPUs: what is free was promised to others before."
    return Step(reason=RolloutReason.INSUFFICIENT_GPU, message=message, look_again_s=shortage.AGAIN_S)


def _released(case: Case) -> Step | None:
    record = case.record
    if verbs.asked(case.seen, "pause", record.candidate):
        return None
    arms = [turns.slot(case.seen, record)] if record.turns else [record.candidate, record.control]
    found = (release.due(case, arm) for arm in arms if arm)
    return next((step for step in found if step is not None), None)


def _places(case: Case) -> int:
    """Return how many pods beside stable's the rollout needs for all its arms at once."""
    record = case.record
    arms = {one for one in (record.candidate, record.control) if one and one != record.stable}
    return case.seen.owner.spec.replicas if record.purpose in claims.WHOLE else len(arms)


def _choose(case: Case) -> Seating | shortage.Lack:
    """Return the seating that the strategy and the forecast lead to."""
    strategy, needed = case.seen.owner.spec.rollout.strategy, _places(case)
    revision = case.seen.revisions.get(turns.newcomer(case.record))
    if revision is None:
        return shortage.Lack("The revision is being written.")
    if not case.record.stable:
        # There is nothing to keep from harm, and nothing in whose place it could come.
        return Seating.BESIDE
    found = seats.room_for(case, revision.digest, needed)
    if found is not None and found.fits:
        in_vain = volumes.in_vain(case, revision, min(found.fits, needed))
        if in_vain:
            return shortage.Lack(in_vain, in_vain=True)
    if strategy is not Strategy.REPLACE or case.record.purpose in _OF_STABLE:
        if found is None or found.fits >= needed:
            return Seating.BESIDE
        if found.fits and case.record.purpose is Purpose.CANDIDATE:
            return Seating.SHARED
    lack = _lack(case, found, needed)
    # Whatever the strategy, a head that serves nobody any more makes way for its control.
    repairs = case.record.purpose is Purpose.GUARD and not has_endpoint(case.seen)
    in_place = strategy is not Strategy.SURGE or repairs
    return _in_stables_place(case, revision, found, lack) if in_place else lack


def _lack(case: Case, found: forecast.Forecast | None, needed: int) -> shortage.Lack:
    short = names.short(turns.newcomer(case.record))
    if found is None:
        return shortage.Lack(f"Revision {short} found no node.")
    nodes = "one node" if needed == 1 else f"each of {needed} nodes"
    return shortage.Lack(
        f"Revision {short} needs {found.each} free {found.resource} on {nodes}; the largest free block is"
        f" {found.largest}, and {found.fits} of {needed} pods would find a node."
    )


def _in_stables_place(
    case: Case, revision: revisions.Revision, found: forecast.Forecast | None, lack: shortage.Lack
) -> Seating | shortage.Lack:
    """Return the seating that takes a place from stable, where that would be enough and may be done."""
    seen, replicas = case.seen, case.seen.owner.spec.replicas
    if seen.devices is not None and not _would_fit_after(case, revision):
        return shortage.Lack(f"{lack.message} One of stable's places would not do either.")
    unsafe = release.consent(seen, revision)
    if unsafe and has_endpoint(seen):
        return shortage.Lack(f"{lack.message} {unsafe}", needs_consent=True)
    if replicas > 1:
        spare = (found.fits if found else 0) + 1
        needs_two = case.record.purpose is Purpose.CANDIDATE and _places(case) > spare
        return Seating.TAKEN_SHARED if needs_two else Seating.TAKEN
    if case.record.purpose is Purpose.GUARD and has_endpoint(seen):
        short = names.short(case.record.stable)
        return shortage.Lack(
            f"{lack.message} Stable's only place is not given up on a suspicion, also with"
            " rollout.replace.allowDowntime: what users do to it cannot be measured while it is stopped. Free a node"
            f" for the control, or annotate paceline.dev/undo: {short} to go back to what served before."
        )
    if seen.owner.spec.rollout.replace_policy.allow_downtime or not has_endpoint(seen):
        return Seating.STOPPED
    cost = downtime.estimate(case)
    return shortage.Lack(
        f"{lack.message} Only stable's own place would do: users would have no service for about"
        f" {downtime.in_words(cost.expected_s)}, at most {downtime.in_words(cost.longest_s)}. Free a node, or set"
        " rollout.replace.allowDowntime: true.",
        needs_consent=True,
    )


def has_endpoint(seen: observe.Observed) -> bool:
    """Whether stable has anything to lose."""
    server = seen.server(seen.history.stable)
    return bool(server and server.ready)


def _would_fit_after(case: Case, revision: revisions.Revision) -> bool:
    """Whether the newcomer would fit if one of stable's pods went."""
    server, world = case.seen.server(case.seen.history.stable), case.seen.devices
    if world is None or server is None:
        return False
    for pod in server.pods:
        held = {uid: one for uid, one in world.holdings.items() if uid != pod.uid}
        if seats.forecast_of(case.seen, replace(world, holdings=held), revision, 1).fits:
            return True
    return False


def _seated(case: Case, seating: Seating) -> Step:
    changed: dict[str, object] = {"seating": seating, "waiting_since": conditions.timestamp(case.now)}
    changed |= _turns(case, seating)
    if seating is Seating.STOPPED:
        cost = downtime.estimate(case)
        changed |= {"expected_downtime_s": cost.expected_s, "longest_downtime_s": cost.longest_s}
    short = names.short(turns.newcomer(case.record))
    return Step(
        reason=RolloutReason.SCHEDULING,
        message=f"Revision {short} is being started {_IN_WORDS[seating]}.",
        record=case.record.model_copy(update=changed),
    )


def _turns(case: Case, seating: Seating) -> dict[str, object]:
    """Return which arms take turns, with the recorded baseline of a control that need not be loaded again for it."""
    seen, record = case.seen, case.record
    if seating not in turns.SEATINGS or record.purpose is not Purpose.CANDIDATE:
        return {"turns": []}
    control = record.control if record.control != record.stable else ""
    first = record.stable if seating is Seating.STOPPED and has_endpoint(seen) else ""
    known = turns.recorded(
        seen.history,
        control,
        workload=record.workload,
        rounds=seen.owner.spec.rollout.analysis.min_rounds,
        not_before=turns.not_before(seen, case.now),
    )
    return {
        "turns": [digest for digest in (first, control, record.candidate) if digest],
        "measurements": list(known),
        "rounds": max((one.round for one in known), default=0),
        "carried_rounds": max((one.round for one in known), default=0),
    }


_IN_WORDS: Final = {
    Seating.BESIDE: "beside stable",
    Seating.SHARED: "beside stable, on one place by turns with its control",
    Seating.TAKEN: "in the place of one of stable's replicas",
    Seating.TAKEN_SHARED: "in the place of one of stable's replicas, by turns with its control",
    Seating.STOPPED: "in stable's only place",
}


def _without_node(case: Case) -> Step | None:
    """Return the new seating of a rollout whose newcomer found no node in time; None while it may, or if it did."""
    record = case.record
    if (
        record.seating is None
        or record.purpose is Purpose.RECOVERY
        or not record.stable
        or record.rounds > record.carried_rounds
    ):
        return None
    found = case.readiness(turns.newcomer(record), wanted=1)
    if not isinstance(found, readiness.Failed) or found.reason not in _LACKS_NODE:
        return None
    lack = shortage.Lack(found.message)
    if record.seating is Seating.BESIDE and case.seen.owner.spec.rollout.strategy is Strategy.AUTO:
        revision = case.seen.revisions.get(turns.newcomer(record))
        chosen = _in_stables_place(case, revision, None, lack) if revision else lack
        if isinstance(chosen, Seating):
            return _seated(case, chosen)
        lack = chosen
    if record.purpose in {Purpose.GUARD, Purpose.UNDO}:
        return None  # they have ends of their own for an arm that does not come
    return _asked_again(case, lack)


def _asked_again(case: Case, lack: shortage.Lack) -> Step:
    """Return the way back to asking, which frees the pods' places in the queue; where nobody sees nodes, they wait."""
    if case.seen.owner.spec.rollout.on_insufficient_gpu is OnInsufficientGPU.WAIT:
        if case.seen.devices is None:
            return shortage.waits(case, lack)
        anew = {"seating": Seating.ASKED, "released_at": None, "asked_replicas": 0, "granted_replicas": 0}
        again = case.record.model_copy(update=anew)
        return Step(reason=RolloutReason.INSUFFICIENT_GPU, message=lack.message[:1024], record=again)
    asked = Case(seen=case.seen, record=case.record.model_copy(update={"seating": Seating.ASKED}), now=case.now)
    return shortage.settle(asked, lack)
