"""The real rooms on a real API server, with pods' status played: whole lives, and SIGKILL after each write."""

import asyncio

import pytest

import harness
import killproxy
import kubeletless
import playbook
import survival
from api import builders
from paceline.api import names
from paceline.planning import kinds

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def serving(namespace, **speculation):
    """Return a SpeculativeDeployment."""
    manifest = builders.deployment("served", speculation=speculation)
    manifest["metadata"]["namespace"] = namespace
    return manifest


def training(namespace):
    """Return a DraftTrainingJob."""
    manifest = builders.training_job("head")
    manifest["metadata"]["namespace"] = namespace
    return manifest


def played(api, namespace, **speeds):
    """Play the pods; ``speeds`` are tokens a second by method."""
    return kubeletless.playing(api, namespace, playbook.Playbook(api=api, namespace=namespace, speeds=speeds))


def is_published(status):
    """Whether a training job is through."""
    return status.get("phase") == "Complete"


def serves(method, *, after=""):
    """Return the claim that a method is served and no candidate is on its way."""

    def claim(status):
        stable = status.get("stable") or {}
        return stable.get("method") == method and stable.get("hash") != after and status.get("candidate") is None

    return claim


async def serving_arms(api, namespace):
    """Return the short hashes of the Deployments, and the one that the front Service selects."""
    deployments = await api.items(kinds.DEPLOYMENT, namespace)
    arms = sorted(one["metadata"]["labels"][names.LABEL_REVISION] for one in deployments)
    front = await api.get(kinds.SERVICE, namespace, "served")
    return arms, front["spec"]["selector"][names.LABEL_REVISION]


async def test_training_job_runs_through_its_stages(control_plane, api, namespace, settings, tmp_path):
    """Six stages, one Job each, and a published head in the status; then silence."""
    async with killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied):
        with harness.run_operator(proxied, log=tmp_path / "log", **settings) as operator:
            await operator.ready()
            await api.create(kinds.DRAFT_TRAINING_JOB, training(namespace))
            async with played(api, namespace):
                stored = await harness.reached(api, kinds.DRAFT_TRAINING_JOB, namespace, "head", is_published)
            await survival.quiet(proxy)
            writes = len(proxy.writes)
            await api.merge(kinds.DRAFT_TRAINING_JOB, namespace, "head", {"metadata": {"labels": {"touched": "yes"}}})
            await asyncio.sleep(2.0)
            assert proxy.writes[writes:] == []
            assert operator.lines("pass_crashed") == []
    assert stored["status"]["output"]["manifestDigest"] == playbook.DIGEST
    assert len([one for one in proxy.writes if one.verb == "POST" and one.path.endswith("/jobs")]) == 6


async def test_faster_candidate_is_promoted_and_slower_one_rejected(control_plane, api, namespace, settings, tmp_path):
    """One Service, one selector flip for the promotion, and none for the rejection."""
    async with killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied):
        with harness.run_operator(proxied, log=tmp_path / "log", **settings) as operator:
            await operator.ready()
            await api.create(kinds.SPECULATIVE_DEPLOYMENT, serving(namespace, method="None"))
            async with played(api, namespace, Ngram=150.0):
                await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, namespace, "served", serves("None"))
                faster = {"spec": {"speculation": {"method": "Ngram", "numSpeculativeTokens": 3}}}
                await api.merge(kinds.SPECULATIVE_DEPLOYMENT, namespace, "served", faster)
                stored = await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, namespace, "served", serves("Ngram"))
            promoted = stored["status"]["stable"]["hash"]
            async with played(api, namespace, Ngram=60.0):
                slower = {"spec": {"speculation": {"numSpeculativeTokens": 5}}}
                await api.merge(kinds.SPECULATIVE_DEPLOYMENT, namespace, "served", slower)
                await harness.reached(
                    api, kinds.SPECULATIVE_DEPLOYMENT, namespace, "served", lambda status: bool(status.get("rejected"))
                )
            assert (await serving_arms(api, namespace))[1] == promoted
            # Made once, its fields taken over once, flipped once.
            services = [one.verb for one in proxy.writes if "/services" in one.path]
            assert services == ["POST", "PATCH", "PATCH"]
            assert operator.lines("pass_crashed") == []


async def test_training_survives_sigkill_after_each_write(control_plane, api, namespace, settings, tmp_path):
    """Each operator lives for one write; still six Jobs in all, and the head is published."""
    async with killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied):
        await api.create(kinds.DRAFT_TRAINING_JOB, training(namespace))

        async def is_done():
            await harness.reached(api, kinds.DRAFT_TRAINING_JOB, namespace, "head", is_published, within_s=280)

        async with played(api, namespace):
            kills = await survival.killed_after_each_write(
                proxy,
                proxied,
                environment=settings,
                log=tmp_path / "log",
                moment=killproxy.Moment.BEFORE_ANSWER,
                is_done=is_done,
            )
        assert kills >= 12
        assert len([one for one in proxy.writes if one.verb == "POST" and one.path.endswith("/jobs")]) == 6


async def test_promotion_survives_sigkill_after_each_write(control_plane, api, namespace, settings, tmp_path):
    """From nothing to a served revision, and from there to a promoted one: one Service, and one revision in the end."""
    async with killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied):

        async def promoted():
            await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, namespace, "served", serves("Ngram"), within_s=280)

        # Draining is short, so that the end is one Deployment.
        manifest = serving(namespace, method="Ngram")
        manifest["spec"]["rollout"]["deadlines"] = {"draining": "1s"}
        await api.create(kinds.SPECULATIVE_DEPLOYMENT, manifest)
        async with played(api, namespace, Ngram=150.0):
            kills = await survival.killed_after_each_write(
                proxy,
                proxied,
                environment=settings,
                log=tmp_path / "log",
                moment=killproxy.Moment.BEFORE_ANSWER,
                is_done=promoted,
            )
        assert kills >= 10
        arms, served = await serving_arms(api, namespace)
        assert arms == [served]
        services = [one for one in proxy.writes if one.verb == "POST" and one.path.endswith("/services")]
        assert len(services) == 1
