"""A spec is refused, or goes on, by what the files of target and head say, before any server is made."""

from typing import Any

import pytest

from checkpoints import builders as checkpoints
from paceline.api import stages
from paceline.api.speculativedeployment import SpeculativeDeploymentSpec
from paceline.checkpoints import head as heads
from paceline.checkpoints import target as targets
from paceline.planning import plan
from paceline.rollout.resolving import headsource, inspection, resolve
from rollout import builders
from rollout.cluster import Cluster

KIMI, LLAMA = "moonshotai--Kimi-K2.5", "meta-llama--Llama-3.1-8B-Instruct"
KIMI_HEAD = "heads/specforge--kimi-k25-eagle3"


def read(target: str, head: str | None = None, *, names: str | None = None) -> stages.InspectResult:
    """Return what Inspect reports of public files."""
    weights = checkpoints.index(names) if names else None
    return builders.inspected().model_copy(
        update={
            "checkpoint": targets.read(checkpoints.config(target), weights=weights),
            "head": heads.read(checkpoints.config(head)) if head else None,
        }
    )


def resolved(result: stages.InspectResult, *, version: str = "0.33.0", tp: int = 8, **spec: Any) -> resolve.Resolution:
    """Return what a spec comes down to whose files were read."""
    made = builders.spec(**spec)
    made["engine"] = {**made["engine"], "version": version, "tensorParallelSize": tp}
    parsed = SpeculativeDeploymentSpec.model_validate(made)
    source = headsource.find(parsed, None, {})
    return resolve.resolve(parsed, source, inspection.Inspection(result=result, target=result), {})


def test_fitting_head_is_desired_and_its_doubts_are_told() -> None:
    """Warnings forbid nothing: the measurement decides."""
    found = resolved(read(KIMI, KIMI_HEAD))
    assert found.desired is not None
    assert found.checkpoint is not None
    assert found.checkpoint.choice == "reuse-head"
    assert "HeadOriginUnknown" in {one.code for one in found.checkpoint.problems}
    assert "with 2 warnings" in found.message


@pytest.mark.parametrize(
    ("target", "head", "changes", "reason", "said"),
    [
        (LLAMA, KIMI_HEAD, {"tp": 1}, "HeadMismatch", "hidden states of size 7168 and the target's have 4096"),
        (KIMI, "traps/head-heads-not-divisible-by-8", {}, "HeadMismatch", "28 attention heads"),
        (KIMI, KIMI_HEAD, {"version": "0.15.1"}, "MethodUnsupported", "0.18 or later is needed"),
        (KIMI, "heads/yuhuili--EAGLE-LLaMA3-Instruct-8B", {}, "HeadMismatch", "cannot be run as eagle3"),
    ],
    ids=["another-model", "parallelism", "engine", "method"],
)
def test_head_that_cannot_be_used_is_refused_and_the_target_serves_without(
    target: str, head: str, changes: dict[str, Any], reason: str, said: str
) -> None:
    """Every reason at once, each with what to change; the server without a draft is still wanted."""
    found = resolved(read(target, head), **changes)
    assert (found.accepted, found.reason.value, found.desired) == (False, reason, None)
    assert said in found.message
    assert found.baseline is not None


def test_head_that_cannot_be_read_is_unavailable() -> None:
    """Both sources are looked at before anything is started; another head would not fit better."""
    result = read(KIMI).model_copy(update={"head_problems": ["head folder /mnt/paceline/x does not exist"]})
    found = resolved(result)
    assert (found.accepted, found.reason.value, found.desired) == (False, "DraftUnavailable", None)
    assert found.baseline is not None


def test_target_that_cannot_be_divided_starts_no_server_at_all() -> None:
    """Not even without a draft; what serves stays."""
    found = resolved(read("zai-org--GLM-4.7-Flash"), speculation={"method": "None"})
    assert (found.accepted, found.reason.value, found.baseline) == (False, "TargetUnfit", None)
    assert "use TP 1, 2, 4 and 5" in found.message
    assert found.checkpoint is not None
    assert found.checkpoint.decision == "reject-at-tp8"


@pytest.mark.parametrize(
    ("target", "names", "is_refused"),
    [
        ("Qwen--Qwen3.5-397B-A17B", "qwen3.5-with-mtp", False),
        ("Qwen--Qwen3.5-397B-A17B", None, False),
        ("Qwen--Qwen3.5-397B-A17B", "qwen3.5-mtp-partial_fc_only", True),
        ("MiniMaxAI--MiniMax-M2", "minimax-m2.7-no-mtp", True),
        (KIMI, None, True),
    ],
)
def test_method_mtp_needs_mtp(target: str, names: str | None, is_refused: bool) -> None:  # noqa: FBT001 - a column of the table
    """An engine would draft from uninitialised memory; weights that were not seen are left to the measurement."""
    found = resolved(read(target, names=names), speculation={"method": "MTP"})
    assert (found.desired is None) == is_refused
    if is_refused:
        assert found.reason.value == "MethodUnsupported"
        assert found.message.startswith("method MTP cannot be used. The target declares")


def test_files_read_by_an_older_version_are_left_to_the_measurement() -> None:
    """An upgrade of the operator refuses nothing that it did not refuse before."""
    found = resolved(builders.inspected())
    assert found.desired is not None
    assert found.checkpoint is None


def test_refused_head_is_told_in_status_before_a_server_with_it_exists() -> None:
    """And an engine that can run it is enough: nothing is read again."""
    cluster = Cluster()
    cluster.inspect = lambda _: stages.StageReport(result=read(KIMI, KIMI_HEAD))
    engine = {**cluster.resource["spec"]["engine"], "version": "0.15.1", "tensorParallelSize": 8}
    cluster.edit(engine=engine)
    cluster.settle()
    assert cluster.serving() == "None"
    assert cluster.condition("Accepted")["reason"] == "MethodUnsupported"
    told = cluster.resource["status"]["checkpoint"]
    assert told["mtp"].startswith("not usable: not declared")
    assert "EngineUnsupported" in {one["code"] for one in told["problems"]}
    cluster.speeds["EAGLE3 k=3"] = 1.5
    cluster.edit(engine={**engine, "version": "0.33.0"})
    cluster.settle()
    assert cluster.serving() == "EAGLE3 k=3"


def test_credentials_are_mounted_to_read_and_are_no_part_of_a_revision() -> None:
    """Renaming a Secret reads again and restarts nothing."""
    plain = resolved(read(KIMI, KIMI_HEAD))
    draft = {**builders.spec()["speculation"]["draft"], "credentialsSecret": "bucket"}
    target = {**builders.spec()["target"], "credentialsSecret": "hub"}
    speculation = {**builders.spec()["speculation"], "draft": draft}
    named = resolved(read(KIMI, KIMI_HEAD), target=target, speculation=speculation)
    assert plain.desired is not None
    assert named.desired is not None
    assert named.desired.digest == plain.desired.digest
    cluster = Cluster()
    cluster.edit(target=target, speculation=speculation)
    cluster.settle()
    mounted = str([one.manifest for one in cluster.writes if isinstance(one, plan.Create)])
    assert "'secretName': 'hub'" in mounted
    assert "'secretName': 'bucket'" in mounted
