"""One leader, by a Lease. Whoever cannot renew in time stops writing before another may start.

Another's lease is judged by how long *we* have seen it unchanged on our monotonic clock, never by the time written in
it: clocks of two machines differ. Our own is held for the renew deadline, counted from before the renewal was sent.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from paceline.controller import apiserver, clock, errors, logs, metrics, settings
from paceline.planning import conditions
from paceline.planning.kinds import Kind

LEASE: Final = Kind(api_version="coordination.k8s.io/v1", kind="Lease", plural="leases")


class Lease:
    """This process's claim to be the leader."""

    def __init__(
        self,
        *,
        server: apiserver.ApiServer,
        configured: settings.Settings,
        time: clock.Clock,
        measured: metrics.Metrics,
    ) -> None:
        """Start as a follower."""
        self._server = server
        self._settings = configured
        self._clock = time
        self._metrics = measured
        self._held_until: float | None = None
        self._held: dict[str, Any] = {}
        self._seen: tuple[Mapping[str, Any], float] = ({}, 0.0)
        self._item = apiserver.item(LEASE, configured.namespace, configured.lease_name)

    @property
    def is_held(self) -> bool:
        """Whether this process may write now."""
        return self._held_until is not None and self._clock.monotonic() < self._held_until

    def check(self) -> None:
        """Raise LeaseLostError unless the lease is held now; asked before every write."""
        if not self.is_held:
            raise errors.LeaseLostError("this process is not the leader, so it must not write")

    async def acquire(self) -> None:
        """Wait until this process is the leader."""
        while True:
            try:
                if await self._try():
                    break
            except errors.ControllerError as error:
                logs.get().warning("lease_unreadable", **{logs.ERROR: str(error)})
            await self._clock.sleep(self._settings.lease_retry_period)
        self._metrics.leader.set(1)
        logs.get().info("lease_acquired", **{logs.IDENTITY: self._settings.identity})

    async def hold(self) -> None:
        """Renew for ever.

        Raises:
            LeaseLostError: the renew deadline has passed, or another took the lease.
        """
        while True:
            await self._clock.sleep(self._settings.lease_retry_period)
            left = (self._held_until or 0.0) - self._clock.monotonic()
            try:
                async with asyncio.timeout(max(left, 0.0)):
                    await self._renew()
            except TimeoutError as error:
                self._lose(f"no renewal within {self._settings.lease_renew_deadline}s", error)
            except errors.TransientError as error:
                logs.get().warning("lease_renewal_failed", **{logs.ERROR: str(error)})
                if not self.is_held:
                    self._lose(str(error), error)
            except errors.PermanentError as error:
                self._lose(str(error), error)

    async def release(self) -> None:
        """Let another lead at once; called when this process ends in good order."""
        if not self.is_held:
            return
        self._held_until = None
        self._metrics.leader.set(0)
        try:
            await self._give_up(self._held)
        except errors.ConflictError:
            await self._give_up_as_found()
        except errors.ControllerError as error:
            logs.get().warning("lease_not_released", **{logs.ERROR: str(error)})

    async def _give_up(self, held: dict[str, Any]) -> None:
        await self._put({**held, "spec": {**held["spec"], "holderIdentity": ""}})

    async def _give_up_as_found(self) -> None:
        """Release what a renewal of ours has changed: one that was cancelled on its way may have arrived."""
        try:
            found = await self._server.request("GET", self._item)
            if (found.get("spec") or {}).get("holderIdentity") == self._settings.identity:
                await self._give_up(found)
        except errors.ControllerError as error:
            logs.get().warning("lease_not_released", **{logs.ERROR: str(error)})

    def _lose(self, why: str, cause: BaseException) -> None:
        self._held_until = None
        self._metrics.leader.set(0)
        raise errors.LeaseLostError(why) from cause

    async def _try(self) -> bool:
        began = self._clock.monotonic()
        try:
            found = await self._server.request("GET", self._item)
        except errors.NotFoundError:
            return await self._create(began)
        spec = found.get("spec") or {}
        if self._seen[0] != spec:
            self._seen = (spec, began)
        is_free = not spec.get("holderIdentity") or spec["holderIdentity"] == self._settings.identity
        if not is_free and began - self._seen[1] < float(spec.get("leaseDurationSeconds") or 0):
            return False
        return await self._take(found, began)

    async def _create(self, began: float) -> bool:
        body = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._settings.lease_name, "namespace": self._settings.namespace},
            "spec": self._spec({}),
        }
        try:
            path = apiserver.collection(LEASE, self._settings.namespace)
            self._held = await self._server.request("POST", path, body=body)
        except errors.ConflictError:
            return False
        self._held_until = began + self._settings.lease_renew_deadline
        return True

    async def _take(self, found: dict[str, Any], began: float) -> bool:
        try:
            self._held = await self._put({**found, "spec": self._spec(found.get("spec") or {})})
        except errors.ConflictError:
            return False
        self._held_until = began + self._settings.lease_renew_deadline
        return True

    async def _renew(self) -> None:
        began = self._clock.monotonic()
        try:
            self._held = await self._put({**self._held, "spec": self._spec(self._held["spec"])})
        except errors.ConflictError as error:
            found = await self._server.request("GET", self._item)
            holder = (found.get("spec") or {}).get("holderIdentity")
            if holder != self._settings.identity:
                self._lose(f"the lease is held by {holder or 'nobody'}", error)
            # Somebody edited an annotation, or our own renewal arrived though its answer did not. Kept before the next
            # try: when that fails too, the one after it must not meet the same conflict again.
            self._held = found
            self._held = await self._put({**found, "spec": self._spec(found["spec"])})
        self._held_until = began + self._settings.lease_renew_deadline

    async def _put(self, body: dict[str, Any]) -> dict[str, Any]:
        return await self._server.request(
            "PUT", self._item, body=body, timeout_s=self._settings.lease_renew_deadline / 2
        )

    def _spec(self, before: Mapping[str, Any]) -> dict[str, Any]:
        now = conditions.timestamp(self._clock.wall()).removesuffix("Z") + ".000000Z"
        is_ours = before.get("holderIdentity") == self._settings.identity
        return {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": max(1, round(self._settings.lease_duration)),
            "acquireTime": before.get("acquireTime", now) if is_ours else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if is_ours else 1),
        }
