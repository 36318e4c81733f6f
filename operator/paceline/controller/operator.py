"""The process: kopf owns start-up, login, signals and the watch of our two kinds, whose handlers only enqueue.

kopf tells nobody what vanished between two lists and delivers stale events, so its events are no more than hints: every
fact a pass uses comes from our own cache.
"""

import asyncio
import itertools
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

import kopf

from paceline.api import base
from paceline.controller import apiserver, clock, core, errors, health, logs, metrics, poller, rooms, settings
from paceline.planning import kinds
from paceline.planning.plan import Key

EXIT_CRASHED: Final = 1
EXIT_LEASE_LOST: Final = 3
_WAIT_S: Final = 0.1


class Process:
    """One operator process, from start to end."""

    def __init__(self, configured: settings.Settings) -> None:
        """Load the rooms; nothing runs yet.

        Raises:
            UnknownRoomError: a room's name leads nowhere.
        """
        self._settings = configured
        self._rooms = rooms.load(configured)
        self._metrics = metrics.Metrics()
        self._clock = clock.SystemClock()
        self._stop = asyncio.Event()
        self._core: core.Core | None = None
        self._running: asyncio.Task[None] | None = None
        self._closing: list[Any] = []
        self.failure: BaseException | None = None

    async def run(self) -> int:
        """Run until a signal, a crash or a lost lease; return the exit code."""
        # Else kopf asks for the user's name, and an image has none for the number that its pod runs as.
        identity: Any = self._settings.identity
        try:
            await kopf.operator(
                registry=self._registry(),
                clusterwide=not self._settings.namespaces,
                namespaces=self._settings.namespaces,
                standalone=True,
                identity=identity,
                stop_flag=self._stop,
            )
        finally:
            # Not a kopf clean-up handler: those are skipped when the signal comes while the start-up handler waits, and
            # the next leader would then have to wait out our lease.
            await self._end()
        return EXIT_CRASHED if self.failure is not None else 0

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.startup(registry=registry)(self._start)
        kopf.on.login(registry=registry)(_login)
        for kind in kinds.OURS:
            kopf.on.event(base.GROUP, base.VERSION, kind.plural, registry=registry)(self._handler(kind))
        return registry

    def _handler(self, kind: kinds.Kind) -> Any:
        async def enqueue(namespace: str, name: str, **_: Any) -> None:
            self._enqueue(Key(kind=kind, namespace=namespace, name=name))

        return enqueue

    def _enqueue(self, key: Key) -> None:
        if self._core is not None and key.kind.kind in self._rooms:
            self._core.enqueue(key)

    async def _start(self, settings: kopf.OperatorSettings, **_: Any) -> None:
        _configure(settings)
        server = apiserver.HttpApiServer(
            configuration=await apiserver.load_configuration(),
            time=self._clock,
            measured=self._metrics,
            timeout_s=self._settings.api_timeout,
            silence_s=self._settings.watch_silence,
        )
        fetch = poller.HttpFetch(timeout_s=self._settings.poll_timeout)
        self._core = core.Core(
            configured=self._settings,
            rooms=self._rooms,
            server=server,
            fetch=poller.Fetches(pods=fetch, server=server.text),
            time=self._clock,
            measured=self._metrics,
            lost=_end_at_once,
        )
        endpoint = health.HealthServer(complaint=self._core.complaint, is_ready=self._is_ready, measured=self._metrics)
        self._closing = [endpoint.stop, fetch.close, server.close]
        port = await endpoint.start(self._settings.health_host, self._settings.health_port)
        logs.get().info("started", health_port=port, **{logs.IDENTITY: self._settings.identity})
        self._running = asyncio.create_task(self._core.run(), name="core")
        self._running.add_done_callback(self._ended)
        await self._kinds_served(self._core)

    def _is_ready(self) -> bool:
        return self._core is not None and self._core.is_synced

    async def _kinds_served(self, running: core.Core) -> None:
        """Wait for our CRDs: kopf asks only once, at its start, which resources the cluster has."""
        ours = [one for one in running.reflectors if one.kind in kinds.OURS]
        while not all(one.is_synced for one in ours) and not self._stop.is_set():
            await self._clock.sleep(_WAIT_S)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            return
        self.failure = task.exception()
        logs.get().error("core_crashed", exc_info=self.failure)
        self._stop.set()

    async def _end(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        if self._core is not None:
            await self._core.lease.release()
        for close in self._closing:
            await close()
        logs.get().info("stopped")


def _end_at_once(lost: errors.LeaseLostError) -> None:
    """End the process: whatever is still under way here could write beside the next leader."""
    logs.get().error("lease_lost", **{logs.ERROR: str(lost)})
    sys.stderr.flush()
    os._exit(EXIT_LEASE_LOST)


def _configure(kopf_settings: kopf.OperatorSettings) -> None:
    kopf_settings.posting.enabled = False
    kopf_settings.posting.loggers = False
    # An outage must not end a follower: only the lease decides who goes, and a new process would fare no better.
    kopf_settings.networking.error_backoffs = _Patience()
    # Our kinds are fixed, and the permission to watch CRDs and namespaces would be for this alone.
    kopf_settings.scanning.disabled = True


class _Patience:
    """Seconds between tries of kopf's requests, without end; by default it gives up after a minute."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((1, 1, 2, 3, 5, 8, 13, 21), itertools.repeat(30))


async def _login(**_: Any) -> kopf.ConnectionInfo:
    """Return the same address and credentials that our own client uses."""
    found = await apiserver.load_configuration()
    authorized = await apiserver.authorization(found)
    scheme, _space, token = (authorized or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=found.host,
        ca_path=found.ssl_ca_cert,
        ca_data=found.ca_cert_data,
        insecure=not found.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=found.cert_file,
        private_key_path=found.key_file,
    )
