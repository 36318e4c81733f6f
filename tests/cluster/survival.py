"""SIGKILL after every single write: each operator lives for one write, until one has nothing left to do."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import harness
import killproxy


async def killed_after_each_write(
    proxy: killproxy.KillProxy,
    kubeconfig: Path,
    *,
    environment: Mapping[str, str] | Callable[[int], Mapping[str, str]],
    log: Path,
    moment: killproxy.Moment,
    is_done: Callable[[], Awaitable[object]],
    writes: int = 1,
) -> int:
    """Start operators one after another, each killed at its first write or after some; return how many were.

    Args:
        proxy: which counts the writes.
        kubeconfig: which leads through it.
        environment: settings of every operator, or of each by its number.
        log: takes the log of all of them.
        moment: before or after the write's answer.
        is_done: returns when the end is reached.
        writes: how many each lives for.
    """
    for number in itertools.count():
        # The lease of a killed operator is still held, so each has one of its own.
        own = environment(number) if callable(environment) else environment
        given = {**own, "PACELINE_LEASE_NAME": f"operator-{number}"}
        with harness.run_operator(kubeconfig, log=log, forked=True, **given) as operator:
            proxy.arm(after_writes=writes, moment=moment, pid=lambda running=operator: running.pid)
            if await _lives_on(proxy, operator, is_done):
                return number
            assert await operator.ended() == -9
    raise AssertionError("unreachable")


async def quiet(proxy: killproxy.KillProxy, *, for_s: float = 2.0) -> None:
    """Wait until nothing has been written for so long."""
    seen = -1
    async with asyncio.timeout(60):
        while seen != len(proxy.writes):
            seen = len(proxy.writes)
            await asyncio.sleep(for_s)


async def _lives_on(
    proxy: killproxy.KillProxy, operator: harness.Operator, is_done: Callable[[], Awaitable[object]]
) -> bool:
    """Return whether the end is reached with the operator alive and nothing left to write."""
    end = asyncio.create_task(_ended(proxy, operator, is_done))
    dead = asyncio.create_task(proxy.killed.wait())
    await asyncio.wait([end, dead], return_when=asyncio.FIRST_COMPLETED)
    if end.done() and not proxy.killed.is_set():
        end.result()
    for task in (end, dead):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return not proxy.killed.is_set()


async def _ended(
    proxy: killproxy.KillProxy, operator: harness.Operator, is_done: Callable[[], Awaitable[object]]
) -> None:
    """Wait for the end, and until an operator that has had a look at it writes nothing more."""
    await is_done()
    await operator.leading()
    await quiet(proxy)
