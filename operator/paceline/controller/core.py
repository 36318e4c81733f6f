"""The parts put together: reflectors feed the cache, the cache feeds the queue, the leader's workers empty it."""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from paceline.controller import (
    apiserver,
    cache,
    clock,
    errors,
    events,
    executor,
    fleet,
    freshness,
    lease,
    logs,
    metrics,
    passes,
    poller,
    queue,
    reflector,
    settings,
    statuses,
    triggers,
    view,
)
from paceline.planning import fleet as devices
from paceline.planning import kinds
from paceline.planning.plan import Key
from paceline.planning.view import Room, Sight

_SYNC_POLL_S: Final = 0.05
# Pods that are over hold nothing, and there may be many.
_DEVICES: Final[tuple[tuple[kinds.Kind, Mapping[str, str]], ...]] = (
    (kinds.NODE, {}),
    (kinds.POD, {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}),
    (kinds.PERSISTENT_VOLUME_CLAIM, {}),
)
_HOUSEKEEPING_S: Final = 5.0
# A write that the watch has not shown after so long was missed: only a new list helps.
_OVERDUE_S: Final = 30.0


class Core:
    """The controller of one process."""

    def __init__(  # noqa: PLR0913 - collaborators, each used
        self,
        *,
        configured: settings.Settings,
        rooms: Mapping[str, Room],
        server: apiserver.ApiServer,
        fetch: poller.Fetch,
        time: clock.Clock,
        measured: metrics.Metrics,
        lost: Callable[[errors.LeaseLostError], None],
    ) -> None:
        """Put the parts together; nothing runs yet.

        Args:
            configured: the process's settings.
            rooms: by the name of their kind.
            server: where everything is read and written.
            fetch: how pods are asked.
            time: the clock of all parts.
            measured: what /metrics shows.
            lost: told the moment that this process may not write any more; should not return.
        """
        self._lost = lost
        self._settings = configured
        self._rooms = rooms
        self._clock = time
        self._metrics = measured
        self.work: queue.WorkQueue[Key] = queue.WorkQueue(
            clock=time, backoff=queue.Backoff(base_s=configured.backoff_base, max_s=configured.backoff_max)
        )
        self._fresh = freshness.Freshness(caught_up=self._caught_up)
        self._heard = poller.Heard(window_s=configured.scrape_window)
        self._triggers = triggers.Triggers(rooms=rooms, look=self.look, enqueue=self.enqueue)
        watched = (*kinds.OURS, *kinds.CHILDREN, *(kinds.FOREIGN if configured.gateway else ()))
        known = (*kinds.OURS, *kinds.CHILDREN, *kinds.FOREIGN)
        self.cache = cache.Cache(known, fresh=self._fresh, listener=self._triggers.changed, measured=measured)
        self.lease = lease.Lease(server=server, configured=configured, time=time, measured=measured)
        self.fleet = fleet.FleetStore(measured=measured)
        reflect = functools.partial(reflector.Reflector, server=server, fresh=self._fresh, time=time, measured=measured)
        self.reflectors = [
            reflect(kind=kind, namespace=namespace, store=self.cache)
            for kind in watched
            for namespace in configured.namespaces or (None,)
        ]
        devices_of = _DEVICES if configured.forecast else ()
        self._fleet_reflectors = [
            reflect(kind=kind, namespace=None, store=self.fleet, selection=selection) for kind, selection in devices_of
        ]
        self._poller = poller.Poller(
            fetch=fetch, heard=self._heard, news=self.enqueue, configured=configured, time=time, measured=measured
        )
        self._passes = passes.Passes(self._equipment(rooms, server))

    def enqueue(self, key: Key) -> None:
        """Ask for a pass over ``key``."""
        self.work.add(key)

    @property
    def is_synced(self) -> bool:
        """Whether every kind has been listed, devices and what is others' too unless that cannot be had."""
        listed = all(one.is_synced or _cannot_be_had(one) for one in self.reflectors)
        return listed and all(one.is_synced or one.is_refused for one in self._fleet_reflectors)

    def complaint(self) -> str | None:
        """Return why this process should be restarted, or None."""
        waited = self.work.longest_wait()
        if self.lease.is_held and self.is_synced and waited > self._settings.stall_limit:
            return f"a key has been ready or in work for {waited:.0f}s; passes are stuck"
        return None

    async def run(self) -> None:
        """Run until cancelled.

        Raises:
            ExceptionGroup: with a LeaseLostError, when another may be the leader and ``lost`` has returned.
        """
        async with asyncio.TaskGroup() as tasks:
            for one in (*self.reflectors, *self._fleet_reflectors):
                tasks.create_task(one.run(), name=f"reflect {one.kind.plural}")
            await self.lease.acquire()
            tasks.create_task(self._while_leading(self.lease.hold()), name="lease")
            while not self.is_synced:
                await self._clock.sleep(_SYNC_POLL_S)
            logs.get().info("cache_synced")
            tasks.create_task(self._poller.run(), name="poller")
            tasks.create_task(self._resync(), name="resync")
            tasks.create_task(self._keep_house(), name="housekeeping")
            for number in range(self._settings.workers):
                tasks.create_task(self._while_leading(self._work()), name=f"worker {number}")

    async def _while_leading(self, task: Coroutine[Any, Any, None]) -> None:
        """Await ``task``; a lost lease is told here and not after the others have ended, since one may not end."""
        try:
            await task
        except errors.LeaseLostError as error:
            self._lost(error)
            raise

    async def _work(self) -> None:
        while True:
            key, waited = await self.work.take()
            self._metrics.queue_seconds.observe(waited)
            try:
                await self._passes.run(key)
            finally:
                self.work.done(key)

    async def _resync(self) -> None:
        """Look at everything once in a while, spread over the period so that it is never a wave."""
        while True:
            await self._clock.sleep(self._settings.resync)
            keys = [key for kind in kinds.OURS for key in self._keys(kind)]
            for position, key in enumerate(keys):
                self.work.add_after(key, self._settings.resync * 0.5 * position / len(keys))

    async def _keep_house(self) -> None:
        listed_s = 0.0
        while True:
            self._metrics.queue_depth.set(self.work.depth())
            now = self._clock.monotonic()
            overdue = self._fresh.overdue(before_s=now - _OVERDUE_S)
            if overdue and now >= listed_s + _OVERDUE_S:
                listed_s = now
                logs.get().warning("write_not_seen", **{logs.KIND: sorted(kind.kind for kind in overdue)})
                # All of them: what killed one connection killed others, and kinds that we never write, such as pods,
                # have no other way to be missed.
                for one in self.reflectors:
                    one.relist()
            await self._clock.sleep(_HOUSEKEEPING_S)

    def _keys(self, kind: kinds.Kind) -> list[Key]:
        return [
            Key(kind=kind, namespace=one["metadata"]["namespace"], name=one["metadata"]["name"])
            for one in self.cache.store(kind).all()
            if kind.kind in self._rooms
        ]

    def look(self) -> view.CacheView:
        """Return a fresh picture for one pass."""
        return view.CacheView(
            known=self.cache, heard=self._heard, fleet=self._devices(), told=self._told(), sights=self._sights()
        )

    def _told(self) -> Mapping[kinds.Kind, int]:
        """Return how far the slowest watch of the records' kind has told, where each namespace has one of its own."""
        if len(self._settings.namespaces) <= 1:
            return {}
        records = [one for one in self.reflectors if one.kind is kinds.CONFIG_MAP]
        return {kinds.CONFIG_MAP: min(one.told_to for one in records)}

    def _sights(self) -> Mapping[str, Sight]:
        """Return whether foreign kinds can be seen: by the namespace in which it is worst."""
        found: dict[str, Sight] = {}
        for one in self.reflectors:
            if one.kind in kinds.FOREIGN and found.get(one.kind.kind, Sight.SEEN) is Sight.SEEN:
                found[one.kind.kind] = _sight(one)
        return found

    def _devices(self) -> devices.Fleet | None:
        """Return what is known of devices; None until both lists are there, or where they are not to be had."""
        # Without claims a forecast says less, without nodes or pods nothing.
        needed = [one for one in self._fleet_reflectors if one.kind is not kinds.PERSISTENT_VOLUME_CLAIM]
        is_known = bool(needed) and all(one.is_synced for one in needed)
        return self.fleet.snapshot() if is_known else None

    def _caught_up(self, key: Key) -> None:
        self._passes.caught_up(key)

    def _equipment(self, rooms: Mapping[str, Room], server: apiserver.ApiServer) -> passes.Equipment:
        writes = executor.Executor(
            server=server,
            store=self.cache,
            fresh=self._fresh,
            time=self._clock,
            measured=self._metrics,
            fence=self.lease.check,
        )
        return passes.Equipment(
            rooms=rooms,
            look=self.look,
            fresh=self._fresh,
            work=self.work,
            writes=writes,
            stored=statuses.StatusWriter(writes=writes),
            told=events.Recorder(
                server=server, instance=self._settings.identity, time=self._clock, measured=self._metrics
            ),
            polls=self._poller,
            time=self._clock,
            measured=self._metrics,
        )


def _cannot_be_had(one: reflector.Reflector) -> bool:
    """Whether a foreign kind is not there for us: its resources say so, and all others get their passes."""
    return one.kind in kinds.FOREIGN and (one.is_refused or one.is_absent)


def _sight(one: reflector.Reflector) -> Sight:
    """Return what the last list said."""
    if one.is_absent:
        return Sight.ABSENT
    if one.is_refused:
        return Sight.REFUSED
    return Sight.SEEN if one.is_synced else Sight.AWAITED
