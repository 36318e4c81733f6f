"""A reverse proxy before the API server that counts writes and kills the operator right after the n-th.

The operator talks plain HTTP to it; TLS and credentials of the kubeconfig are used on the other side. Watches are
passed on line by line as they come. A write counts when the API server has answered it well: then the world has
changed, and the operator either never learns of it (``BEFORE_ANSWER``) or just has (``AFTER_ANSWER``).
"""

import asyncio
import contextlib
import enum
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

import aiohttp
import yaml
import yarl
from aiohttp import web
from kubernetes.aio import client
from kubernetes.aio.client import rest

from paceline.controller import apiserver

_MUTATING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length"})
# Renewals come by the clock, and events are told about writes: neither is a step of a plan.
_UNCOUNTED = ("/leases", "/events")


class Moment(enum.Enum):
    """When the operator dies, seen from the n-th write."""

    BEFORE_ANSWER = "before the answer"
    AFTER_ANSWER = "after the answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One request, as a rule a write, and how it was answered."""

    verb: str
    path: str
    status: int
    name: str = ""
    """Of the object, also where the path is the collection's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One right of the API server's roles, as a request uses it."""

    verb: str
    group: str
    resource: str


_NAME = web.RequestKey("name", str)
ProxyT = TypeVar("ProxyT", bound="KillProxy")


def usage(method: str, path: str, *, is_watch: bool) -> Usage:
    """Return the right that a request needs; discovery has the resource ``""``."""
    parts = path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" and len(parts) > 1 else ""
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"]:
        rest = rest[2:]
    resource = "/".join([rest[0], *rest[2:]]) if rest else ""
    read = "watch" if is_watch else "get" if len(rest) > 1 or not rest else "list"
    verbs = {"GET": read, "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    return Usage(verb=verbs[method], group=group, resource=resource)


class KillProxy:
    """The proxy; one at a time may be armed."""

    def __init__(self, configuration: client.Configuration, *, impersonate: str | None = None) -> None:
        self._configuration = configuration
        self._impersonate = impersonate
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=rest.RESTClientObject(configuration).ssl_context),
            auto_decompress=False,
        )
        self._armed: tuple[int, Moment, Callable[[], int]] | None = None
        self._since_armed = 0
        self.writes: list[Write] = []
        self.refused: list[Write] = []
        self.asked: set[Usage] = set()
        self.forbidden: list[Write] = []
        self.killed = asyncio.Event()
        self._is_last = False

    def arm(self, *, after_writes: int, moment: Moment, pid: Callable[[], int]) -> None:
        """Kill the process that ``pid`` names at the so-manieth write from now on."""
        self._armed = (after_writes, moment, pid)
        self._since_armed = 0
        self._is_last = False
        self.killed.clear()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on; none of a process whose last write was just passed on."""
        if self._is_last:
            await self.killed.wait()
            raise ConnectionResetError
        self.asked.add(usage(request.method, request.path, is_watch="watch" in request.query))
        body = await request.read()
        request[_NAME] = _named(request, body)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        headers.pop("Authorization", None)
        if self._impersonate:
            headers["Impersonate-User"] = self._impersonate
        authorized = await apiserver.authorization(self._configuration)
        if authorized:
            headers["Authorization"] = authorized
        # As it came: a label selector must not be quoted twice.
        upstream = yarl.URL(self._configuration.host.rstrip("/") + request.raw_path, encoded=True)
        async with self._session.request(
            request.method,
            upstream,
            headers=headers,
            data=body or None,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            allow_redirects=False,
        ) as answer:
            return await self._pass_back(request, answer)

    async def _pass_back(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        moment = self._count(request, answer.status)
        if answer.status == HTTPStatus.FORBIDDEN:
            self.forbidden.append(Write(verb=request.method, path=request.path, status=answer.status))
        if moment is Moment.BEFORE_ANSWER:
            self._kill()
        response = web.StreamResponse(
            status=answer.status,
            headers={name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP},
        )
        # The operator may be dead by now, or have ended a watch: its own business.
        with contextlib.suppress(ConnectionError):
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
        if moment is Moment.AFTER_ANSWER:
            self._kill()
        return response

    def _count(self, request: web.Request, status: int) -> Moment | None:
        if request.method not in _MUTATING or any(part in request.path for part in _UNCOUNTED):
            return None
        write = Write(verb=request.method, path=request.path, status=status, name=request[_NAME])
        if status >= 300:
            self.refused.append(write)
            return None
        self.writes.append(write)
        self._since_armed += 1
        if self._armed is None or self._since_armed != self._armed[0]:
            return None
        self._is_last = True
        return self._armed[1]

    def _kill(self) -> None:
        if self._armed is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._armed[2](), signal.SIGKILL)
        self._armed = None
        self.killed.set()

    async def close(self) -> None:
        """Close the connections to the API server."""
        await self._session.close()


def _named(request: web.Request, body: bytes) -> str:
    """Return the name of the object that a request is about; of a list or discovery, the last part of its path."""
    if request.method == "POST":
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return str(json.loads(body)["metadata"]["name"])
    return request.path.removesuffix("/status").rsplit("/", 1)[-1]


@contextlib.asynccontextmanager
async def kill_proxy(
    kubeconfig: Path, *, folder: Path, impersonate: str | None = None
) -> AsyncIterator[tuple[KillProxy, Path]]:
    """Serve a proxy; yield it and the kubeconfig that leads through it.

    Args:
        kubeconfig: of the API server.
        folder: where the new kubeconfig is written.
        impersonate: user that the requests are made as, such as ``system:serviceaccount:NAMESPACE:NAME``.
    """
    configuration = client.Configuration()
    await apiserver.config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    async with served(KillProxy(configuration, impersonate=impersonate), folder=folder) as opened:
        yield opened


@contextlib.asynccontextmanager
async def served(proxy: ProxyT, *, folder: Path) -> AsyncIterator[tuple[ProxyT, Path]]:
    """Serve a proxy of this kind; yield it and the kubeconfig that leads through it, written to ``folder``."""
    app = web.Application(client_max_size=16 * 1024**2)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    path = folder / "proxied.kubeconfig"
    path.write_text(yaml.safe_dump(_kubeconfig(f"http://127.0.0.1:{runner.addresses[0][1]}")))
    try:
        yield proxy, path
    finally:
        await runner.cleanup()
        await proxy.close()


def _kubeconfig(server: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "proxied",
        "clusters": [{"name": "proxied", "cluster": {"server": server}}],
        "users": [{"name": "proxied", "user": {}}],
        "contexts": [{"name": "proxied", "context": {"cluster": "proxied", "user": "proxied"}}],
    }
