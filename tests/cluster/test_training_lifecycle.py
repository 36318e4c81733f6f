"""What people do to a DraftTrainingJob in mid-run, on a real API server with its Job and garbage controllers."""

import asyncio

import pytest

import harness
import kubeletless
import playbook
from api import builders
from paceline.api import names, report, stages
from paceline.planning import kinds

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

# A played pod says that it started at a fixed date; the deadline must not count from there.
SPEC = {"activeDeadline": "99999h"}


@pytest.fixture
async def running(control_plane, api, namespace, tmp_path):
    """An operator confined to the namespace, and a training job in it."""
    settings = {"PACELINE_NAMESPACE": namespace, "PACELINE_NAMESPACES": namespace}
    with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "log", **settings) as operator:
        await operator.ready()
        manifest = builders.training_job("head", **SPEC)
        manifest["metadata"]["namespace"] = namespace
        await api.create(kinds.DRAFT_TRAINING_JOB, manifest)
        yield operator
        assert operator.lines("pass_crashed") == []


def stage_of(pod):
    """Return the stage that a pod is of."""
    return pod["metadata"]["labels"][names.LABEL_STAGE]


def played_until(api, namespace, stage):
    """Let the stages before ``stage`` succeed, and its pod run for ever."""
    script = playbook.Playbook(api=api, namespace=namespace, speeds={})

    async def play(pod):
        return kubeletless.Play(phase="Running") if stage_of(pod) == stage else await script(pod)

    return kubeletless.playing(api, namespace, play)


def played(api, namespace):
    """Let every stage succeed."""
    return kubeletless.playing(api, namespace, playbook.Playbook(api=api, namespace=namespace, speeds={}))


async def reached(api, namespace, claim):
    """Wait until ``claim`` holds of the status; return the resource."""
    return await harness.reached(api, kinds.DRAFT_TRAINING_JOB, namespace, "head", claim)


def is_training(status):
    """Whether Train's pod runs."""
    return any(one["name"] == "Train" and one["state"] == "Running" for one in status.get("stages", ()))


def reason_of(kind):
    """Return what reads a condition's reason from a status."""

    def read(status):
        told = [one for one in status.get("conditions", ()) if one["type"] == kind]
        return told[0]["reason"] if told else ""

    return read


async def live(api, namespace):
    """Return the names of Jobs that have not ended, and of all pods that may still run."""
    jobs = [one for one in await api.items(kinds.JOB, namespace) if not one["status"].get("conditions")]
    pods = [one for one in await api.items(kinds.POD, namespace) if one["status"]["phase"] in ("Pending", "Running")]
    return sorted(one["metadata"]["name"] for one in jobs + pods)


async def left(api, namespace):
    """Return the names of everything that a training job owns or owned."""
    found = [one for kind in (kinds.JOB, kinds.POD, kinds.CONFIG_MAP) for one in await api.items(kind, namespace)]
    return [one["metadata"]["name"] for one in found if one["metadata"]["name"] != "kube-root-ca.crt"]


async def gone(listing, api, namespace):
    """Wait until ``listing`` finds nothing more; fail the test with what stays."""
    found = []
    try:
        async with asyncio.timeout(60):
            while True:
                found = await listing(api, namespace)
                if not found:
                    return
                await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(f"still there: {found}")


async def test_suspended_run_frees_its_pods_and_resumes(api, namespace, running):
    """The stage's pods go, what is finished stays, and the run goes on from there to its end."""
    async with played_until(api, namespace, "train"):
        await reached(api, namespace, is_training)
        await api.merge(kinds.DRAFT_TRAINING_JOB, namespace, "head", {"spec": {"suspend": True}})
        await reached(api, namespace, lambda status: status.get("phase") == "Suspended")
        await gone(live, api, namespace)
    async with played(api, namespace):
        await api.merge(kinds.DRAFT_TRAINING_JOB, namespace, "head", {"spec": {"suspend": False}})
        stored = await reached(api, namespace, lambda status: status.get("phase") == "Complete")
    attempts = {one["name"]: one["attempts"] for one in stored["status"]["stages"]}
    assert attempts == {"Inspect": 1, "Prepare": 1, "Extract": 1, "Train": 2, "Evaluate": 1, "Publish": 1}
    assert running.lines("pass")


async def test_evicted_stage_pod_is_replaced_and_charged_to_nobody(api, namespace, running):
    """By the Eviction API, as a drain does: the stage runs again, and its one attempt is still the first."""
    async with played_until(api, namespace, "train"):
        await reached(api, namespace, is_training)
        (pod,) = [one for one in await api.items(kinds.POD, namespace) if stage_of(one) == "train"]
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
        await api.server.request("POST", f"{path}/eviction", body=eviction)
        # The kubelet's part: the pod ends by SIGTERM.
        ended = kubeletless.Play(phase="Failed", exit_code=143, disrupted=True)
        status = {"status": kubeletless.status_of(pod, ended)}
        await api.merge(kinds.POD, namespace, pod["metadata"]["name"], status, subresource="status")
    async with played(api, namespace):
        stored = await reached(api, namespace, lambda status: status.get("phase") == "Complete")
    attempts = {one["name"]: one["attempts"] for one in stored["status"]["stages"]}
    assert attempts["Train"] == 1
    assert running.lines("pass")


async def test_job_deleted_in_mid_run_leaves_nothing(api, namespace, running):
    """Pods, Jobs and ConfigMaps go with it by their owner references; there is no finalizer to hold it."""
    async with played_until(api, namespace, "train"):
        await reached(api, namespace, is_training)
        await api.delete(kinds.DRAFT_TRAINING_JOB, namespace, "head")
        await gone(left, api, namespace)
    assert await api.get(kinds.DRAFT_TRAINING_JOB, namespace, "head") is None
    assert running.lines("pass")


async def test_unreadable_source_is_told_once_and_fixed_by_an_edit(api, namespace, running):
    """No second try of the same source, and no failed run: the edit is inspected and the run begins."""

    def refuse(_pod):
        said = stages.StageReport(error="config.json is missing; name the model's folder.", permanent=True)
        return kubeletless.Play(phase="Failed", exit_code=stages.EXIT_PERMANENT, message=report.encode(said))

    async with kubeletless.playing(api, namespace, refuse):
        stored = await reached(api, namespace, lambda status: reason_of("Accepted")(status) == "SourceUnreadable")
        assert reason_of("Failed")(stored["status"]) == "Running"
        await asyncio.sleep(2.0)
        assert len(await api.items(kinds.POD, namespace)) == 1
    async with played(api, namespace):
        await api.merge(kinds.DRAFT_TRAINING_JOB, namespace, "head", {"spec": {"target": {"uri": "pvc://models/k2"}}})
        await reached(api, namespace, lambda status: status.get("phase") == "Complete")
    assert running.lines("pass")


async def test_spec_is_refused_once_the_run_has_started(api, namespace, running):
    """The message says what may still change; a raised deadline is one of these."""
    async with played_until(api, namespace, "prepare"):
        await reached(api, namespace, lambda status: "startTime" in status)
        with pytest.raises(Exception, match="the run has started: only suspend"):
            await api.merge(kinds.DRAFT_TRAINING_JOB, namespace, "head", {"spec": {"draft": {"layers": 2}}})
        await api.merge(kinds.DRAFT_TRAINING_JOB, namespace, "head", {"spec": {"activeDeadline": "99998h"}})
    assert running.lines("pass")
