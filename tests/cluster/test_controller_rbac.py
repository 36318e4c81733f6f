"""The chart's roles are enough for both rooms, and no more than that: the operator runs as its ServiceAccount."""

import asyncio

import pytest

import chartroles
import harness
import killproxy
import kubeletless
import playbook
from api import builders
from paceline.planning import kinds

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
# Verbs that no test can see used: kopf's and the garbage collector's rights, and what only an unlucky pass needs.
UNSEEN = {
    ("update", "paceline.dev", "speculativedeployments/finalizers"),  # asked by an admission plugin that is off here
    ("update", "paceline.dev", "drafttrainingjobs/finalizers"),
    ("get", "apps", "deployments"),  # adoption after a lost answer
    ("get", "apps", "controllerrevisions"),
    ("get", "batch", "jobs"),
    ("get", "", "pods/log"),  # of an engine that ends before it is ready; played pods have no log
    ("list", "", "events"),  # about a server that has a node and does not start; played pods start at once
    ("delete", "", "services"),
    ("get", "policy", "poddisruptionbudgets"),
    ("delete", "policy", "poddisruptionbudgets"),  # when it is switched off
    ("delete", "apps", "controllerrevisions"),  # beyond the history limit
    ("delete", "paceline.dev", "drafttrainingjobs"),  # past its TTL
}


@pytest.mark.parametrize("confined", [True, False])
async def test_roles_are_enough_for_both_rooms(control_plane, api, namespace, tmp_path, confined):
    """A training run and a promotion without one request refused, with a Role in each namespace or a ClusterRole."""
    values = [f"watchNamespaces={{{namespace}}}"] if confined else [f"fullnameOverride=rights-{namespace}"]
    documents = chartroles.roles(control_plane, namespace, *values)
    name = documents[-1]["subjects"][0]["name"]
    settings = {
        "PACELINE_NAMESPACE": namespace,
        "PACELINE_LEASE_NAME": documents[-1]["roleRef"]["name"][: -len("-lease")],
    }
    settings |= {"PACELINE_NAMESPACES": namespace, "PACELINE_FORECAST": "false"} if confined else {}
    user = f"system:serviceaccount:{namespace}:{name}"
    with chartroles.applied(control_plane, documents):
        async with killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path, impersonate=user) as (
            proxy,
            proxied,
        ):
            with harness.run_operator(proxied, log=tmp_path / "log", **settings) as operator:
                await operator.ready()
                await live(api, namespace)
            # An operator of the whole cluster meets what other tests left; namespaces on their way out take no events.
            others = [one for one in proxy.forbidden if "/namespaces/" in one.path and f"/{namespace}/" not in one.path]
            assert [one for one in proxy.forbidden if one not in others] == []


async def live(api, namespace):
    """Train a head, promote a candidate of two replicas, and see the other arm go."""
    served = builders.deployment("served", speculation={"method": "Ngram"}, replicas=2)
    served["spec"]["rollout"]["deadlines"] = {"draining": "1s"}
    await make(api, kinds.DRAFT_TRAINING_JOB, namespace, builders.training_job("head"))
    await make(api, kinds.SPECULATIVE_DEPLOYMENT, namespace, served)
    script = playbook.Playbook(api=api, namespace=namespace, speeds={"Ngram": 150.0})
    async with kubeletless.playing(api, namespace, script):
        await harness.reached(api, kinds.DRAFT_TRAINING_JOB, namespace, "head", is_complete)
        await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, namespace, "served", speculates)
        async with asyncio.timeout(60):
            while len(await api.items(kinds.DEPLOYMENT, namespace)) > 1:
                await asyncio.sleep(0.2)


async def make(api, kind, namespace, manifest):
    """Make a resource of ours."""
    await api.create(kind, {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}})


def is_complete(status):
    """Whether a training job is through."""
    return status.get("phase") == "Complete"


def speculates(status):
    """Whether the promoted revision drafts."""
    return (status.get("stable") or {}).get("method") == "Ngram"


async def test_no_role_holds_a_verb_that_nothing_uses(control_plane, api, namespace, tmp_path):
    """What the rooms' whole lives did not ask for is listed here, with its reason, or is too much."""
    documents = chartroles.roles(control_plane, namespace, f"watchNamespaces={{{namespace}}}")
    granted = {
        (verb, group, resource)
        for document in documents
        if document["kind"] == "Role"
        for rule in document["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    settings = {"PACELINE_NAMESPACE": namespace, "PACELINE_NAMESPACES": namespace, "PACELINE_FORECAST": "false"}
    async with killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path) as (proxy, proxied):
        with harness.run_operator(proxied, log=tmp_path / "log", **settings) as operator:
            await operator.ready()
            await live(api, namespace)
            operator.stop()
        used = {(one.verb, one.group, one.resource) for one in proxy.asked}
    assert granted - used <= UNSEEN <= granted
    assert "secrets" not in {resource for _, _, resource in granted}
