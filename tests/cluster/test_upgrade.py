"""The operator replaced by another build in every phase: after so many writes one is killed, and the other goes on.

The two render every pod differently and know different fields. Up and down alike, no pod is restarted, no step is
repeated, and a revision has the same digest whoever resolves it. Two stories are told in every test run, with a change
of builds every few writes; all of them, with one after each write, by ``make chaos``.
"""

import collections
import sys

import pytest

import harness
import killproxy
import stories
import survival
from paceline.api import names
from paceline.controller import settings as controller_settings
from paceline.planning import kinds
from paceline.rollout.documents import revisions

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

THIS_BUILD = ",".join(controller_settings.Settings.model_fields["rooms"].default)
NEXT_BUILD = "nextbuild:Rollout,nextbuild:Training"  # never imported here: it changes the process it is in

STORIES = [
    pytest.param(stories.TRAINING, 2, id="training"),
    pytest.param(stories.PROMOTION, 3, id="promotion"),
    *(pytest.param(story, 1, id=f"{story.name}-after-each-write", marks=pytest.mark.chaos) for story in stories.ALL),
]


def alternating(settings):
    """Return the environment of each operator in turn: the builds take turns."""
    return lambda number: {**settings, "PACELINE_ROOMS": NEXT_BUILD if number % 2 else THIS_BUILD}


def builds(pods):
    """Return which builds have rendered pods."""
    return {(one["metadata"].get("annotations") or {}).get("build", "this") for one in pods}


def templates(pods):
    """Return the templates that the servers of each revision were made of, by their hash."""
    found = collections.defaultdict(set)
    for one in pods:
        labels = one["metadata"]["labels"]
        if names.LABEL_REVISION in labels:
            found[labels[names.LABEL_REVISION], labels[names.LABEL_PART]].add(labels["pod-template-hash"])
    return found


async def settled_world_is_left_alone(proxy, proxied, settings, log):
    """Let each build look at everything; neither may write."""
    before = len(proxy.writes)
    proxy.arm(after_writes=sys.maxsize, moment=killproxy.Moment.AFTER_ANSWER, pid=lambda: 0)
    for number in range(2):
        given = {**alternating(settings)(number), "PACELINE_LEASE_NAME": f"after-{number}"}
        with harness.run_operator(proxied, log=log, forked=True, **given) as operator:
            await operator.leading()
            await harness.until(lambda running=operator: bool(running.lines("pass")), within_s=60)
            await survival.quiet(proxy)
    assert proxy.writes[before:] == []


@pytest.mark.parametrize(("story", "writes"), STORIES)
async def test_other_build_goes_on_in_every_phase(control_plane, api, tmp_path, story, writes):
    """Everything is made as often as by one build alone, every revision's servers of the one template it was given."""
    wanted = await stories.undisturbed(control_plane.kubeconfig, api, story, folder=tmp_path)
    async with (
        stories.told(api, story) as telling,
        killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied),
        telling.begun() as is_done,
    ):
        kills = await survival.killed_after_each_write(
            proxy,
            proxied,
            environment=alternating(telling.settings),
            log=tmp_path / "log",
            moment=killproxy.Moment.AFTER_ANSWER,
            is_done=is_done,
            writes=writes,
        )
        await telling.life.settles(wanted.end)
        found = await stories.accounted(telling, proxy)
        await settled_world_is_left_alone(proxy, proxied, telling.settings, tmp_path / "log")
        known = [revisions.read(one) for one in await api.items(kinds.CONTROLLER_REVISION, telling.life.namespace)]
    assert kills == len(found.writes) // writes
    assert builds(telling.life.pods.values()) == {"this", "next"}
    assert stories.differences(found, wanted) == []
    assert {len(one) for one in templates(telling.life.pods.values()).values()} <= {1}
    assert all(one.inputs.digest == one.digest for one in known)
