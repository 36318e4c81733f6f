"""The operator's process, as an image starts it."""

import asyncio
import getpass

import kopf

from controller import builders
from paceline.controller import operator


def test_process_starts_as_a_user_without_a_name(monkeypatch):
    """A pod runs as a number, on some clusters as any; no image has a name for it."""

    def nameless():
        raise KeyError("getpwuid(): uid not found: 65532")

    started = asyncio.Event()
    spawn = kopf.spawn_tasks

    async def spawned(**given):
        tasks = await spawn(**given)
        for task in tasks:
            task.cancel()
        started.set()
        return tasks

    monkeypatch.setattr(getpass, "getuser", nameless)
    monkeypatch.delenv("POD_ID", raising=False)
    monkeypatch.setattr("kopf._core.reactor.running.spawn_tasks", spawned)

    async def run():
        await asyncio.gather(operator.Process(builders.settings_for()).run(), return_exceptions=True)

    asyncio.run(run())
    assert started.is_set()
