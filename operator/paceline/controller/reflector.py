"""List and watch: keeps one kind's part of the cache equal to the cluster.

A list replaces the store, so that what vanished while no watch was open is noticed and its owner told. The watch goes
on from its last version, bookmarks included; a version that is too old (410) leads to a new list. A watch whose peer
has died says nothing at all: it is given up when nothing came for too long, and at once when a write of ours is missed.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from paceline.api import names
from paceline.controller import apiserver, clock, errors, freshness, logs, metrics
from paceline.planning import kinds
from paceline.planning.kinds import Kind

# What a page takes while it is read stays with the process for good: 24 MiB after 5,000 pods by 500, 10 MiB by 100.
_PAGE: Final = 100
_LIST_TIMEOUT_S: Final = 60.0
# The server ends a watch itself after about five minutes; spread out, not all of ours at once.
_WATCH_S: Final = (240, 360)
_RETRY_S: Final = (0.5, 30.0)
# A watch that ends sooner would have us ask again and again at full speed.
_SHORTEST_WATCH_S: Final = 1.0


class Sink(Protocol):
    """What keeps the objects."""

    def slim(self, kind: Kind, manifest: dict[str, Any]) -> dict[str, Any] | None:
        """Return what is worth keeping of an object, None for nothing: a list is held whole until its last page."""
        ...

    def put(self, kind: Kind, manifest: dict[str, Any]) -> None:
        """Take in an added or modified object."""
        ...

    def remove(self, kind: Kind, manifest: dict[str, Any]) -> None:
        """Take in a deleted object."""
        ...

    def replace(self, kind: Kind, namespace: str | None, manifests: Sequence[dict[str, Any]], *, mark: int) -> None:
        """Take in a whole list; ``mark`` is what ``Freshness.list_begins`` gave before it was asked for."""
        ...


def selector(kind: Kind) -> str:
    """Return the label selector of a kind: all of our own resources and of others', and the children that we made."""
    return "" if kind in (*kinds.OURS, *kinds.FOREIGN) else f"{names.LABEL_MANAGED_BY}={names.FIELD_MANAGER}"


class Reflector:
    """One kind, in one namespace or in all."""

    def __init__(  # noqa: PLR0913 - collaborators, each used
        self,
        *,
        kind: Kind,
        namespace: str | None,
        server: apiserver.ApiServer,
        store: Sink,
        fresh: freshness.Freshness,
        time: clock.Clock,
        measured: metrics.Metrics,
        selection: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare; ``run`` does the work. ``selection`` is a query of selectors instead of the kind's own."""
        self.kind = kind
        self.namespace = namespace
        self.is_synced = False
        self.is_refused = False
        """Whether the last list was denied: the permission may come later."""
        self.told_to = 0
        """Version up to which everything was told, as a number: a list's, an event's or a bookmark's."""
        self.is_absent = False
        """Whether the cluster had no such kind when it was last asked."""
        self._server = server
        self._cache = store
        self._fresh = fresh
        self._clock = time
        self._metrics = measured
        self._version: str | None = None
        self._open: asyncio.Timeout | None = None
        self._failures = 0
        wanted = selector(kind)
        self._selected = ({"labelSelector": wanted} if wanted else {}) if selection is None else dict(selection)
        self._log = logs.get().bind(**{logs.KIND: kind.kind, logs.NAMESPACE: namespace or ""})

    async def run(self) -> None:
        """Keep the cache equal to the cluster, for ever."""
        while True:
            began = self._clock.monotonic()
            is_new = self._version is None
            try:
                if self._version is None:
                    await self._list()
                began = self._clock.monotonic()
                await self._watch(self._version or "")
                self._failures = 0
                if self._clock.monotonic() - began < _SHORTEST_WATCH_S:
                    await self._clock.sleep(_SHORTEST_WATCH_S)
            except errors.ControllerError as error:
                if isinstance(error, errors.GoneError) and not is_new:
                    # Listed at once; but a list that is too old by itself would be repeated at full speed.
                    self._version = None
                    continue
                if self._clock.monotonic() - began > _RETRY_S[1]:
                    # It stood for long: a balancer that cuts what is idle must not make us ever slower to come back.
                    self._failures = 0
                await self._recover(error)

    def relist(self) -> None:
        """Start from a new list, at once: the watch that is open may be one that will never say anything again."""
        self._version = None
        if self._open is not None:
            self._open.reschedule(0.0)
            self._open = None

    async def _recover(self, error: errors.ControllerError) -> None:
        """Wait, then list again: after an error nobody knows what the watch has missed."""
        self._version = None
        self.is_refused = isinstance(error, errors.RefusedError)
        self.is_absent = isinstance(error, errors.NotFoundError)
        delay = min(_RETRY_S[1], _RETRY_S[0] * 2.0**self._failures) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        self._failures = min(self._failures + 1, 16)
        self._log.warning("watch_failed", **{logs.ERROR: str(error), logs.RETRY_S: round(delay, 2)})
        await self._clock.sleep(delay)

    async def _list(self) -> None:
        mark = self._fresh.list_begins()
        query = {"limit": str(_PAGE), **self._selected}
        objects: list[dict[str, Any]] = []
        while True:
            page = await self._server.request(
                "GET", apiserver.collection(self.kind, self.namespace), query=query, timeout_s=_LIST_TIMEOUT_S
            )
            slimmed = (self._cache.slim(self.kind, self._whole(one)) for one in page.get("items") or ())
            objects.extend(one for one in slimmed if one is not None)
            following = page["metadata"].get("continue")
            if not following:
                break
            query = {**query, "continue": following}
        self._cache.replace(self.kind, self.namespace, objects, mark=mark)
        self._version = page["metadata"]["resourceVersion"]
        self._note(page["metadata"])
        self._metrics.relists.labels(kind=self.kind.kind).inc()
        self._log.info("cache_listed", **{logs.COUNT: len(objects), logs.REVISION: self._version})
        self.is_synced, self.is_refused, self.is_absent = True, False, False

    async def _watch(self, version: str) -> None:
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(*_WATCH_S)),  # noqa: S311 - jitter
            **self._selected,
        }
        try:
            async with asyncio.timeout(None) as self._open:
                async for event in self._server.stream(apiserver.collection(self.kind, self.namespace), query=query):
                    self._take(event)
                    self._failures = 0
        except TimeoutError:
            self._log.info("watch_given_up")
        finally:
            self._open = None

    def _take(self, event: Mapping[str, Any]) -> None:
        told, manifest = event.get("type"), event.get("object") or {}
        if told == "ERROR":
            raise errors.from_status(int(manifest.get("code") or 500), manifest)
        # A new list was asked for a moment ago: what is still told here must not put it off.
        if self._version is not None:
            self._version = manifest["metadata"]["resourceVersion"]
        if told in ("ADDED", "MODIFIED"):
            self._cache.put(self.kind, self._whole(manifest))
        elif told == "DELETED":
            self._cache.remove(self.kind, self._whole(manifest))
        # Only now: a pass in another thread may look at any moment.
        self._note(manifest["metadata"])

    def _note(self, meta: Mapping[str, Any]) -> None:
        version = str(meta["resourceVersion"])
        self.told_to = max(self.told_to, int(version) if version.isdigit() else 0)

    def _whole(self, manifest: dict[str, Any]) -> dict[str, Any]:
        # The items of a list say neither; rooms make owner references of them.
        manifest.setdefault("apiVersion", self.kind.api_version)
        manifest.setdefault("kind", self.kind.kind)
        return manifest
