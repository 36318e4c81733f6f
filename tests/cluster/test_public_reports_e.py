"""Public reports of how operators fail on Kubernetes, each with the test that shows the right outcome here.

- nolar/kopf 1088, a namespace stuck Terminating: test_namespace_goes_with_what_lives_in_it
- zalando-incubator/kopf 75, a resource stuck once its operator is gone: test_resources_go_without_an_operator
- nolar/kopf 1134, a deletion retried for days: test_resource_whose_children_are_refused_can_go
- nolar/kopf 585, a dead watch: test_chaos_faults.py, dead watches
- nolar/kopf 1178 and 641, an edit during a handler is lost: test_edits_in_mid_rollout_end_on_the_last_spec
- crate/crate-operator 115, a restart repeats all steps: test_chaos_kills.py
- zalando-incubator/kopf 113, a failed resume is not tried again: test_chaos_faults.py, every call fails once
- zalando-incubator/kopf 247, two operators on one resource: test_chaos_lease.py
- nolar/kopf 715, changes of a status are not seen: test_training_lifecycle.py, where a pod's status alone tells
- argoproj/argo-rollouts 841, a stable that crashes blocks: test_way_forward_from_a_stable_that_never_starts
- vllm-project/aibrix 2493, names beyond 63 characters: test_names_of_every_length_are_served_side_by_side
- opendatahub-io/odh-dashboard 3062, a bad name stops the controller: the same
- ai-dynamo/dynamo 10421 and 8069, templates in crds/, a webhook: test_definitions_are_plain_and_need_no_webhook
- Dynatrace/dynatrace-operator 4300, a stored version is dropped: test_stored_versions_are_kept_and_others_tolerated
- llm-d/llm-d 1430, kserve/kserve 5666, no writable home: test_restricted_namespace_takes_every_pod
- llm-d/llm-d-benchmark 37, an image that runs as root: the same
- a stale cache, 409 AlreadyExists of one's own child: test_chaos_faults.py, LOST; a foreign: test_controller_loop.py
"""

import asyncio
import contextlib
from pathlib import Path

import pytest
import yaml

import harness
import kubeletless
import life
from paceline.api import names
from paceline.api.speculativedeployment import SpeculativeDeploymentSpec
from paceline.controller import apiserver, errors
from paceline.planning import kinds

ROOT = Path(__file__).resolve().parents[2]
QUOTA = kinds.Kind(api_version="v1", kind="ResourceQuota", plural="resourcequotas")


@pytest.fixture
async def one(api, namespace):
    """A life in the test's namespace."""
    return life.Life(api, namespace, watched=[kinds.SPECULATIVE_DEPLOYMENT.kind])


@contextlib.contextmanager
def operating(control_plane, settings, tmp_path):
    """An operator, in which no pass crashes."""
    with harness.run_operator(control_plane.kubeconfig, log=tmp_path / "log", **settings) as operator:
        yield operator
        assert operator.lines("pass_crashed") == []


async def gone(api, path, *, within_s=60.0):
    """Wait until an object is gone."""
    async with asyncio.timeout(within_s):
        with contextlib.suppress(errors.NotFoundError):
            while await api.server.request("GET", path):
                await asyncio.sleep(0.2)


async def said(api, namespace, claim, name=life.SERVED):
    """Wait until a claim holds of a deployment's status."""
    return await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, namespace, name, claim)


def reason(kind):
    """Return what reads a condition's reason."""
    return lambda status: next((c["reason"] for c in status.get("conditions") or () if c["type"] == kind), "")


@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_namespace_goes_with_what_lives_in_it(control_plane, api, namespace, settings, tmp_path, one):
    """In mid-rollout, with the operator running: nothing of ours holds it back, and no pass is told of a refusal."""
    with operating(control_plane, settings, tmp_path) as operator:
        async with one.played():
            await one.begin()
            await said(api, namespace, lambda status: status.get("candidate"))
            path = f"/api/v1/namespaces/{namespace}"
            await api.server.request("DELETE", path, body={"propagationPolicy": "Background"})
            await gone(api, path, within_s=90.0)
        assert [line for line in operator.lines("pass") if line["outcome"] == "refused"] == []


@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_resources_go_without_an_operator(control_plane, api, namespace, settings, tmp_path, one):
    """Uninstalled first: the garbage collector takes the children, since nothing carries a finalizer."""
    with operating(control_plane, settings, tmp_path):
        async with one.played():
            await one.begin()
            await said(api, namespace, lambda status: status.get("stable"))
    for kind, name in ((kinds.SPECULATIVE_DEPLOYMENT, life.SERVED), (kinds.DRAFT_TRAINING_JOB, life.JOB)):
        await api.delete(kind, namespace, name)
        assert await api.get(kind, namespace, name) is None
    async with asyncio.timeout(60):
        while await one.children():
            await asyncio.sleep(0.3)


@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_resource_whose_children_are_refused_can_go(control_plane, api, namespace, settings, tmp_path, one):
    """The refusal is told with its reason; after the deletion nobody tries any more."""
    spec = {"hard": {"count/jobs.batch": "0"}}
    await api.create(
        QUOTA,
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": namespace}, "spec": spec},
    )
    with operating(control_plane, settings, tmp_path) as operator:
        await one.make(life.deployment())
        stored = await said(api, namespace, lambda status: reason("Accepted")(status) == "ObjectRefused")
        assert "exceeded quota" in str(stored["status"]["conditions"])
        await api.delete(kinds.SPECULATIVE_DEPLOYMENT, namespace, life.SERVED)
        await harness.until(
            lambda: bool([line for line in operator.lines("pass") if line["outcome"] == "gone"]),
            within_s=30,
            saying=operator.tail,
        )
        # Children that the garbage collector takes still wake somebody, who finds nothing to do.
        async with asyncio.timeout(60):
            while await one.children():
                await asyncio.sleep(0.3)
        await asyncio.sleep(1.0)
        passes = len(operator.lines("pass"))
        await asyncio.sleep(3.0)
        assert len(operator.lines("pass")) == passes


@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_edits_in_mid_rollout_end_on_the_last_spec(control_plane, api, namespace, settings, tmp_path, one):
    """A to B to A while A is measured: B is abandoned, and A serves in the end, with nothing of B left running."""

    async def held(pod):
        return None if pod["metadata"]["labels"].get(names.LABEL_PART) == "probe" else await one.play(pod)

    async def edit(tokens):
        before = await api.get(kinds.SPECULATIVE_DEPLOYMENT, namespace, life.SERVED)
        patch = {"spec": {"speculation": {"numSpeculativeTokens": tokens}}}
        await api.merge(kinds.SPECULATIVE_DEPLOYMENT, namespace, life.SERVED, patch)
        was = before["status"]["candidate"]["hash"]
        await said(api, namespace, lambda status: (status.get("candidate") or {}).get("hash") not in (None, was))

    with operating(control_plane, settings, tmp_path):
        async with kubeletless.playing(api, namespace, held):
            await one.make(life.deployment(speculation={"numSpeculativeTokens": 3}))
            await said(api, namespace, lambda status: (status.get("candidate") or {}).get("method") == "Ngram")
            await edit(5)
            await edit(3)
        async with one.played():
            await one.ended()
    stored = await api.get(kinds.SPECULATIVE_DEPLOYMENT, namespace, life.SERVED)
    assert stored["status"]["stable"]["numSpeculativeTokens"] == 3
    assert (await one.children())["Deployment/served-server"] == 1


@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_way_forward_from_a_stable_that_never_starts(control_plane, api, namespace, settings, tmp_path, one):
    """The first revision is never ready; an edit to one that is goes into service without waiting for it."""

    async def bad(pod):
        play = await one.play(pod)
        is_old = any("v0.33.0" in container["image"] for container in pod["spec"]["containers"])
        is_server = pod["metadata"]["labels"].get(names.LABEL_PART) == "server"
        return None if is_old and is_server else play

    with operating(control_plane, settings, tmp_path):
        async with kubeletless.playing(api, namespace, bad):
            await one.make(life.deployment(speculation={"method": "None"}))
            await said(api, namespace, lambda status: status.get("candidate"))
            patch = {"spec": {"engine": {"image": "vllm/vllm-openai:v0.34.0"}}}
            await api.merge(kinds.SPECULATIVE_DEPLOYMENT, namespace, life.SERVED, patch)
            await said(api, namespace, lambda status: reason("Available")(status) == "Serving")
            async with asyncio.timeout(60):
                while len(await api.items(kinds.DEPLOYMENT, namespace)) > 1:
                    await asyncio.sleep(0.3)
    (left,) = await api.items(kinds.DEPLOYMENT, namespace)
    assert "v0.34.0" in str(left["spec"]["template"])


@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_names_of_every_length_are_served_side_by_side(control_plane, api, namespace, settings, tmp_path, one):
    """Dots, 63 and 253 characters, equal in the first 250: each has its own Service and server, of legal names."""
    long = "n" + "x" * 249
    given = ["with.dots.in.it", "y" * 63, f"{long}aaa", f"{long}bbb"]
    with operating(control_plane, settings, tmp_path):
        async with one.played():
            await one.make(*(life.deployment(name, speculation={"method": "None"}) for name in given))
            for name in given:
                await said(api, namespace, lambda status: reason("Available")(status) == "Serving", name)
    services = await api.items(kinds.SERVICE, namespace)
    owners = {one["metadata"]["ownerReferences"][0]["name"] for one in services}
    assert owners == set(given)
    assert len({str(service["spec"]["selector"]) for service in services}) == len(given)
    for kind in (kinds.SERVICE, kinds.DEPLOYMENT, kinds.CONFIG_MAP, kinds.CONTROLLER_REVISION, kinds.POD):
        assert all(len(child["metadata"]["name"]) <= 63 for child in await api.items(kind, namespace)), kind.kind


@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_restricted_namespace_takes_every_pod(control_plane, api, namespace, settings, tmp_path):
    """Of a training run and a rollout: as some ordinary user, who finds every cache on a volume that can be written."""
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    path = f"/api/v1/namespaces/{namespace}"
    await api.server.request("PATCH", path, body=labels, content_type=apiserver.MERGE_PATCH)
    one, pods = life.Life(api, namespace), {}

    async def seen(pod):
        pods[pod["metadata"]["name"]] = pod
        return await one.play(pod)

    with operating(control_plane, settings, tmp_path) as operator:
        async with kubeletless.playing(api, namespace, seen):
            await one.begin()
            await one.ended(operator=operator)
    assert {"server", "probe", "inspect"} <= {pod["metadata"]["labels"].get(names.LABEL_PART) for pod in pods.values()}
    for pod in pods.values():
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
            assert homeless(pod["spec"], container) == [], pod["metadata"]["name"]


def homeless(spec, container):
    """Return the variables of a container that name a place it cannot write to, or that it lacks."""
    writable = {volume["name"] for volume in spec["volumes"] if "configMap" not in volume}
    roots = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in writable]
    given = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    wanted = ("HOME", "HF_HOME", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "VLLM_CACHE_ROOT")
    return [name for name in wanted if not any(given.get(name, "").startswith(root) for root in roots)]


def definitions():
    """Return the CRDs that are applied by hand and those in the chart, as text by path."""
    return {path: path.read_text() for folder in ("crds", "charts/paceline/crds") for path in (ROOT / folder).iterdir()}


def test_definitions_are_plain_and_need_no_webhook():
    """Helm does not render crds/, and a kind must be served while its operator is down."""
    found = definitions()
    assert len(found) == 2 * len(kinds.OURS)
    for text in found.values():
        assert "{{" not in text
        assert yaml.safe_load(text)["spec"].get("conversion", {"strategy": "None"})["strategy"] == "None"


def test_stored_versions_are_kept_and_others_tolerated():
    """What v1alpha1 has stored stays readable: the version is served and stored, and unknown fields are passed over."""
    for text in definitions().values():
        versions = {one["name"]: (one["served"], one["storage"]) for one in yaml.safe_load(text)["spec"]["versions"]}
        assert versions == {"v1alpha1": (True, True)}
    read = SpeculativeDeploymentSpec.model_validate
    newer = life.deployment()["spec"] | {"fieldOfALaterVersion": {"a": 1}}
    assert read(newer) == read(life.deployment()["spec"])
