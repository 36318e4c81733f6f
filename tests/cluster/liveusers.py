"""What engines would count of users' traffic, for played pods: one address that answers as vLLM's /metrics does."""

import contextlib
import hashlib
import time
from collections.abc import AsyncIterator

from aiohttp import web

from rollout import builders

_PORT = 8000


def address(namespace: str) -> str:
    """Return a loopback address of a namespace's own: engines of all lives listen on one port."""
    digest = hashlib.sha256(namespace.encode()).digest()
    return f"127.{digest[0] or 1}.{digest[1]}.{digest[2] or 1}"


@contextlib.asynccontextmanager
async def using(namespace: str, *, accepted_a_draft: float) -> AsyncIterator[None]:
    """Answer for all engines of a namespace, whose users accept so much of each draft."""
    users = builders.Users(accepted_a_draft=accepted_a_draft, drafts_a_second=200.0)
    began = time.time()

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=builders.metrics(users, builders.NOW + time.time() - began))

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address(namespace), _PORT).start()
    try:
        yield
    finally:
        await runner.cleanup()
