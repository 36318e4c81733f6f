"""An API server in memory, as far as the controller can tell: versions, watches, preconditions, faults on demand."""

import asyncio
import copy
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from paceline.controller import apiserver, errors

Fault = Callable[[str, str], BaseException | None]
"""Given verb and path, what goes wrong; None lets the request through."""


def refusal(
    status: int, *, reason: str = "", message: str = "no", retry_after: str | None = None
) -> errors.ControllerError:
    """Return the error of an HTTP status."""
    return errors.from_status(status, {"reason": reason, "message": message}, retry_after=retry_after)


class FakeServer:
    """Keeps objects by path; every write makes a version and wakes the watches of its collection."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.faults: deque[Fault] = deque()
        self.lost_answers: deque[str] = deque()
        self.log: list[tuple[int, str, dict[str, Any]]] = []  # version, path, event
        self.compacted = 0
        self.expires = False
        self.denied: dict[str, BaseException] = {}  # collections that may not be listed, and the answer
        self.held: set[str] = set()  # collections whose watches tell nothing for now
        self._versions = itertools.count(1)
        self._last = 0
        self._changed = asyncio.Event()
        self._broken = 0

    @property
    def writes(self) -> list[tuple[str, str]]:
        """The requests that change something."""
        return [request for request in self.requests if request[0] != "GET"]

    async def request(
        self,
        verb: str,
        path: str,
        *,
        query: apiserver.Query | None = None,
        body: Any = None,
        content_type: str = apiserver.JSON,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Answer as the API server would, unless a fault is due."""
        del timeout_s
        await asyncio.sleep(0)
        self.requests.append((verb, path))
        fault = self.faults.popleft()(verb, path) if self.faults else None
        if fault is not None or path in self.denied:
            raise fault or self.denied[path]
        answer = self._answer(verb, path, query or {}, copy.deepcopy(body), content_type)
        if verb != "GET" and self.lost_answers:
            raise errors.UnavailableError(self.lost_answers.popleft())
        return copy.deepcopy(answer)

    async def stream(self, path: str, *, query: apiserver.Query) -> AsyncIterator[dict[str, Any]]:
        """Yield what happened since a version, and what happens."""
        self.requests.append(("WATCH", path))
        seen, broken = int(query["resourceVersion"]), self._broken
        if self.expires or seen < self.compacted:
            yield {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
            return
        while self._broken == broken:
            for version, where, event in tuple(self.log):
                if version > seen and _within(where, path) and path not in self.held:
                    seen = version
                    yield copy.deepcopy(event)
            self._changed.clear()
            await self._changed.wait()

    def break_watches(self, *, forget: bool = False) -> None:
        """End every watch; with ``forget``, versions up to now are too old to watch from."""
        self._broken += 1
        if forget:
            self.compacted = self._last + 1
            next(self._versions)
            self._last += 1
        self._changed.set()

    def refuse_watches(self) -> None:
        """End every watch; from now on every version is too old to watch from."""
        self.expires = True
        self.break_watches()

    def accept_watches(self) -> None:
        """Let watches be as ever."""
        self.expires = False

    def release(self) -> None:
        """Let held watches tell what they held back."""
        self.held.clear()
        self._changed.set()

    def put(self, path: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """Store an object as another client would."""
        told = "MODIFIED" if path in self.objects else "ADDED"
        version = self._tick()
        meta = manifest.setdefault("metadata", {})
        meta.setdefault("uid", f"uid-{version}")
        meta.setdefault("name", path.rsplit("/", 1)[1])
        if "/namespaces/" in path:
            meta.setdefault("namespace", path.split("/namespaces/")[1].split("/", maxsplit=1)[0])
        meta["resourceVersion"] = str(version)
        self.objects[path] = manifest
        self._tell(version, path, told, manifest)
        return manifest

    def drop(self, path: str, *, silently: bool = False) -> None:
        """Remove an object; ``silently`` so that no watch ever tells."""
        gone = self.objects.pop(path)
        version = self._tick()
        if not silently:
            self._tell(
                version, path, "DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(version)}}
            )

    def _answer(self, verb: str, path: str, query: Any, body: Any, content_type: str) -> dict[str, Any]:
        if verb == "POST":
            return self._create(f"{path}/{body['metadata']['name']}", body)
        where = path.removesuffix("/status")
        if verb == "GET" and where not in self.objects and _is_collection(path):
            return self._list(path, query)
        if where not in self.objects:
            raise refusal(404, reason="NotFound")
        live = self.objects[where]
        if verb == "GET":
            return live
        if verb == "DELETE":
            _check(live, body.get("preconditions") or {})
            self.drop(where)
            return {"kind": "Status", "status": "Success"}
        _check(live, (body.get("metadata") or {}) if isinstance(body, dict) else {})
        return self._change(where, path, body, content_type)

    def _create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path in self.objects:
            raise refusal(409, reason="AlreadyExists")
        body["metadata"].pop("resourceVersion", None)
        body["metadata"]["managedFields"] = [{"manager": "paceline", "operation": "Update"}]
        return self.put(path, body)

    def _change(self, where: str, path: str, body: Any, content_type: str) -> dict[str, Any]:
        after = copy.deepcopy(self.objects[where])
        if content_type == apiserver.JSON_PATCH:
            for step in body:
                if step["op"] == "test" and after["metadata"]["resourceVersion"] != step["value"]:
                    raise refusal(422, message="test failed")
                if step["op"] == "replace":
                    after["metadata"]["managedFields"] = step["value"]
        elif path.endswith("/status"):
            after["status"] = _merged(after.get("status") or {}, body["status"])
        elif content_type == apiserver.APPLY_PATCH:
            after = {**after, **body, "metadata": {**after["metadata"], **body["metadata"]}}
        elif content_type == apiserver.MERGE_PATCH:
            after = _merged(after, body)
        else:
            after = {**body, "metadata": {**after["metadata"], **body["metadata"]}}
        after["metadata"]["resourceVersion"] = self.objects[where]["metadata"]["resourceVersion"]
        if after == self.objects[where]:
            return after
        return self.put(where, after)

    def _list(self, path: str, query: Any) -> dict[str, Any]:
        del query
        found = [copy.deepcopy(one) for where, one in sorted(self.objects.items()) if _within(where, path)]
        return {"metadata": {"resourceVersion": str(self._last)}, "items": found}

    def _tick(self) -> int:
        self._last = next(self._versions)
        return self._last

    def _tell(self, version: int, path: str, told: str, manifest: dict[str, Any]) -> None:
        self.log.append((version, path, {"type": told, "object": copy.deepcopy(manifest)}))
        self._changed.set()


def _within(where: str, path: str) -> bool:
    """Return whether an object lies in a collection, of one namespace or of all."""
    if where.rsplit("/", 1)[0] == path:
        return True
    plural = path.rsplit("/", 1)[1]
    return where.startswith(path.removesuffix(plural) + "namespaces/") and where.split("/")[-2] == plural


def _is_collection(path: str) -> bool:
    tail = path.split("/namespaces/")[1] if "/namespaces/" in path else ""
    return tail.count("/") < 2


def _check(live: dict[str, Any], wanted: dict[str, Any]) -> None:
    for field in ("uid", "resourceVersion"):
        if field in wanted and wanted[field] != live["metadata"][field]:
            raise refusal(409, reason="Conflict", message=f"{field} differs")


def _merged(before: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    after = dict(before)
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        elif isinstance(value, dict) and isinstance(after.get(name), dict):
            after[name] = _merged(after[name], value)
        else:
            after[name] = value
    return after
