"""What the files of target and head say decides before a GPU is asked for: on a real API server, pods are played."""

import pytest

import harness
import kubeletless
from api import builders as api_builders
from checkpoints import builders as checkpoints
from paceline.api import names, report, stages
from paceline.checkpoints import head as heads
from paceline.checkpoints import target as targets
from paceline.planning import kinds
from rollout import builders

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

QWEN, KIMI, KIMI_HEAD = "Qwen--Qwen3.5-397B-A17B", "moonshotai--Kimi-K2.5", "heads/specforge--kimi-k25-eagle3"


@pytest.fixture
async def operator(control_plane, namespace, tmp_path):
    """An operator confined to the namespace."""
    settings = {
        "PACELINE_NAMESPACE": namespace,
        "PACELINE_NAMESPACES": namespace,
        "PACELINE_STAGE_IMAGE": "paceline/stages:test",
    }
    with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "log", **settings) as running:
        await running.ready()
        yield running
        assert running.lines("pass_crashed") == []


def inspected(target, head=None, *, names_of=None):
    """Return what Inspect reports of public files."""
    weights = checkpoints.index(names_of) if names_of else None
    return builders.inspected().model_copy(
        update={
            "checkpoint": targets.read(checkpoints.config(target), weights=weights),
            "head": heads.read(checkpoints.config(head)) if head else None,
        }
    )


def playing(api, namespace, result):
    """Let inspections report ``result``, and all other pods run for ever."""
    told = report.encode(stages.StageReport(result=result))

    def play(pod):
        labels = pod["metadata"]["labels"]
        reads = "inspect" in (labels.get(names.LABEL_STAGE), labels.get(names.LABEL_PART))
        return kubeletless.Play(phase="Succeeded", message=told) if reads else kubeletless.Play(phase="Running")

    return kubeletless.playing(api, namespace, play)


def reason(status, kind):
    """Return a condition's reason."""
    return next((one["reason"] for one in status.get("conditions", ()) if one["type"] == kind), "")


async def test_training_for_a_target_with_working_mtp_is_skipped(api, namespace, operator, kubectl):
    """Nothing but the inspection has run, and a person sees why; told to train all the same, a run starts."""
    job = api_builders.training_job("head")
    job["metadata"]["namespace"] = namespace
    async with playing(api, namespace, inspected(QWEN, names_of="qwen3.5-with-mtp")):
        await api.create(kinds.DRAFT_TRAINING_JOB, job)
        stored = await harness.reached(
            api, kinds.DRAFT_TRAINING_JOB, namespace, "head", lambda status: status.get("phase") == "Skipped"
        )
        status = stored["status"]
        assert reason(status, "Skipped") == "NativeMTP"
        assert status["checkpoint"]["mtp"].startswith("usable: declared (text_config.mtp_num_hidden_layers = 1)")
        assert status["checkpoint"]["choice"] == "native-mtp"
        assert "startTime" not in status
        assert [one["metadata"]["labels"][names.LABEL_STAGE] for one in await api.items(kinds.POD, namespace)] == [
            "inspect"
        ]
        shown = " ".join(kubectl("describe", "dtj", "head", "-n", namespace).split())
        assert "Choice: native-mtp" in shown
        assert "Decision: use-native-mtp" in shown
        assert "Mtp: usable: declared (text_config.mtp_num_hidden_layers = 1), weights present" in shown
        told = api_builders.training_job("told", trainDespiteMtp=True)
        told["metadata"]["namespace"] = namespace
        await api.create(kinds.DRAFT_TRAINING_JOB, told)
        await harness.reached(api, kinds.DRAFT_TRAINING_JOB, namespace, "told", lambda status: "startTime" in status)
    assert operator.lines("pass")


async def test_head_that_the_engine_cannot_run_gets_no_server(api, namespace, operator):
    """The target serves without a draft, and the status says which version is needed."""
    manifest = builders.deployment()
    manifest["metadata"] = {"name": manifest["metadata"]["name"], "namespace": namespace}
    manifest["spec"]["engine"] |= {"version": "0.15.1", "tensorParallelSize": 8}
    async with playing(api, namespace, inspected(KIMI, KIMI_HEAD)):
        await api.create(kinds.SPECULATIVE_DEPLOYMENT, manifest)
        name = manifest["metadata"]["name"]
        stored = await harness.reached(
            api,
            kinds.SPECULATIVE_DEPLOYMENT,
            namespace,
            name,
            lambda status: reason(status, "Accepted") == "MethodUnsupported" and status.get("speculation") == "None",
        )
        told = stored["status"]["checkpoint"]
        (refused,) = [one for one in told["problems"] if one["severity"] == "error"]
        assert refused["code"] == "EngineUnsupported"
        assert refused["message"].endswith("0.18 or later is needed")
        assert told["head"].startswith("eagle3, LlamaForCausalLMEagle3, reads layers [2, 30, 58]")
        revisions = await api.items(kinds.CONTROLLER_REVISION, namespace)
        assert [one["data"]["inputs"]["method"] for one in revisions] == ["None"]
    assert operator.lines("pass")
