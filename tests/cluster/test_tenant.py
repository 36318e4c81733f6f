"""A tenant who may only make our resources: what that reaches, asked of a real API server with the chart's own roles.

Making one of our resources equals making pods in that namespace, and no more. So nothing outside the namespace is
reached, neither by the tenant nor by the operator on their behalf; no credential of the operator, nor of the pods' own
account, is mounted; and the operator itself may read no Secret anywhere.
"""

import contextlib

import pytest
from aiohttp import web
from kubernetes.aio import client

import chartroles
import harness
import killproxy
import life
from api import builders
from paceline.controller import apiserver, errors
from paceline.planning import kinds

SECRET = kinds.Kind(api_version="v1", kind="Secret", plural="secrets")
FORBIDDEN_RESOURCES = {"secrets", "serviceaccounts", "pods/exec", "pods/attach", "pods/portforward", "namespaces", "*"}
FORBIDDEN_VERBS = {"impersonate", "escalate", "bind", "*", "deletecollection"}


class Recorder(killproxy.KillProxy):
    """Remembers every path that was asked for."""

    def __init__(self, configuration: client.Configuration, *, impersonate: str) -> None:
        super().__init__(configuration, impersonate=impersonate)
        self.paths: set[str] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Note the path and pass the request on."""
        self.paths.add(request.path)
        return await super().handle(request)


@contextlib.asynccontextmanager
async def acting_as(user, *, kubeconfig, folder):
    """Serve a proxy whose requests are made as ``user``."""
    folder.mkdir()
    configuration = client.Configuration()
    await apiserver.config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    async with killproxy.served(Recorder(configuration, impersonate=user), folder=folder) as opened:
        yield opened


def tenancy(namespace):
    """Return a user with every right on our resources in one namespace, and no other."""
    user = f"tenant-of-{namespace}"
    group = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["paceline.dev"], "resources": ["speculativedeployments", "drafttrainingjobs"], "verbs": ["*"]}
    place = {"name": "tenant", "namespace": namespace}
    return user, [
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": place, "rules": [rule]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": place,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "tenant"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        },
    ]


@pytest.mark.cluster
@pytest.mark.timeout(300)
async def test_resources_of_a_tenant_reach_nothing_beyond_their_namespace(control_plane, api, namespace, tmp_path):
    """Both kinds live their whole lives: every request of a cluster-wide operator stays where the resources are."""
    user, rights = tenancy(namespace)
    documents = chartroles.roles(control_plane, namespace, f"fullnameOverride=tenant-{namespace}")
    account = f"system:serviceaccount:{namespace}:{documents[-1]['subjects'][0]['name']}"
    settings = {
        "PACELINE_NAMESPACE": namespace,
        "PACELINE_LEASE_NAME": documents[-1]["roleRef"]["name"][: -len("-lease")],
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace}}
    await api.create(SECRET, secret)
    with chartroles.applied(control_plane, [*documents, *rights]):
        async with (
            acting_as(account, kubeconfig=control_plane.kubeconfig, folder=tmp_path / "operator") as (proxy, proxied),
            acting_as(user, kubeconfig=control_plane.kubeconfig, folder=tmp_path / "tenant") as (_, theirs),
            harness.connect(theirs) as tenant,
        ):
            await refused_to(tenant, namespace)
            for kind, name in ((SECRET, "s"), (kinds.POD, "p"), (kinds.CONFIG_MAP, "c")):
                with pytest.raises(errors.RefusedError, match="forbidden"):
                    await tenant.get(kind, namespace, name)
            one = life.Life(api, namespace)
            with harness.run_operator(proxied, log=tmp_path / "log", **settings) as operator:
                async with one.played():
                    await life.Life(tenant, namespace).begin()
                    await one.ended(operator=operator)
                    pods = await api.items(kinds.POD, namespace)
    assert pods
    for pod in pods:
        assert credentials(pod["spec"]) == [], pod["metadata"]["name"]
    assert {one.resource for one in proxy.asked} & FORBIDDEN_RESOURCES == set()
    # Beside whole kinds it asked for this namespace; other tests may have left resources of ours, these places none.
    assert f"/api/v1/namespaces/{namespace}/configmaps" in proxy.paths
    assert not [path for path in proxy.paths for place in ("kube-system", "default") if f"/namespaces/{place}/" in path]


async def refused_to(tenant, namespace):
    """Check that the tenant reaches no other namespace, not even by our kinds."""
    for path in (
        "/api/v1/secrets",
        "/api/v1/namespaces",
        "/apis/paceline.dev/v1alpha1/speculativedeployments",
        "/apis/paceline.dev/v1alpha1/namespaces/default/drafttrainingjobs",
        "/api/v1/namespaces/kube-system/secrets",
        f"/api/v1/namespaces/{namespace}/secrets",
    ):
        with pytest.raises(errors.RefusedError, match="forbidden"):
            await tenant.server.request("GET", path)
    token = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    with pytest.raises(errors.RefusedError, match="forbidden"):
        await tenant.server.request("POST", token, body={"kind": "TokenRequest", "spec": {}})


def credentials(spec):
    """Return what in a pod would give it rights, or the node: tokens, Secrets, host paths and host namespaces."""
    found = [volume["name"] for volume in spec.get("volumes", ()) if {"secret", "projected", "hostPath"} & set(volume)]
    found += [name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    if spec.get("automountServiceAccountToken") is not False:
        found.append("token")
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        context = container.get("securityContext") or {}
        if context.get("privileged") or context.get("allowPrivilegeEscalation") is not False:
            found.append(f"privileges of {container['name']}")
    return found


SMUGGLED = {
    "a file of the node": {"target": {"uri": "file:///etc/passwd"}},
    "a metadata address": {"target": {"uri": "http://169.254.169.254/latest"}},
    "a chained URL": {"target": {"uri": "hf://a/b::http://169.254.169.254/x"}},
    "another claim by a climb": {"target": {"uri": "pvc://models/../other"}},
    "code of a moving branch": {"target": {"uri": "hf://a/b", "trustRemoteCode": True}},
}
DROPPED = {
    "a host path": {"engine": {"podTemplate": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}}},
    "a privileged container": {"engine": {"podTemplate": {"securityContext": {"privileged": True}}}},
    "a mounted token": {"engine": {"podTemplate": {"automountServiceAccountToken": True}}},
    "the host's network": {"engine": {"podTemplate": {"hostNetwork": True}}},
    "another namespace's head": {
        "speculation": {
            "method": "EAGLE3",
            "numSpeculativeTokens": 3,
            "trainingJobRef": {"name": "head", "namespace": "other"},
        }
    },
}


@pytest.mark.cluster
@pytest.mark.parametrize("spec", SMUGGLED.values(), ids=SMUGGLED)
async def test_source_outside_the_list_is_refused(api, namespace, spec):
    """By the API server itself, before any pod is made."""
    with pytest.raises(errors.RefusedError):
        await life.Life(api, namespace).make(builders.deployment("smuggler", **spec))


@pytest.mark.cluster
@pytest.mark.parametrize("spec", DROPPED.values(), ids=DROPPED)
async def test_part_of_a_pod_outside_the_list_is_dropped(api, namespace, spec):
    """It is in no stored object, so nothing could render it."""
    await life.Life(api, namespace).make(builders.deployment("smuggler", **spec))
    stored = await api.get(kinds.SPECULATIVE_DEPLOYMENT, namespace, "smuggler")
    text = str(stored["spec"])
    assert not [word for word in ("hostPath", "privileged", "automount", "hostNetwork", "'other'") if word in text]


@pytest.mark.cluster
@pytest.mark.parametrize("values", [("readNodes=true",), ("watchNamespaces={a,b}",)], ids=["everywhere", "confined"])
def test_roles_hold_no_way_to_more_rights(control_plane, values):
    """No Secret, no token, no shell in a pod, no other's rights, nothing by wildcard."""
    for document in chartroles.roles(control_plane, "default", *values):
        for rule in document.get("rules", ()):
            assert not FORBIDDEN_RESOURCES & set(rule["resources"]), document["metadata"]["name"]
            assert not FORBIDDEN_VERBS & set(rule["verbs"]), document["metadata"]["name"]
            assert "*" not in rule["apiGroups"]
            assert "pods" not in rule["resources"] or set(rule["verbs"]) <= {"get", "list", "watch"}
