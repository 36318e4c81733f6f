"""SIGKILL after each single write of every kind of rollout and of a training run.

An undisturbed operator first shows which writes there are. Then operators live for one write each, until one finds
nothing left to write: every write of the enumeration must have been made, each must have killed its operator, nothing
may have been made twice, and what is left must be the same.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

import faultproxy
import harness
import killproxy
import life
import liveusers
import survival
from killproxy import Moment

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(1800)]

QUICK_SCRAPES = {"PACELINE_SCRAPE_INTERVAL": "1s"}


@dataclass(frozen=True, kw_only=True)
class Story:
    """What one resource lives through."""

    name: str
    makes: tuple[Mapping[str, object], ...]
    speed: float = 150.0
    reason: str = ""
    users_accept: float | None = None
    """What users' requests accept of each draft, once something serves; None: there are none."""


TRAINING = Story(name="training", makes=(life.training_job(),))
PROMOTION = Story(name="promotion", makes=(life.deployment(),))
REJECTION = Story(name="rejection", makes=(life.deployment(),), speed=80.0)
# Promoted for accepting 1.0 a draft at 1.5 times the control's speed, so below 0.33 it loses.
GUARD = Story(
    name="guard",
    makes=(life.deployment(guard={"window": "4s", "minDrafts": 20}),),
    reason="LiveBelowBaseline",
    users_accept=0.1,
)
STORIES = [
    pytest.param(story, moment, id=f"{story.name}-{moment.name}")
    for story in (TRAINING, PROMOTION, REJECTION, GUARD)
    for moment in Moment
]


@contextlib.asynccontextmanager
async def told(api, story):
    """Begin a story in a namespace of its own; yields it with the settings of an operator of that namespace."""
    async with harness.scratch_namespace(api) as namespace:
        kinds = [made["kind"] for made in story.makes]
        one = life.Life(api, namespace, speed=story.speed, watched=kinds, reason=story.reason)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(one.played())
            if story.users_accept is not None:
                await stack.enter_async_context(liveusers.using(namespace, accepted_a_draft=story.users_accept))
            yield one, {"PACELINE_NAMESPACE": namespace, "PACELINE_NAMESPACES": namespace, **QUICK_SCRAPES}


@pytest.mark.parametrize(("story", "moment"), STORIES)
async def test_each_write_may_be_the_last(control_plane, api, tmp_path, story, moment):
    """The end, and the set of writes that lead to it, are those of an operator that lives on."""
    async with (
        told(api, story) as (one, settings),
        killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied),
    ):
        with harness.run_operator(proxied, log=tmp_path / "undisturbed", **settings) as operator:
            await one.make(*story.makes)
            await one.ended(operator=operator)
            await survival.quiet(proxy)
        wanted, enumerated = await one.end_state(), steps(proxy.writes)

    async with (
        told(api, story) as (one, settings),
        killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied),
    ):
        await one.make(*story.makes)
        kills = await survival.killed_after_each_write(
            proxy,
            proxied,
            environment=settings,
            log=tmp_path / "log",
            moment=moment,
            is_done=lambda: one.ended(within_s=800.0),
        )
        await one.settles(wanted)
        assert enumerated <= steps(proxy.writes)
        assert kills == len(proxy.writes)
        assert faultproxy.duplicates(proxy.writes) == []


def steps(writes):
    """Return each write by what it does to which object, hashes left out."""
    found = {(killproxy.usage(one.verb, one.path, is_watch=False), one.name) for one in writes}
    return {(usage.verb, usage.resource, life.anonymous(name)) for usage, name in found}
