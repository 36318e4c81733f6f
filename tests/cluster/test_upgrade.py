"""The operator replaced by another build in every phase: every two or three writes one is killed, the other goes on.

The two render every pod differently and know different fields. Up and down alike, no pod is restarted, no step is
repeated, and a revision has the same digest whoever resolves it.
"""

import asyncio
import collections
import sys

import pytest

import harness
import killproxy
import kubeletless
import playbook
import survival
from api import builders as api_builders
from paceline.api import names
from paceline.controller import settings as controller_settings
from paceline.planning import kinds
from paceline.rollout import records, revisions
from rollout import builders

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

THIS_BUILD = ",".join(controller_settings.Settings.model_fields["rooms"].default)
NEXT_BUILD = "nextbuild:Rollout,nextbuild:Training"  # never imported here: it changes the process it is in


class Watched:
    """Plays pods by the playbook, and remembers every one it has seen."""

    def __init__(self, api, namespace):
        self.script = playbook.Playbook(api=api, namespace=namespace, speeds={"None": 100.0, "EAGLE3": 150.0})
        self.pods = {}

    async def __call__(self, pod):
        """Return what is said of a pod."""
        self.pods[pod["metadata"]["uid"]] = pod
        return await self.script(pod)

    def by_parent(self):
        """Return how many pods each ReplicaSet or Job has had, by its UID."""
        return collections.Counter(one["metadata"]["ownerReferences"][0]["uid"] for one in self.pods.values())

    def builds(self):
        """Return which builds have rendered pods."""
        return {(one["metadata"].get("annotations") or {}).get("build", "this") for one in self.pods.values()}


def alternating(settings):
    """Return the environment of each operator in turn: the builds take turns."""
    return lambda number: {**settings, "PACELINE_ROOMS": NEXT_BUILD if number % 2 else THIS_BUILD}


async def upgraded(proxy, proxied, *, settings, log, is_done, writes):
    """Replace the operator after so many writes of each; return how often."""
    return await survival.killed_after_each_write(
        proxy,
        proxied,
        environment=alternating(settings),
        log=log,
        moment=killproxy.Moment.AFTER_ANSWER,
        is_done=is_done,
        writes=writes,
    )


def jobs_made(proxy):
    """Return how many Jobs were ever made."""
    return len([one for one in proxy.writes if one.verb == "POST" and one.path.endswith("/jobs")])


def reason(status, kind):
    """Return a condition's reason."""
    return next((one["reason"] for one in status.get("conditions", ()) if one["type"] == kind), "")


async def promoted(api, namespace):
    """Wait until the head serves, and what it was measured against is gone."""
    await harness.reached(
        api,
        kinds.SPECULATIVE_DEPLOYMENT,
        namespace,
        builders.NAME,
        lambda status: status.get("speculation") == "EAGLE3 k=3" and reason(status, "Progressing") == "Promoted",
        within_s=500,
    )
    async with asyncio.timeout(100):
        while len(await api.items(kinds.DEPLOYMENT, namespace)) > 1 or await api.items(kinds.JOB, namespace):
            await asyncio.sleep(0.5)


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


async def test_other_build_in_every_phase_of_a_rollout(control_plane, api, namespace, settings, tmp_path):
    """Each Deployment keeps the template it was made with, and its one pod; every round is measured once."""
    manifest = builders.deployment(rollout={**builders.rollout(), "deadlines": {"draining": "1s"}})
    manifest["metadata"] = {"name": builders.NAME, "namespace": namespace}
    watched = Watched(api, namespace)
    async with killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied):
        await api.create(kinds.SPECULATIVE_DEPLOYMENT, manifest)
        async with kubeletless.playing(api, namespace, watched):
            kills = await upgraded(
                proxy,
                proxied,
                settings=settings,
                log=tmp_path / "log",
                writes=3,
                is_done=lambda: promoted(api, namespace),
            )
            await settled_world_is_left_alone(proxy, proxied, settings, tmp_path / "log")
    assert kills >= 8
    assert watched.builds() == {"this", "next"}
    assert set(watched.by_parent().values()) == {1}, "a pod was made anew"
    stored = [records.read(one) for one in await api.items(kinds.CONFIG_MAP, namespace) if records.KEY in one["data"]]
    inspections = len(
        [one for one in watched.pods.values() if one["metadata"]["labels"][names.LABEL_PART] == "inspect"]
    )
    assert jobs_made(proxy) == inspections + sum(one.record.rounds for one in stored)
    assert inspections == 1
    made = [revisions.read(one) for one in await api.items(kinds.CONTROLLER_REVISION, namespace)]
    assert sorted(one.inputs.title for one in made) == ["EAGLE3 k=3", "None"]
    assert all(one.inputs.digest == one.digest for one in made)
    assert all(one["metadata"]["generation"] == 1 for one in await api.items(kinds.DEPLOYMENT, namespace))


async def test_other_build_in_every_phase_of_a_training_run(control_plane, api, namespace, settings, tmp_path):
    """Every stage has one Job with one pod, whichever build made it."""
    manifest = api_builders.training_job("head", activeDeadline="99999h")
    manifest["metadata"]["namespace"] = namespace
    watched = Watched(api, namespace)
    async with killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied):
        await api.create(kinds.DRAFT_TRAINING_JOB, manifest)
        async with kubeletless.playing(api, namespace, watched):
            kills = await upgraded(
                proxy,
                proxied,
                settings=settings,
                log=tmp_path / "log",
                writes=2,
                is_done=lambda: harness.reached(
                    api,
                    kinds.DRAFT_TRAINING_JOB,
                    namespace,
                    "head",
                    lambda status: status.get("phase") == "Complete",
                    within_s=500,
                ),
            )
            await settled_world_is_left_alone(proxy, proxied, settings, tmp_path / "log")
    stages = ["inspect", "prepare", "extract", "train", "evaluate", "publish"]
    assert kills >= 8
    assert watched.builds() == {"this", "next"}
    assert sorted(one["metadata"]["labels"][names.LABEL_STAGE] for one in watched.pods.values()) == sorted(stages)
    assert jobs_made(proxy) == len(stages)
