"""The Gateway API on a test's API server: its own CRD at a pinned version, and a gateway that is played.

The CRD is that of the Go module sigs.k8s.io/gateway-api (Apache License 2.0), checked against its sum.
"""

import asyncio
import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import harness
from paceline.controller import apiserver, errors
from paceline.planning import kinds

_VERSION = "v1.4.1"
_SUM = "h1:NPxFutNkKNa8UfLd2CMlEuhIPMQgDQ6DXNKG9sHbJU8="
_FILE = "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/httproutes.gateway.networking.k8s.io"
USER = "search-team"
ROUTE = "llm"


def definition(folder: Path) -> dict[str, Any]:
    """Return the CRD of HTTPRoute; ``folder`` is for the call alone, outside of any Go module."""
    if shutil.which("go") is None:
        pytest.skip("go is not there; it fetches the Gateway API's CRDs")
    words = ["go", "mod", "download", "-json", f"sigs.k8s.io/gateway-api@{_VERSION}"]
    done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=folder)
    found = json.loads(done.stdout)
    assert found["Sum"] == _SUM
    document: dict[str, Any] = yaml.load((Path(found["Dir"]) / _FILE).read_bytes(), Loader=yaml.CSafeLoader)
    return document


async def install(api: harness.Api, document: dict[str, Any]) -> None:
    """Apply the CRD, and wait until routes are served."""
    query = {"fieldManager": "tests", "force": "true"}
    await api.server.request("PATCH", CRD, query=query, body=document, content_type=apiserver.APPLY_PATCH)
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(errors.NotFoundError):
                await api.items(kinds.HTTP_ROUTE, "default")
                return
            await asyncio.sleep(0.2)


async def remove(api: harness.Api) -> None:
    """Take the kind away, with all routes, and wait until it is gone."""
    with contextlib.suppress(errors.NotFoundError):
        await api.server.request("DELETE", CRD, body={})
        async with asyncio.timeout(60):
            while True:
                await api.server.request("GET", CRD)
                await asyncio.sleep(0.2)


def route(namespace: str, service: str, *, timeout: str = "0s") -> dict[str, Any]:
    """Return a user's route: a rule to a Service, with what is the user's own, and a rule to something else."""
    return {
        "apiVersion": kinds.HTTP_ROUTE.api_version,
        "kind": kinds.HTTP_ROUTE.kind,
        "metadata": {"name": ROUTE, "namespace": namespace, "labels": {"team": "search"}},
        "spec": {
            "parentRefs": [{"name": "public"}],
            "hostnames": ["llm.example.com"],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}],
                    "timeouts": {"request": timeout},
                    "backendRefs": [{"name": service, "port": 8000}],
                },
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/docs"}}],
                    "backendRefs": [{"name": "docs", "port": 80}],
                },
            ],
        },
    }


async def apply(api: harness.Api, route: dict[str, Any]) -> dict[str, Any]:
    """Apply a route as its users do: on the server's side, without force."""
    meta = route["metadata"]
    path = apiserver.item(kinds.HTTP_ROUTE, meta["namespace"], meta["name"])
    return await api.server.request(
        "PATCH", path, query={"fieldManager": USER}, body=route, content_type=apiserver.APPLY_PATCH
    )


class Gateway:
    """A gateway that accepts every version of a route, and notes the weights of its first rule, each once in a row."""

    def __init__(self, api: harness.Api, namespace: str) -> None:
        self.weights: list[tuple[int, ...]] = []
        self._api, self._namespace = api, namespace

    async def run(self) -> None:
        """Answer until cancelled."""
        path = apiserver.collection(kinds.HTTP_ROUTE, self._namespace)
        async for event in self._api.server.stream(path, query={"watch": "1"}):
            if event["type"] in {"ADDED", "MODIFIED"}:
                await self._take_in(event["object"])

    async def _take_in(self, route: dict[str, Any]) -> None:
        meta = route["metadata"]
        seen = tuple(one["weight"] for one in route["spec"]["rules"][0]["backendRefs"])
        if self.weights[-1:] != [seen]:
            self.weights.append(seen)
        said = [
            {
                "type": kind,
                "status": "True",
                "reason": kind,
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": meta["generation"],
            }
            for kind in ("Accepted", "ResolvedRefs")
        ]
        parent = {
            "parentRef": route["spec"]["parentRefs"][0],
            "controllerName": "example.com/gateway",
            "conditions": said,
        }
        if (route.get("status") or {}).get("parents") == [parent]:
            return
        # The route may have gone, or moved on: its next version comes by the same watch.
        with contextlib.suppress(errors.TransientError):
            patch = {"status": {"parents": [parent]}}
            await self._api.merge(kinds.HTTP_ROUTE, self._namespace, meta["name"], patch, subresource="status")


@contextlib.asynccontextmanager
async def running(api: harness.Api, namespace: str) -> AsyncIterator[Gateway]:
    """Play a gateway for the length of a block; its own error is raised at the end."""
    gateway = Gateway(api, namespace)
    task = asyncio.create_task(gateway.run())
    try:
        yield gateway
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def routed(api: harness.Api, namespace: str, service: str) -> AsyncIterator[Gateway]:
    """Have the kind, a route to a Service, and a played gateway for the length of a block."""
    with tempfile.TemporaryDirectory() as folder:
        document = definition(Path(folder))
    try:
        await install(api, document)
        await apply(api, route(namespace, service))
        async with running(api, namespace) as gateway:
            yield gateway
    finally:
        await remove(api)
