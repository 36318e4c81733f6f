"""One pass over one resource: look, decide, write, tell; and one line in the log that says how it went."""

import asyncio
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from paceline.api.conditions import TrainingReason
from paceline.controller import (
    clock,
    errors,
    events,
    executor,
    freshness,
    logs,
    metrics,
    poller,
    queue,
    statuses,
    view,
)
from paceline.planning import plan as planning
from paceline.planning.plan import Event, Key, Manifest, Plan
from paceline.planning.view import PodPoll, Room

# However soon a room wants to look again: one that is wrong about it must not keep the process busy.
_SOONEST_S: Final = 0.1
# Both kinds spell these reasons alike.
_REASON: Final[Mapping[type[errors.PermanentError], str]] = {
    errors.ForeignObjectError: TrainingReason.FOREIGN_OBJECT,
    errors.RefusedError: TrainingReason.OBJECT_REFUSED,
}


class Outcome(enum.StrEnum):
    """How a pass ended."""

    SETTLED = "settled"  # nothing to do
    WROTE = "wrote"
    POSTPONED = "postponed"  # the cache does not show our last write yet
    GONE = "gone"
    REFUSED = "refused"  # a permanent error, told in the status
    RETRIED = "retried"  # a transient error
    CRASHED = "crashed"  # a bug of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What passes work with."""

    rooms: Mapping[str, Room]
    look: Callable[[], view.CacheView]
    """Returns a fresh picture."""
    fresh: freshness.Freshness
    work: queue.WorkQueue[Key]
    writes: executor.Executor
    stored: statuses.StatusWriter
    told: events.Recorder
    polls: poller.Poller
    time: clock.Clock
    measured: metrics.Metrics


class Passes:
    """Runs passes."""

    def __init__(self, equipment: Equipment) -> None:
        """Prepare."""
        self._with = equipment
        self._postponed: set[Key] = set()

    def caught_up(self, key: Key) -> None:
        """Note that the cache shows all our writes of ``key``: a pass that waited for that is due."""
        if key in self._postponed:
            self._postponed.discard(key)
            self._with.work.add(key)

    async def run(self, key: Key) -> Outcome:
        """Make one pass over ``key``, and arrange for the next; never raises but on cancellation and a lost lease."""
        tools = self._with
        began = tools.time.monotonic()
        log = logs.bind(key)
        problem: str | None = None
        try:
            outcome = await self._pass(key)
        except errors.RetakenError:
            outcome = self._postpone(key)
        except errors.TransientError as error:
            outcome, problem = Outcome.RETRIED, str(error)
            tools.work.failed(key, at_least_s=error.retry_after_s)
        except errors.LeaseLostError:
            raise
        except Exception as error:  # a bug in a room or here must not stop the others' passes
            outcome, problem = Outcome.CRASHED, f"{type(error).__name__}: {error}"
            tools.work.failed(key)
            log.exception("pass_crashed")
        seconds = tools.time.monotonic() - began
        tools.measured.passes.labels(kind=key.kind.kind, outcome=outcome.value).inc()
        tools.measured.pass_seconds.labels(kind=key.kind.kind).observe(seconds)
        tell = log.debug if outcome in (Outcome.SETTLED, Outcome.POSTPONED) else log.info
        extra = {} if problem is None else {logs.ERROR: problem}
        tell("pass", **{logs.OUTCOME: outcome.value, logs.DURATION_MS: round(seconds * 1000, 1)}, **extra)
        return outcome

    async def _pass(self, key: Key) -> Outcome:
        tools = self._with
        if not tools.fresh.is_current(key):
            return self._postpone(key)
        resource, plan, polls = await asyncio.to_thread(self._decide, key)
        tools.polls.want(key, polls)
        if plan is None or resource is None:
            tools.stored.forget(key)
            tools.work.succeeded(key)
            return Outcome.GONE
        outcome = await self._carry_out(key, resource, plan)
        if plan.requeue_after_s is not None:
            tools.work.add_after(key, max(plan.requeue_after_s, _SOONEST_S))
        return outcome

    def _postpone(self, key: Key) -> Outcome:
        """Arrange for a pass as soon as the cache shows all that was written."""
        if self._with.fresh.is_current(key):
            self._with.work.add(key)
        else:
            self._postponed.add(key)
        return Outcome.POSTPONED

    def _decide(self, key: Key) -> tuple[Manifest | None, Plan | None, Sequence[PodPoll]]:
        """Ask the room, in a thread: a verdict over many measurements may take long."""
        tools = self._with
        room = tools.rooms[key.kind.kind]
        seen = tools.look()
        plan = room.reconcile(seen, key, tools.time.wall())
        resource = seen.get(key.kind, key.namespace, key.name)
        return resource, plan, () if plan is None else tuple(room.polled(seen, key))

    async def _carry_out(self, key: Key, resource: Manifest, plan: Plan) -> Outcome:
        tools = self._with
        status, told = plan.status, list(plan.events)
        refusal: errors.PermanentError | None = None
        written = 0
        try:
            # A pass that gets further each time is no failure in a row, even if none of them comes to its end.
            written = await tools.writes.carry_out(key, plan.actions, done=lambda: tools.work.succeeded(key))
        except errors.PermanentError as error:
            refusal = error
            status, told = _refused(resource, plan, error, now=tools.time.wall())
        version = None if status is None else await tools.stored.write(key, resource, status)
        # Without a write there was no transition: a pass repeated on the same world says the same again.
        if written or version is not None:
            await self._tell(key, resource, told, version)
        if refusal is not None:
            # Nothing may tell us that a quota grew or that a namesake went, so it is tried again, ever more slowly.
            tools.work.failed(key)
            return Outcome.REFUSED
        tools.work.succeeded(key)
        return Outcome.WROTE if written or version is not None else Outcome.SETTLED

    async def _tell(self, key: Key, resource: Manifest, told: Sequence[Event], version: str | None) -> None:
        at = version or str(planning.metadata(resource)["resourceVersion"])
        # Two conditions may say the same of one cause; people are told once.
        posts = [self._with.told.record(key, resource, event, version=at) for event in dict.fromkeys(told)]
        await asyncio.gather(*posts)


def _refused(
    resource: Manifest, plan: Plan, error: errors.PermanentError, *, now: float
) -> tuple[dict[str, Any], list[Event]]:
    reason = next((text for kind, text in _REASON.items() if isinstance(error, kind)), TrainingReason.OBJECT_REFUSED)
    status, news = statuses.refused(plan.status, resource, reason=reason, message=str(error), now=now)
    accepted = {event.reason for event in news}
    others = [event for event in plan.events if event.reason not in accepted]
    return status, [*others, *news]
