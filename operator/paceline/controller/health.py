"""What the kubelet and Prometheus ask: /healthz, /readyz, /metrics.

Served by the operator's own event loop: a loop that is blocked does not answer, and that is the right answer. An outage
of the API server fails neither, since a restart would not help it.
"""

from collections.abc import Callable

import prometheus_client
from aiohttp import web

from paceline.controller import metrics


class HealthServer:
    """The HTTP endpoint."""

    def __init__(
        self, *, complaint: Callable[[], str | None], is_ready: Callable[[], bool], measured: metrics.Metrics
    ) -> None:
        """Prepare.

        Args:
            complaint: says why the process should be restarted, or None.
            is_ready: whether the cache has synced.
            measured: what /metrics shows.
        """
        self._complaint = complaint
        self._is_ready = is_ready
        self._metrics = measured
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port, which the system picks when ``port`` is 0."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._exposition)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        complaint = self._complaint()
        return web.Response(text=complaint or "ok", status=503 if complaint else 200)

    async def _readyz(self, _: web.Request) -> web.Response:
        is_ready = self._is_ready()
        return web.Response(text="ok" if is_ready else "the cache has not synced yet", status=200 if is_ready else 503)

    async def _exposition(self, _: web.Request) -> web.Response:
        return web.Response(
            body=self._metrics.exposition(), headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST}
        )
