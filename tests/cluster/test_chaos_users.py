"""Users ask all along while every single write of the operator is its last: none of them notices.

Pods, Services and requests are real, the engines are stand-ins (``standin/``). What the kills leave behind is held
against an undisturbed life in ``test_chaos_kills.py``, with played pods.
"""

import asyncio

import pytest

import killproxy
import survival
from standin import live, served, users

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(2400)]

CROWD = users.Crowd(concurrency=3, max_tokens=24)


async def test_operator_killed_after_each_write_loses_no_request(cluster, api, place, tmp_path):
    """From the first write to the last: the baseline, a candidate that loses, and one that is promoted."""
    tallies = []
    async with (
        killproxy.kill_proxy(cluster.kubeconfig, folder=tmp_path) as (proxy, proxied),
        asyncio.TaskGroup() as group,
    ):
        life = group.create_task(lived(api, place, tallies))
        kills = await survival.killed_after_each_write(
            proxy,
            proxied,
            environment=live.settings(place),
            log=tmp_path / "log",
            moment=killproxy.Moment.AFTER_ANSWER,
            is_done=lambda: asyncio.shield(life),
        )
    (tally,) = tallies
    assert kills == len(proxy.writes) > 40
    assert tally.lost == []
    assert tally.all_accounted_for


async def lived(api, place, tallies):
    """Make the resource; have users from when it serves to the end of its second rollout, counted in ``tallies``."""
    url = await live.front(api, place, served.resource(place, live.BEHAVIOUR))
    async with users.using(url, CROWD) as tally:
        tallies.append(tally)
        await live.lose_and_win(api, place)
        await tally.more(20)
