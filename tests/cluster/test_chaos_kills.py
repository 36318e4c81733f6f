"""SIGKILL after each single write of every kind of rollout and of a training run, before its answer comes.

An undisturbed operator first shows which writes there are. Then operators live for one write each, until one finds
nothing left to write: every write of the enumeration must have been made, each must have killed its operator, as many
objects of each name must have been made as there were undisturbed, none twice, and what is left must be the same.
Kills right after the answer are those of ``test_upgrade.py``, where another build goes on each time.
"""

import pytest

import killproxy
import stories
import survival

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("story", [pytest.param(story, id=story.name) for story in stories.ALL])
async def test_each_write_may_be_the_last(control_plane, api, tmp_path, story):
    """The end, and the writes that lead to it, are those of an operator that lives on."""
    wanted = await stories.undisturbed(control_plane.kubeconfig, api, story, folder=tmp_path)
    async with (
        stories.told(api, story) as telling,
        killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied),
        telling.begun() as is_done,
    ):
        kills = await survival.killed_after_each_write(
            proxy,
            proxied,
            environment=telling.settings,
            log=tmp_path / "log",
            moment=killproxy.Moment.BEFORE_ANSWER,
            is_done=is_done,
        )
        await telling.life.settles(wanted.end)
        found = await stories.accounted(telling, proxy)
    assert kills == len(found.writes)
    assert stories.differences(found, wanted) == []
