"""An operator under a supervisor: started again when it ends, as its container would be."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import harness


@contextlib.asynccontextmanager
async def supervised(kubeconfig: Path, *, log: Path, **environment: str) -> AsyncIterator[list[harness.Operator]]:
    """Keep one operator running for the length of a block; yields all that were started, the newest last."""
    started: list[harness.Operator] = []

    async def keep() -> None:
        while True:
            with harness.run_operator(kubeconfig, log=log, **environment) as operator:
                started.append(operator)
                while operator.process.poll() is None:
                    await asyncio.sleep(0.2)

    task = asyncio.create_task(keep())
    try:
        yield started
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
