"""The Helm chart: rendered by Helm, taken by an API server under restricted pod security, with no right too many."""

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bedctl import provider
from paceline.api import crd
from paceline.controller.settings import Settings

pytestmark = pytest.mark.cluster

CHART = Path(__file__).parents[2] / "charts" / "paceline"
# Another name than that of the objects which other tests make by hand.
RELEASE = "trial-paceline"
Run = Callable[..., "subprocess.CompletedProcess[str]"]
# Everything that can be switched on, so that every template is rendered; a ServiceMonitor needs CRDs of its own.
EVERYTHING = {
    "replicas": 2,
    "gateway": {"enabled": True},
    "imagePullSecrets": [{"name": "registry"}],
    "extraEnv": [{"name": "PACELINE_LEASE_DURATION", "value": "20s"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
    "podAnnotations": {"example.com/a": "b"},
    "podDisruptionBudget": {"enabled": True},
    "serviceAccount": {"annotations": {"example.com/a": "b"}},
    "tolerations": [{"operator": "Exists"}],
    "priorityClassName": "system-cluster-critical",
}


@pytest.fixture(scope="module")
def run(control_plane: provider.Cluster) -> Run:
    """Run helm or kubectl against the cluster; what they say is the result."""

    def call(*words: str | Path, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        command = [str(word) for word in words]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, input=stdin, env=control_plane.environment()
        )

    return call


@pytest.fixture(scope="module")
def namespace(run: Run) -> Iterator[str]:
    """A namespace that admits restricted pods only."""
    name = f"chart-{uuid.uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    _good(run("kubectl", "apply", "-f", "-", stdin=json.dumps(document)))
    yield name
    _good(run("kubectl", "delete", "namespace", name, "--wait=false"))


def test_kubectl_reads_the_generated_files_as_they_are_meant(run: Run) -> None:
    """kubectl and Helm have another idea of YAML than PyYAML."""
    for resource in crd.RESOURCES:
        file = CHART / "crds" / resource.file_name
        read = json.loads(_good(run("kubectl", "create", "--dry-run=client", "--output=json", "--filename", file)))
        assert read["spec"] == crd.definition(resource)["spec"]


def test_lint_finds_nothing(run: Run) -> None:
    """Warnings count."""
    _good(run("helm", "lint", "--strict", CHART))


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("replica=2", "additional properties 'replica' not allowed"),
        ("image.pullPolicy=Sometimes", "value must be one of 'Always', 'IfNotPresent', 'Never'"),
        ("serviceAccount.create=false", "/serviceAccount/name"),
        ("resync=10d", "'10d' does not match pattern"),
        ("stageImage=", "/stageImage"),
    ],
)
def test_wrong_value_is_refused_with_its_name(run: Run, setting: str, problem: str) -> None:
    """A typo is an error, and not silence."""
    refused = run("helm", "template", "paceline", CHART, "--set", setting)
    assert refused.returncode != 0
    assert problem in refused.stderr


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_api_server_takes_every_object(run: Run, namespace: str, tmp_path: Path, values: dict[str, Any]) -> None:
    """Unknown fields are errors to the server's dry run."""
    rendered = _rendered(run, namespace, tmp_path, values)
    _good(run("kubectl", "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=rendered))


def test_namespaced_mode_makes_no_cluster_wide_right(run: Run, namespace: str, tmp_path: Path) -> None:
    """One team's operator holds nothing outside of its namespaces."""
    rendered = _rendered(run, namespace, tmp_path, {"watchNamespaces": [namespace]})
    _good(run("kubectl", "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=rendered))
    documents = [document for document in yaml.safe_load_all(rendered) if document]
    assert not [document for document in documents if document["kind"].startswith("ClusterRole")]
    assert _environment(documents)["PACELINE_NAMESPACES"] == namespace


def test_service_monitor_is_made_on_request(run: Run, namespace: str, tmp_path: Path) -> None:
    """With the Service whose port it names."""
    values = {"metrics": {"service": {"enabled": False}, "serviceMonitor": {"enabled": True, "labels": {"team": "a"}}}}
    kinds = {document["kind"]: document for document in yaml.safe_load_all(_rendered(run, namespace, tmp_path, values))}
    assert kinds["ServiceMonitor"]["spec"]["endpoints"][0]["port"] == kinds["Service"]["spec"]["ports"][0]["name"]


def test_pod_is_admitted_under_restricted_pod_security(run: Run, namespace: str, tmp_path: Path) -> None:
    """The namespace refuses any other pod."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "paceline", "namespace": namespace}}
    _good(run("kubectl", "apply", "-f", "-", stdin=json.dumps(account)))
    documents = [*yaml.safe_load_all(_rendered(run, namespace, tmp_path, EVERYTHING))]
    template = next(document for document in documents if document["kind"] == "Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**pod["metadata"], "name": "operator", "namespace": namespace}
    _good(run("kubectl", "create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod)))
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    assert (
        "violates PodSecurity" in run("kubectl", "create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod)).stderr
    )


def test_operator_reads_the_environment_that_the_chart_gives(run: Run, namespace: str, tmp_path: Path) -> None:
    """A setting renamed on one side only would be ignored for ever."""
    values = {**EVERYTHING, "watchNamespaces": [namespace], "resync": "5m", "workers": 3, "logLevel": "debug"}
    environment = _environment([*yaml.safe_load_all(_rendered(run, namespace, tmp_path, values))])
    assert {name.removeprefix("PACELINE_").lower() for name in environment} <= set(Settings.model_fields)
    settings = Settings.from_environment(environment)
    assert (settings.resync, settings.workers, settings.log_level) == (300, 3, "debug")
    assert (settings.lease_name, settings.namespaces, settings.lease_duration) == ("paceline", (namespace,), 20)


def test_installation_gives_the_kinds_and_no_right_too_many(run: Run, namespace: str) -> None:
    """What the account may do is asked of the API server itself."""
    _good(run("helm", "install", RELEASE, CHART, "--namespace", namespace))
    try:
        for resource in crd.RESOURCES:
            name = f"crd/{resource.plural}.paceline.dev"
            _good(run("kubectl", "wait", "--for=condition=Established", name, "--timeout=30s"))
        for words in ("list speculativedeployments.paceline.dev", "create jobs.batch", "patch services", "watch pods"):
            assert _may(run, namespace, words), words
        assert _may(run, namespace, "patch drafttrainingjobs.paceline.dev --subresource=status")
        # Reading only: free GPUs by node, and why a server of ours does not come up.
        for words in ("list nodes", "list persistentvolumeclaims", "get pods --subresource=log", "list events"):
            assert _may(run, namespace, words), words
        for words in ("get secrets", "patch nodes", "create pods", "create pods --subresource=exec", "delete pods"):
            assert not _may(run, namespace, words), words
        # Routes are other people's, and only asked for where gateway.enabled says so.
        assert not _may(run, namespace, "list httproutes.gateway.networking.k8s.io")
        for words in ("create speculativedeployments.paceline.dev", "create rolebindings", "delete namespaces"):
            assert not _may(run, namespace, words), words
        assert not _may(run, namespace, "create serviceaccounts --subresource=token")
    finally:
        _good(run("helm", "uninstall", RELEASE, "--namespace", namespace))


def _rendered(run: Run, namespace: str, folder: Path, values: dict[str, Any]) -> str:
    """Return the chart's objects as YAML."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return _good(run("helm", "template", "paceline", CHART, "--namespace", namespace, "--values", file))


def _environment(documents: list[dict[str, Any]]) -> dict[str, str]:
    """Return the environment of the operator's container; what Kubernetes fills in is left out."""
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    entries = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    return {entry["name"]: entry["value"] for entry in entries if "value" in entry}


def _may(run: Run, namespace: str, words: str) -> bool:
    """Whether the operator's account may do this in some other namespace."""
    account = f"system:serviceaccount:{namespace}:{RELEASE}"
    answer = run("kubectl", "auth", "can-i", *words.split(), "--namespace", "default", f"--as={account}")
    assert answer.stdout.strip() in {"yes", "no"}, answer.stderr
    return answer.stdout.strip() == "yes"


def _good(done: "subprocess.CompletedProcess[str]") -> str:
    """Return what a command printed; it must have succeeded."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
