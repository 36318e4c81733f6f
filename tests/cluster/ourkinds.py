"""A small client of our two kinds on a real API server: install the definitions, try an object, read it back."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from paceline.api import base, crd

Document = dict[str, Any]

PLURALS = {resource.kind: resource.plural for resource in crd.RESOURCES}
_APPLY = "application/apply-patch+yaml"


def install(api: client.ApiClient, *, timeout_s: float = 30) -> None:
    """Apply the definitions and wait until the API server serves both kinds."""
    definitions = client.ApiextensionsV1Api(api)
    for resource in crd.RESOURCES:
        document = crd.definition(resource)
        definitions.patch_custom_resource_definition(
            document["metadata"]["name"], document, field_manager="tests", force=True, _content_type=_APPLY
        )
    for resource in crd.RESOURCES:
        name = f"{resource.plural}.{base.GROUP}"
        until(lambda name=name: _established(definitions.read_custom_resource_definition(name)), timeout_s=timeout_s)


def _established(definition: Any) -> bool:
    """Whether the kind is served; a definition that breaks a rule of structure or cost says so instead."""
    conditions = {condition.type: condition for condition in definition.status.conditions or []}
    bad = conditions.get("NonStructuralSchema")
    if bad is not None and bad.status == "True":
        raise AssertionError(bad.message)
    return "Established" in conditions and conditions["Established"].status == "True"


def until(claim: Callable[[], bool], *, timeout_s: float) -> None:
    """Return when ``claim`` holds.

    Raises:
        AssertionError: when it does not within ``timeout_s`` seconds.
    """
    end = time.monotonic() + timeout_s
    while not claim():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_s} s")
        time.sleep(0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """Our kinds in one namespace of their own."""

    api: client.ApiClient
    namespace: str

    def refusal(self, document: Document) -> str:
        """Return why the API server would refuse ``document``; empty when it would not. Nothing is stored."""
        try:
            self.create(document, dry_run="All")
        except ApiException as error:
            return _message(error)
        return ""

    def create(self, document: Document, **options: Any) -> Document:
        """Return the object as the API server made it; unknown fields are an error, as with kubectl."""
        return self._objects.create_namespaced_custom_object(
            *self._place(document), document, field_validation="Strict", **options
        )

    def update(self, document: Document) -> Document:
        """Return the object after a PUT."""
        return self._objects.replace_namespaced_custom_object(*self._place(document), _name(document), document)

    def update_refusal(self, document: Document) -> str:
        """Return why the API server refused a PUT; empty when it did not."""
        try:
            self.update(document)
        except ApiException as error:
            return _message(error)
        return ""

    def write_status(self, document: Document) -> Document:
        """Return the object after a PUT of its status."""
        return self._objects.replace_namespaced_custom_object_status(*self._place(document), _name(document), document)

    def apply(self, document: Document, *, manager: str) -> Document:
        """Return the object after a server-side apply."""
        return self._objects.patch_namespaced_custom_object(
            *self._place(document), _name(document), document, field_manager=manager, _content_type=_APPLY
        )

    def scale(self, document: Document, replicas: int) -> Document:
        """Return the Scale after setting ``replicas`` through the subresource."""
        return self._objects.patch_namespaced_custom_object_scale(
            *self._place(document),
            _name(document),
            {"spec": {"replicas": replicas}},
            _content_type="application/merge-patch+json",
        )

    def read(self, document: Document) -> Document:
        """Return the stored object."""
        return self._objects.get_namespaced_custom_object(*self._place(document), _name(document))

    def table(self, kind: str) -> Document:
        """Return what ``kubectl get`` prints."""
        path = f"/apis/{base.API_VERSION}/namespaces/{self.namespace}/{PLURALS[kind]}"
        answer = self.api.call_api(
            "GET",
            self.api.configuration.host + path,
            header_params={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
        )
        return json.loads(answer.read())

    @property
    def _objects(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(self.api)

    def _place(self, document: Document) -> tuple[str, str, str, str]:
        return base.GROUP, base.VERSION, self.namespace, PLURALS[document["kind"]]


@contextmanager
def installed(kubeconfig: Path) -> Iterator[Kinds]:
    """Yield our kinds on the cluster of ``kubeconfig``, in a namespace that is deleted afterwards."""
    with config.new_client_from_config(str(kubeconfig)) as api:
        install(api)
        name = f"schema-{uuid.uuid4().hex[:8]}"
        core = client.CoreV1Api(api)
        core.create_namespace({"metadata": {"name": name}})
        try:
            yield Kinds(api=api, namespace=name)
        finally:
            core.delete_namespace(name)


def _name(document: Document) -> str:
    return document["metadata"]["name"]


def _message(error: ApiException) -> str:
    """Return the Status's message; the body of an answer that is no Status."""
    try:
        return json.loads(error.body)["message"]
    except (ValueError, KeyError, TypeError):
        return str(error.body)
