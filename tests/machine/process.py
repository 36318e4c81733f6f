"""The controller of the model: one key, woken by events and by its own wish, with every way a pass may be cut.

It does what ``controller.passes`` does, by the same rules for errors, without an event loop.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from machine.server import Fault, Server
from machine.watches import Picture, Watches
from paceline.controller import errors, passes, statuses
from paceline.planning import plan, view

RETRY_S = 1.0
REFUSED_RETRY_S = 60.0
RESYNC_S = 600.0

Faults = Mapping[int, Fault]
"""By the number of a call in the pass, the status write being the last."""


class Operator:
    """One process, as it stands between two passes."""

    def __init__(
        self, room: view.Room, key: plan.Key, *, server: Server, watches: Watches, look: Callable[[plan.Action], None]
    ) -> None:
        self.room, self.key = room, key
        self.skew_s = 0.0
        """How wrong its wall clock is."""
        self.sees_all = False
        """Whether the pass at hand began on a picture that lacked nothing."""
        self.wake_at: float | None = server.now
        """When it looks again by itself; None: only when woken."""
        self._server, self._watches, self._look = server, watches, look
        self._pruned: tuple[Any, Any] | None = None

    def wake(self) -> None:
        """Make a pass due."""
        self.wake_at = self._server.now

    def restart(self) -> None:
        """Start anew, with nothing in memory and everything to be looked at."""
        self._pruned = None
        self.wake()

    @property
    def is_due(self) -> bool:
        """Whether a pass is to run."""
        return self.wake_at is not None and self.wake_at <= self._server.now

    def decide(self, picture: Picture) -> plan.Plan | None:
        """Return what the room says, which must say the same when asked again."""
        return self.room.reconcile(picture, self.key, self._server.now + self.skew_s)

    def work(self, *, faults: Faults | None = None, crash_after: int | None = None) -> None:
        """Run one pass on what the watches show."""
        self._watches.catch_up()
        self.act(self._watches.picture(), faults=faults or {}, crash_after=crash_after)

    def act(self, picture: Picture, *, faults: Faults, crash_after: int | None = None) -> None:
        """Run one pass on a picture; one that crashed leaves a successor that looks at everything."""
        self.wake_at = None
        self.sees_all = picture.objects == self._server.objects
        resource = picture.get(self.key.kind, self.key.namespace, self.key.name)
        planned = self.decide(picture)
        if planned is None or resource is None:
            return
        try:
            self._carry_out(resource, planned, faults=faults, crash_after=crash_after)
        except _CrashedError:
            self.restart()
        except errors.PermanentError:
            self._look_again(REFUSED_RETRY_S)  # of the status: there is no better place to tell it
        except errors.TransientError as error:
            self._look_again(max(RETRY_S, error.retry_after_s))
        else:
            if planned.requeue_after_s is not None:
                self._look_again(planned.requeue_after_s)

    def _carry_out(
        self, resource: plan.Manifest, planned: plan.Plan, *, faults: Faults, crash_after: int | None
    ) -> None:
        status = planned.status
        try:
            self._actions(planned.actions, faults=faults, crash_after=crash_after)
        except errors.PermanentError as error:
            status, _ = passes._refused(resource, planned, error, now=self._server.now + self.skew_s)
            self._look_again(REFUSED_RETRY_S)
        if status is not None:
            self._write_status(resource, status, faults.get(len(planned.actions)))

    def _actions(self, actions: Sequence[plan.Action], *, faults: Faults, crash_after: int | None) -> None:
        for number, action in enumerate(actions):
            if number == crash_after:
                raise _CrashedError
            before = len(self._server.states)
            try:
                self._server.carry_out(action, faults.get(number))
            finally:
                if len(self._server.states) > before:
                    self._look(action)
        if crash_after is not None and crash_after <= len(actions):
            raise _CrashedError

    def _write_status(self, resource: plan.Manifest, status: plan.Manifest, fault: Fault | None) -> None:
        stored = resource.get("status") or {}
        patch = statuses.merge_patch(stored, status)
        if not patch or self._pruned == (status, stored):
            return
        self._server.patch_status(resource, patch, fault)
        kept = (self._server.get(self.key.kind, self.key.name) or {}).get("status") or {}
        self._pruned = (status, kept) if statuses.merge_patch(kept, status) else None

    def _look_again(self, after_s: float) -> None:
        due = self._server.now + after_s
        self.wake_at = due if self.wake_at is None else min(self.wake_at, due)


class _CrashedError(Exception):
    """The process is gone."""
