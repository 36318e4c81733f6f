"""An API server of lists and watches in memory, over HTTP: enough for the operator's process, and nearly free.

It keeps the tests' own model of an API server; this file only gives it an address. What is measured against it is the
operator alone, however busy etcd and a real API server would make the machine.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from aiohttp import web

from controller import fakeserver
from paceline.api import base
from paceline.controller import errors
from paceline.planning import kinds

# A watch that says nothing for longer counts as dead.
_BOOKMARK_S: Final = 20.0
_GROUP: Final = {"groupVersion": base.API_VERSION, "version": base.VERSION}
_DISCOVERY: Final[dict[str, dict[str, Any]]] = {
    "/api": {"versions": ["v1"]},
    "/api/v1": {"resources": []},
    "/apis": {"groups": [{"name": base.GROUP, "versions": [_GROUP], "preferredVersion": _GROUP}]},
    f"/apis/{base.API_VERSION}": {
        "resources": [
            {
                "name": kind.plural,
                "kind": kind.kind,
                "singularName": kind.kind.lower(),
                "namespaced": True,
                "verbs": ["get", "list", "watch", "patch"],
            }
            for kind in kinds.OURS
        ]
    },
}
Written = Callable[[str, str, float], None]
"""Told verb, path and time of each write."""


class MemoryApi:
    """The server; ``kept`` is what it holds."""

    def __init__(self, written: Written) -> None:
        self.kept = fakeserver.FakeServer()
        self.others: list[dict[str, Any]] = []
        """Pods of other people, which never change."""
        self._written = written

    async def start(self) -> tuple[web.AppRunner, str]:
        """Serve on a free port of loopback; return what ends it, and the address."""
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path, query = request.path, dict(request.query)
        if path in _DISCOVERY:
            return web.json_response(_DISCOVERY[path])
        if "watch" in query:
            return await self._watch(request, path, query)
        if request.method == "GET" and path not in self.kept.objects and path.rsplit("/", 1)[1] in _PLURALS:
            return web.json_response(self._list(path, query))
        if request.method != "GET":
            self._written(request.method, path, time.monotonic())
        body = json.loads(await request.read() or b"null")
        try:
            found = await self.kept.request(
                request.method, path, query=query, body=body, content_type=request.content_type
            )
        except errors.ControllerError as error:
            status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
            reason = "AlreadyExists" if isinstance(error, errors.AlreadyExistsError) else ""
            return web.json_response({"message": str(error), "reason": reason}, status=status)
        return web.json_response(found)

    def _list(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        objects = sorted(self.kept.objects.items())
        own = [one for where, one in objects if fakeserver._within(where, path)]  # noqa: SLF001 - the model's own rule
        found = own + (self.others if "fieldSelector" in query else [])
        begin = int(query.get("continue", "0"))
        end = begin + int(query.get("limit", len(found) or 1))
        following = str(end) if end < len(found) else ""
        version = str(self.kept._last)  # noqa: SLF001 - as its own lists say
        meta = {"resourceVersion": version, "continue": following}
        return {"metadata": meta, "items": found[begin:end]}

    async def _watch(self, request: web.Request, path: str, query: dict[str, str]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):  # whoever watched has gone
            async for event in self._events(path, query):
                await response.write(json.dumps(event).encode() + b"\n")
        return response

    async def _events(self, path: str, query: dict[str, str]) -> AsyncIterator[dict[str, Any]]:
        told = aiter(self.kept.stream(path, query={"resourceVersion": query.get("resourceVersion") or "0"}))
        coming = asyncio.ensure_future(anext(told))
        try:
            while True:
                done, _ = await asyncio.wait([coming], timeout=_BOOKMARK_S)
                if done:
                    yield coming.result()
                    coming = asyncio.ensure_future(anext(told))
                else:
                    version = query.get("resourceVersion") or "0"
                    yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}}
        finally:
            coming.cancel()


_PLURALS: Final = frozenset(kind.plural for kind in (*kinds.BY_KIND.values(), kinds.NODE)) | {
    "persistentvolumeclaims",
    "httproutes",
}
_STATUS: Final = ((errors.NotFoundError, 404), (errors.ConflictError, 409), (errors.RefusedError, 422))
