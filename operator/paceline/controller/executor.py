"""Every write of a plan goes through here: in order, with preconditions, and never to an object that is not ours.

The first write of an object is a create, since a server-side apply would merge into a foreign namesake. A create owns
its fields as an Update by our manager, though, and an apply that leaves a field out removes it only when nobody else
owns it; so the first apply of an object takes that entry over. That is a write too, and makes another version: an apply
that holds for one version only is then decided anew. Whoever saw that version in between, as rollouts see the place of
others in the ledger by it, would else have seen something that nobody had decided on.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, assert_never

from paceline.api import names
from paceline.controller import apiserver, cache, clock, errors, freshness, logs, metrics
from paceline.planning import kinds, plan
from paceline.planning.kinds import Kind
from paceline.planning.plan import Action, Amend, Apply, Create, Delete, Key, Manifest

_MANAGER: Final = {"fieldManager": names.FIELD_MANAGER}
_APPLY: Final = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
_REMEMBERED: Final = 10_000


class Executor:
    """Carries out actions."""

    def __init__(
        self,
        *,
        server: apiserver.ApiServer,
        store: cache.Cache,
        fresh: freshness.Freshness,
        time: clock.Clock,
        measured: metrics.Metrics,
        fence: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            server: where the writes go.
            store: what is known of the objects written.
            fresh: told of each write.
            time: for the age of writes.
            measured: counts writes.
            fence: raises LeaseLostError when this process may not write any more.
        """
        self._server = server
        self._cache = store
        self._fresh = fresh
        self._clock = time
        self._metrics = measured
        self._fence = fence
        self._taken_over: dict[str, None] = {}

    async def carry_out(self, key: Key, actions: Sequence[Action], *, done: Callable[[], None] = lambda: None) -> int:
        """Carry out ``actions`` in order, and call ``done`` after each; return how many.

        Raises:
            ControllerError: of the first that failed; the rest was not tried.
        """
        for action in actions:
            match action:
                case Create():
                    await self._create(key, action.manifest)
                case Apply():
                    await self._apply(key, action)
                case Delete():
                    await self._delete(key, action)
                case Amend():
                    await self._amend(key, action)
                case _:
                    assert_never(action)
            done()
        return len(actions)

    async def patch_status(self, key: Key, resource: Manifest, patch: dict[str, Any]) -> Manifest:
        """Merge ``patch`` into the status of ``resource`` as it was seen; return the answer.

        Raises:
            ControllerError: it changed meanwhile, or the API server refuses it.
        """
        meta = plan.metadata(resource)
        body = {
            "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
            "status": patch,
        }
        path = apiserver.item(key.kind, key.namespace, key.name, subresource="status")
        ticket = self._begin(key, key.kind, resource)
        return await self._finish(
            ticket, "status", "PATCH", path, query=_MANAGER, body=body, content_type=apiserver.MERGE_PATCH
        )

    async def _create(self, key: Key, manifest: Manifest) -> None:
        kind = _kind(manifest)
        _check_visible(manifest)
        ticket = self._begin(key, kind, manifest)
        path = apiserver.collection(kind, plan.metadata(manifest)["namespace"])
        try:
            await self._finish(ticket, "create", "POST", path, query=_MANAGER, body=dict(manifest))
        except errors.AlreadyExistsError:
            await self._adopt(key, kind, manifest)

    async def _adopt(self, key: Key, kind: Kind, manifest: Manifest) -> None:
        """Accept the object that exists when our owner controls it: an earlier pass made it and was not told."""
        meta = plan.metadata(manifest)
        ticket = self._begin(key, kind, manifest)
        try:
            found = await self._server.request("GET", apiserver.item(kind, meta["namespace"], meta["name"]))
        except errors.ControllerError:
            self._fresh.dropped(ticket)
            raise
        if plan.controller_uid(found) != plan.controller_uid(manifest):
            self._fresh.dropped(ticket)
            raise errors.ForeignObjectError(
                f"{kind.kind} {meta['namespace']}/{meta['name']} exists and is not controlled by {key.kind.kind} "
                f"{key.name}; delete or rename it, or rename the {key.kind.kind}."
            )
        self._fresh.written(ticket, found)
        if "deletionTimestamp" in plan.metadata(found):
            raise errors.ConflictError(f"{kind.kind} {meta['name']} is still being deleted")

    async def _apply(self, key: Key, action: Apply) -> None:
        kind = _kind(action.manifest)
        _check_visible(action.manifest)
        meta = plan.metadata(action.manifest)
        path = apiserver.item(kind, meta["namespace"], meta["name"])
        await self._take_over(key, kind, path, action)
        version = action.resource_version
        precondition = {"uid": action.uid} | ({"resourceVersion": version} if version else {})
        body = {**action.manifest, "metadata": {**meta, **precondition}}
        ticket = self._begin(key, kind, action.manifest)
        await self._finish(ticket, "apply", "PATCH", path, query=_APPLY, body=body, content_type=apiserver.APPLY_PATCH)

    async def _amend(self, key: Key, action: Amend) -> None:
        """Patch another's object; the version in the patch makes the API server refuse it if it has changed."""
        path = apiserver.item(action.kind, action.namespace, action.name)
        meta = {**action.patch.get("metadata", {}), "uid": action.uid, "resourceVersion": action.resource_version}
        if action.is_last:
            live = await self._server.request("GET", path)
            entries = [one for one in live["metadata"].get("managedFields") or [] if not _is_our_create(one)]
            # An empty list would leave the entries as they are; a list of one empty entry takes them away.
            meta["managedFields"] = entries or [{}]
        place = (action.kind, action.namespace, action.name)
        ticket = self._fresh.begin(key, place=place, cached=self._cached(*place), now=self._clock.monotonic())
        body = {**action.patch, "metadata": meta}
        await self._finish(
            ticket, "patch", "PATCH", path, query=_MANAGER, body=body, content_type=apiserver.MERGE_PATCH
        )

    async def _delete(self, key: Key, action: Delete) -> None:
        preconditions = {"uid": action.uid}
        if action.resource_version is not None:
            preconditions["resourceVersion"] = action.resource_version
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": action.propagation,
            "preconditions": preconditions,
        }
        place = (action.kind, action.namespace, action.name)
        ticket = self._fresh.begin(key, place=place, cached=self._cached(*place), now=self._clock.monotonic())
        try:
            self._fence()
            await self._server.request("DELETE", apiserver.item(*place), body=body)
        except errors.NotFoundError:
            logs.bind(key).debug("already_gone", child=action.name)
        except BaseException:
            self._fresh.dropped(ticket)
            raise
        self._fresh.deleted(ticket, action.uid, cached=self._cached(*place))
        self._metrics.writes.labels(kind=action.kind.kind, verb="delete").inc()

    def _begin(self, key: Key, kind: Kind, manifest: Manifest) -> freshness.Ticket:
        meta = plan.metadata(manifest)
        place = (kind, meta["namespace"], meta["name"])
        return self._fresh.begin(key, place=place, cached=self._cached(*place), now=self._clock.monotonic())

    def _cached(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        return self._cache.store(kind).get(namespace, name)

    async def _finish(
        self, ticket: freshness.Ticket, told: str, verb: str, path: str, **request: Any
    ) -> dict[str, Any]:
        try:
            self._fence()
            answer = await self._server.request(verb, path, **request)
        except BaseException:
            # Cancellation too: a ticket left open would hold up its key for ever.
            self._fresh.dropped(ticket)
            raise
        self._fresh.written(ticket, answer)
        self._metrics.writes.labels(kind=ticket.kind.kind, verb=told).inc()
        return answer

    async def _take_over(self, key: Key, kind: Kind, path: str, action: Apply) -> None:
        """Turn the field ownership of our create into one of our applies.

        Raises:
            RetakenError: that made another version than the one that the action was decided on.
            ControllerError: it is not what the decision was made on any more, or could not be read or written.
        """
        if action.uid in self._taken_over:
            return
        live = await self._server.request("GET", path)
        meta = live["metadata"]
        if meta["uid"] != action.uid or action.resource_version not in (None, meta["resourceVersion"]):
            raise errors.ConflictError(f"{path} is not what the decision was made on any more")
        entries = meta.get("managedFields") or []
        if not any(_is_our_create(entry) for entry in entries):
            self._remember(action.uid)
            return
        body = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
            {"op": "replace", "path": "/metadata/managedFields", "value": _as_applied(entries)},
        ]
        ticket = self._begin(key, kind, action.manifest)
        await self._finish(
            ticket, "take over", "PATCH", path, query=_MANAGER, body=body, content_type=apiserver.JSON_PATCH
        )
        self._remember(action.uid)
        if action.resource_version is not None:
            raise errors.RetakenError(f"{path} has a new version since its fields were taken over")

    def _remember(self, uid: str) -> None:
        self._taken_over[uid] = None
        if len(self._taken_over) > _REMEMBERED:
            del self._taken_over[next(iter(self._taken_over))]


def _kind(manifest: Manifest) -> Kind:
    return kinds.BY_KIND[manifest["kind"]]


def _check_visible(manifest: Manifest) -> None:
    """Refuse to write what our own watches, narrowed to our label, would never show: its key would wait in vain."""
    meta = plan.metadata(manifest)
    if (meta.get("labels") or {}).get(names.LABEL_MANAGED_BY) != names.FIELD_MANAGER:
        raise ValueError(
            f"{manifest['kind']} {meta['name']} lacks the label {names.LABEL_MANAGED_BY}={names.FIELD_MANAGER}"
        )


def _is_our_create(entry: dict[str, Any]) -> bool:
    return (
        entry.get("manager") == names.FIELD_MANAGER
        and entry.get("operation") == "Update"
        and not entry.get("subresource")
    )


def _as_applied(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return managed fields with our create's entry as an apply's; an apply's own entry, if there is one, is newer."""
    has_applied = any(
        entry.get("manager") == names.FIELD_MANAGER and entry.get("operation") == "Apply" for entry in entries
    )
    kept = [entry for entry in entries if not (has_applied and _is_our_create(entry))]
    return [{**entry, "operation": "Apply"} if _is_our_create(entry) else entry for entry in kept]
