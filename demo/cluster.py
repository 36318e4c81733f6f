"""The cluster as the demo sees it: apply, read, wait. Thin on purpose; what it does, ``kubectl`` would do."""

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubernetes import client, config, dynamic

_POLL_S: Final = 2.0
_MANAGER: Final = "paceline-demo"
Document = Mapping[str, Any]


class WaitedTooLongError(RuntimeError):
    """Something did not happen in its time; the message says what was seen last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A reachable cluster, and the programs that work on it."""

    kubeconfig: Path
    api: dynamic.DynamicClient
    helm: str
    namespace: str

    @classmethod
    def connect(cls, *, kubeconfig: Path, helm: str, namespace: str) -> "Cluster":
        """Return a cluster by its kubeconfig."""
        made = client.ApiClient(_configuration(kubeconfig))
        return cls(kubeconfig=kubeconfig, api=dynamic.DynamicClient(made), helm=helm, namespace=namespace)

    def apply(self, document: Document) -> None:
        """Server-side apply."""
        self._resource(document["apiVersion"], document["kind"]).server_side_apply(
            body=dict(document),
            name=document["metadata"]["name"],
            namespace=document["metadata"].get("namespace", self.namespace),
            field_manager=_MANAGER,
            force_conflicts=True,
        )

    def get(self, api_version: str, kind: str, name: str, *, namespace: str = "") -> dict[str, Any] | None:
        """Return one object, or None."""
        try:
            found = self._resource(api_version, kind).get(name=name, namespace=namespace or self.namespace)
        except dynamic.exceptions.NotFoundError:
            return None
        return dict(found.to_dict())

    def list(self, api_version: str, kind: str, *, labels: str = "") -> list[dict[str, Any]]:
        """Return the objects of a kind in the namespace."""
        found = self._resource(api_version, kind).get(namespace=self.namespace, label_selector=labels)
        return list(found.to_dict()["items"])

    def patch(self, api_version: str, kind: str, name: str, change: Document) -> None:
        """Merge-patch, as an edit by a person would be."""
        self._resource(api_version, kind).patch(
            name=name, namespace=self.namespace, body=dict(change), content_type="application/merge-patch+json"
        )

    def wait(
        self, what: str, look: Callable[[], Any], *, timeout_s: float, say: Callable[[], None] = lambda: None
    ) -> Any:
        """Return the first truthy answer of ``look``; an API server that is too busy to answer is asked again.

        Raises:
            WaitedTooLongError: when there is none in time.
        """
        deadline = time.monotonic() + timeout_s
        while not (answer := _unless_busy(look)):
            if time.monotonic() > deadline:
                raise WaitedTooLongError(f"{what} did not happen within {timeout_s:.0f} s")
            say()
            time.sleep(_POLL_S)
        return answer

    def helm_install(self, *, release: str, chart: Path, namespace: str, values: Sequence[str]) -> None:
        """Install or upgrade a chart and wait until its pods are ready.

        Raises:
            RuntimeError: when Helm fails; carries its words.
        """
        arguments = [self.helm, "upgrade", "--install", release, str(chart), "--kubeconfig", str(self.kubeconfig)]
        arguments += ["--namespace", namespace, "--create-namespace", "--wait", "--timeout", "180s"]
        for value in values:
            arguments += ["--set", value]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"helm could not install {chart.name}: {done.stderr.strip()}")

    def post_to_service(self, service: str, path: str, body: str) -> dict[str, Any]:
        """Return the JSON answer of ``http://SERVICE/PATH``, asked through the API server's proxy.

        Args:
            service: ``NAME:PORT`` in the namespace.
            path: what follows, without a leading slash.
            body: JSON text.
        """
        address = f"/api/v1/namespaces/{self.namespace}/services/{service}/proxy/{path}"
        response = self.api.request("post", address, body=json.loads(body), serialize=False, _request_timeout=300)
        answer: dict[str, Any] = json.loads(response.data)
        return answer

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace with all that is in it."""
        self._resource("v1", "Namespace").delete(name=name)

    def _resource(self, api_version: str, kind: str) -> Any:
        return self.api.resources.get(api_version=api_version, kind=kind)


def _unless_busy(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except (dynamic.exceptions.ServerTimeoutError, dynamic.exceptions.ServiceUnavailableError):
        return None


def _configuration(kubeconfig: Path) -> client.Configuration:
    made = client.Configuration()
    config.load_kube_config(config_file=str(kubeconfig), client_configuration=made)
    return made
