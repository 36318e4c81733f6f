"""A reverse proxy before the API server that does to requests and watches what networks and overload do.

By default everything passes. ``every_call`` makes each call fail once before it may succeed, by one fault or by several
in turn; watches can be cut, silenced or declared expired while objects come and go behind the operator's back.
"""

import asyncio
import contextlib
import enum
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import aiohttp
from aiohttp import web
from kubernetes.aio import client

import killproxy
from paceline.controller import apiserver


class Fault(enum.Enum):
    """What becomes of one request."""

    THROTTLED = 429  # with Retry-After
    BROKEN = 500
    UNAVAILABLE = 503
    TIMED_OUT = 504
    CONFLICT = 409
    RESET = "the connection breaks before anything was done"
    LOST = "carried out, and the connection breaks before the answer"
    MISLEADING = "carried out, and answered 504"
    HUNG = "nothing is done, and no answer comes"


class Watches(enum.Enum):
    """What watches are like."""

    OPEN = "as the API server has them"
    SILENT = "connected, and nothing is ever told"
    EXPIRED = "too old to go on from: 410"


_UNANSWERED = web.RequestKey("unanswered", bool)
Choose = Callable[[web.Request], Fault | None]
_REASONS = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout", 409: "Conflict"}


def nothing(_request: web.Request) -> Fault | None:
    """Let every request through."""
    return None


class EveryCall:
    """Lets each call fail once, then succeed, then fail again: by ``faults`` in turn."""

    def __init__(self, *faults: Fault) -> None:
        self._faults: Iterator[Fault] = itertools.cycle(faults)
        self._times: Counter[tuple[str, str]] = Counter()

    def __call__(self, request: web.Request) -> Fault | None:
        """Return the fault of this request; none of events, which are posted once and may be lost."""
        if request.path.endswith("/events"):
            return None
        call = (request.method, request.path + ("?watch" if "watch" in request.query else ""))
        self._times[call] += 1
        # A renewal that was carried out unheard makes the next one conflict: when more than every third failed, losing
        # the lease would be right.
        if self._times[call] % (3 if "/leases" in request.path else 2) != 1:
            return None
        fault = next(self._faults)
        # A read never conflicts.
        return None if fault is Fault.CONFLICT and request.method == "GET" else fault


class FaultProxy(killproxy.KillProxy):
    """The proxy."""

    def __init__(self, configuration: client.Configuration) -> None:
        super().__init__(configuration)
        self.choose: Choose = nothing
        self.watches = Watches.OPEN
        self.injected: Counter[Fault] = Counter()
        self.paths: set[tuple[str, str]] = set()
        """Method and path of each request that met a fault."""
        self.silenced: list[str] = []
        """Path of each watch that was ever told nothing."""
        self.expired: set[str] = set()
        """Paths of the watches that were answered 410."""
        self._ending = asyncio.Event()
        self._streams: dict[asyncio.Task[web.StreamResponse], str] = {}

    def cut_watches(self) -> None:
        """End every open watch as a broken connection does."""
        for task in tuple(self._streams):
            task.cancel()

    def end_silent_watches(self) -> None:
        """End every watch that is told nothing as the API server ends it when its time is over."""
        self._ending.set()
        self._ending = asyncio.Event()

    async def silence_watches(self, *plurals: str) -> set[str]:
        """Let open watches, of these kinds or of all, stay so and tell nothing; one opened later is as ever.

        Returns their paths, when each of them has come back to silence. By then an operator that is quick to give up
        may have left some again.
        """
        meant = [task for task, path in self._streams.items() if not plurals or path.rsplit("/", 1)[-1] in plurals]
        paths = {self._streams[task] for task in meant}
        before, self.watches = len(self.silenced), Watches.SILENT
        for task in meant:
            task.cancel()
        async with asyncio.timeout(60):
            while len(self.silenced) < before + len(meant) or not paths <= set(self.silenced[before:]):
                await asyncio.sleep(0.05)
        self.watches = Watches.OPEN
        return paths

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on, or let it meet its fault."""
        is_watch = "watch" in request.query
        if is_watch and self.watches is not Watches.OPEN:
            return await self._stream(request, self._withheld(request))
        fault = self.choose(request)
        if fault is not None:
            self.injected[fault] += 1
            self.paths.add((request.method, request.path))
            return await self._fail(request, fault)
        if is_watch:
            return await self._stream(request, super().handle(request))
        return await super().handle(request)

    async def _stream(self, request: web.Request, answer: object) -> web.StreamResponse:
        """Serve a watch such that it can be cut."""
        task: asyncio.Task[web.StreamResponse] = asyncio.ensure_future(answer)
        self._streams[task] = request.path
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():  # the operator went away
                task.cancel()
                raise
            return _broken(request)
        finally:
            del self._streams[task]

    async def _withheld(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if self.watches is Watches.EXPIRED:
            self.expired.add(request.path)
            event = {"type": "ERROR", "object": _status(410, "Expired", "too old resource version")}
            await response.write(json.dumps(event).encode() + b"\n")
            await response.write_eof()
            return response
        self.silenced.append(request.path)
        await self._ending.wait()
        await response.write_eof()
        return response

    async def _fail(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault is Fault.HUNG:
            await asyncio.Event().wait()
        if fault in (Fault.LOST, Fault.MISLEADING):
            request[_UNANSWERED] = True
            await super().handle(request)
        if fault in (Fault.RESET, Fault.LOST):
            return _broken(request)
        code = 504 if fault is Fault.MISLEADING else fault.value
        headers = {"Retry-After": "1"} if fault is Fault.THROTTLED else {}
        return web.json_response(_status(code, _REASONS[code], f"injected: {fault.name}"), status=code, headers=headers)

    async def _pass_back(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        if not request.get(_UNANSWERED):
            return await super()._pass_back(request, answer)
        self._count(request, answer.status)
        if "watch" not in request.query:
            await answer.read()
        return web.Response()


def _status(code: int, reason: str, message: str) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def _broken(request: web.Request) -> web.Response:
    """Break the connection of a request; what is returned is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def duplicates(writes: Sequence[killproxy.Write]) -> list[tuple[str, str]]:
    """Return collection and name of objects that were made while the one of that name was not yet deleted."""
    alive: set[tuple[str, str]] = set()
    twice = []
    for one in writes:
        if one.verb == "POST":
            place = (one.path, one.name)
            twice += [place] if place in alive else []
            alive.add(place)
        elif one.verb == "DELETE":
            alive.discard((one.path.rsplit("/", 1)[0], one.name))
    return twice


@contextlib.asynccontextmanager
async def fault_proxy(kubeconfig: Path, *, folder: Path) -> AsyncIterator[tuple[FaultProxy, Path]]:
    """Serve a proxy; yield it and the kubeconfig that leads through it."""
    configuration = client.Configuration()
    await apiserver.config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    async with killproxy.served(FaultProxy(configuration), folder=folder) as opened:
        yield opened
