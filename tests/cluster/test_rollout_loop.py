"""A rollout on a real API server: pods are played, Jobs, Deployments and everything the operator writes are real."""

import asyncio
import contextlib

import pytest

import harness
import killproxy
import kubeletless
import survival
from paceline.api import names, report, stages
from paceline.api.measurement import ProbeConfig, ProbeReport
from paceline.planning import kinds
from rollout import builders

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SETTINGS = {"PACELINE_ROOMS": "paceline.rollout.room:Rollout", "PACELINE_STAGE_IMAGE": "paceline/stages:test"}


class Servers:
    """Plays every pod of a rollout: engines are ready at once, and as fast as what they draft says."""

    def __init__(self, api, namespace, *, speeds):
        """Take the throughput by title, as a multiple of the baseline's."""
        self.api, self.namespace, self.speeds = api, namespace, speeds

    async def __call__(self, pod):
        """Return what is said of a pod."""
        labels = pod["metadata"]["labels"]
        if labels[names.LABEL_PART] == "server":
            return kubeletless.Play(phase="Running")
        if labels[names.LABEL_PART] == "inspect":
            told = stages.StageReport(result=builders.inspected())
            return kubeletless.Play(phase="Succeeded", message=report.encode(told))
        stored = await self.api.get(kinds.CONFIG_MAP, self.namespace, labels["batch.kubernetes.io/job-name"])
        if stored is None:
            return None
        config = ProbeConfig.model_validate_json(stored["data"]["stage.json"])
        return kubeletless.Play(phase="Succeeded", message=report.encode(await self.measure(config)))

    async def measure(self, config):
        """Return one round of blocks."""
        titles = await self.titles()
        return ProbeReport(
            measurements=[
                builders.block(
                    arm.arm,
                    tokens_per_second=100.0 * self.speeds[titles[arm.arm]] * (1 + position % 3 / 500),
                    round=config.round,
                    position=position,
                    concurrency=concurrency,
                    drafts=0 if titles[arm.arm] == "None" else 400,
                    accepted=0 if titles[arm.arm] == "None" else 480,
                ).model_copy(update={"arm": arm.arm})
                for concurrency in config.concurrencies
                for position, arm in enumerate([*config.arms, *reversed(config.arms)])
            ]
        )

    async def titles(self):
        """Return what each revision drafts, by short hash."""
        known = await self.api.items(kinds.CONTROLLER_REVISION, self.namespace)
        return {
            one["metadata"]["labels"][names.LABEL_REVISION]: one["data"]["inputs"]["method"]
            for one in known
            if names.LABEL_REVISION in one["metadata"].get("labels", {})
        }


@pytest.fixture
def settings(settings):
    """Add what this module's operator needs."""
    return {**SETTINGS, **settings}


async def make_resource(api, namespace):
    """Make a SpeculativeDeployment that drains quickly."""
    manifest = builders.deployment(rollout={**builders.rollout(), "deadlines": {"draining": "1s"}})
    manifest["metadata"] = {"name": builders.NAME, "namespace": namespace}
    return await api.create(kinds.SPECULATIVE_DEPLOYMENT, manifest)


async def settled(api, namespace, *, reason, within_s=120.0):
    """Wait until a measured rollout has ended with ``reason`` and one server is left; return what is left.

    The control that serves first is promoted too, with nothing to be compared with.
    """
    async with asyncio.timeout(within_s):
        while True:
            stored = await api.get(kinds.SPECULATIVE_DEPLOYMENT, namespace, builders.NAME)
            status = stored.get("status") or {}
            told = {one["type"]: one for one in status.get("conditions", ())}
            measured = (status.get("rollout") or {}).get("comparisons")
            servers = await api.items(kinds.DEPLOYMENT, namespace)
            jobs = await api.items(kinds.JOB, namespace)
            if measured and told.get("Progressing", {}).get("reason") == reason and len(servers) == 1 and not jobs:
                return stored
            await asyncio.sleep(0.2)


async def end_state(api, namespace):
    """Return how many objects of each kind are left, and what the Service selects."""
    counts = {}
    for kind in (kinds.CONFIG_MAP, kinds.CONTROLLER_REVISION, kinds.DEPLOYMENT, kinds.JOB, kinds.SERVICE):
        ours = [
            one
            for one in await api.items(kind, namespace)
            if names.LABEL_DEPLOYMENT in (one["metadata"].get("labels") or {})
        ]
        counts[kind.kind] = len(ours)
    service = await api.get(kinds.SERVICE, namespace, builders.NAME)
    titles = await Servers(api, namespace, speeds={}).titles()
    return counts, titles[service["spec"]["selector"][names.LABEL_REVISION]]


# Two records and one inspection; a revision of the candidate and one of its control.
COUNTS = {"ConfigMap": 3, "ControllerRevision": 2, "Deployment": 1, "Job": 0, "Service": 1}


@pytest.mark.parametrize(
    "outcome", [(1.5, "Promoted", "EAGLE3"), (0.8, "SlowerThanControl", "None")], ids=["faster", "slower"]
)
async def test_candidate_meets_its_end(control_plane, api, namespace, settings, tmp_path, outcome):
    """A faster head is promoted and a slower one rolled back, and nothing else is left."""
    speed, reason, serving = outcome
    servers = Servers(api, namespace, speeds={"None": 1.0, "EAGLE3": speed})
    with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "log", **settings) as operator:
        await operator.ready()
        await make_resource(api, namespace)
        async with kubeletless.playing(api, namespace, servers):
            stored = await settled(api, namespace, reason=reason)
            # The decision is written first; the Service and the other arm follow.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(60):
                    while await end_state(api, namespace) != (COUNTS, serving):
                        await asyncio.sleep(0.2)
        assert await end_state(api, namespace) == (COUNTS, serving)
        assert stored["status"]["rollout"]["comparisons"][0]["against"] == "Control"
        assert operator.stop() == 0


async def test_settled_rollout_costs_no_write(control_plane, api, namespace, settings, tmp_path):
    """Not one mutating request for resyncs and a restart."""
    servers = Servers(api, namespace, speeds={"None": 1.0, "EAGLE3": 1.5})
    async with killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied):
        quick = {**settings, "PACELINE_RESYNC": "1s"}
        async with kubeletless.playing(api, namespace, servers):
            with harness.run_operator(proxied, log=tmp_path / "log", **quick) as operator:
                await operator.ready()
                await make_resource(api, namespace)
                await settled(api, namespace, reason="Promoted")
                await survival.quiet(proxy)
                writes = len(proxy.writes)
                await asyncio.sleep(3.0)
                operator.kill()
            with harness.run_operator(proxied, log=tmp_path / "log", **quick) as operator:
                await operator.ready()
                await operator.leading()
                await asyncio.sleep(3.0)
        assert proxy.writes[writes:] == []
        assert proxy.refused == []


@pytest.mark.parametrize("moment", list(killproxy.Moment))
async def test_sigkill_after_each_write_promotes_all_the_same(
    control_plane, api, namespace, settings, tmp_path, moment
):
    """Each operator lives for one write; the same revision serves in the end, measured once."""
    servers = Servers(api, namespace, speeds={"None": 1.0, "EAGLE3": 1.5})
    async with killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied):
        await make_resource(api, namespace)
        async with kubeletless.playing(api, namespace, servers):
            kills = await survival.killed_after_each_write(
                proxy,
                proxied,
                environment=settings,
                log=tmp_path / "log",
                moment=moment,
                is_done=lambda: settled(api, namespace, reason="Promoted", within_s=500),
            )
        assert kills > 20
        assert await end_state(api, namespace) == (COUNTS, "EAGLE3")
