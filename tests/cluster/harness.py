"""The operator as a real process against a real API server, and what a test needs to watch it.

``Operator`` starts ``python -m paceline.controller`` as a user's cluster would: settings by environment, no test mode.
"""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from kubernetes.aio import client

import nursery
from paceline.api import crd
from paceline.controller import apiserver, clock, errors, metrics
from paceline.planning.kinds import Kind

_ROOT = Path(__file__).resolve().parents[2]
# A leader that was killed cannot give its Lease back, so tests wait a little less than usual; not much less, since a
# machine that runs everything at once is slow to answer a renewal.
_QUICK = {
    "PACELINE_LEASE_DURATION": "10s",
    "PACELINE_LEASE_RENEW_DEADLINE": "8s",
    "PACELINE_LEASE_RETRY_PERIOD": "1s",
    "PACELINE_LOG_LEVEL": "debug",
    "PACELINE_HEALTH_HOST": "127.0.0.1",
    "PACELINE_STAGE_IMAGE": "localhost/paceline/trainer:none",
}
_TRIES = 5  # of a read, 30 s each
NAMESPACE = Kind(api_version="v1", kind="Namespace", plural="namespaces", namespaced=False)


class Process(Protocol):
    """What a test does to an operator's process; ``subprocess.Popen`` is one."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit code of a process that has ended, negative for a signal."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return the exit code."""
        ...

    def terminate(self) -> None:
        """Ask the process to end."""
        ...

    def kill(self) -> None:
        """End the process."""
        ...


class Operator:
    """One operator process."""

    def __init__(self, process: Process, *, port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def ask(self, path: str) -> tuple[int, str]:
        """Return status and text of the health endpoint's answer; status 0 when there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    async def ready(self, *, within_s: float = 60.0) -> None:
        """Wait until the cache has synced; a process that ended instead fails the test with its log."""

        def is_ready() -> bool:
            assert self.process.poll() is None, f"the operator ended: {self.tail()}"
            return self.ask("/readyz")[0] == 200

        await until(is_ready, within_s=within_s, saying=lambda: f"the operator is not ready: {self.tail()}")

    async def leading(self, *, within_s: float = 60.0) -> None:
        """Wait until this process is the leader."""
        await until(
            lambda: "paceline_leader 1.0" in self.ask("/metrics")[1],
            within_s=within_s,
            saying=lambda: f"the operator does not lead: {self.tail()}",
        )

    async def ended(self, *, within_s: float = 30.0) -> int:
        """Wait for the process; return its exit code."""
        await until(
            lambda: self.process.poll() is not None, within_s=within_s, saying=lambda: f"still running: {self.tail()}"
        )
        return self.process.wait()

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return the log's events, all or those of one name."""
        found = []
        for line in self.log.read_text().splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return [one for one in found if event in (None, one.get("event"))]

    def tail(self, count: int = 15) -> str:
        """Return the end of the log."""
        return "\n".join(self.log.read_text().splitlines()[-count:])

    def rss_bytes(self) -> int:
        """Return the resident memory."""
        fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """End the process as a lost node would."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """End the process as a rolling update would; return its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


@contextlib.contextmanager
def run_operator(kubeconfig: Path, *, log: Path, forked: bool = False, **environment: str) -> Iterator[Operator]:
    """Run an operator for the length of a ``with`` block.

    Args:
        kubeconfig: where it goes.
        log: file for its log; appended to, so that restarts read as one story.
        forked: start it from a process that has imported everything, for tests that start it dozens of times.
        environment: further settings, such as ``PACELINE_ROOMS``.
    """
    port = _free_port()
    # The Kubernetes client writes the kubeconfig's keys to files, which an operator that is killed leaves behind.
    scratch = tempfile.TemporaryDirectory(prefix="operator-")
    given = {
        **_without_settings(os.environ),
        **_QUICK,
        "KUBECONFIG": str(kubeconfig),
        "PACELINE_HEALTH_PORT": str(port),
        "TMPDIR": scratch.name,
        "PYTHONPATH": os.pathsep.join(str(_ROOT / part) for part in ("operator", "tests", "tests/cluster")),
        **environment,
    }
    with scratch:
        process = nursery.start(given, log=log) if forked else _start(given, log=log)
        started = Operator(process, port=port, log=log)
        try:
            yield started
        finally:
            started.kill()


def _start(environment: Mapping[str, str], *, log: Path) -> Process:
    with log.open("ab") as sink:
        return subprocess.Popen(
            [sys.executable, "-m", "paceline.controller"], env=environment, stderr=sink, stdout=sink
        )


async def until(
    predicate: Callable[[], bool], *, within_s: float, saying: Callable[[], str] = lambda: "", every_s: float = 0.05
) -> None:
    """Wait until ``predicate`` holds; fail the test with ``saying`` when it does not in time."""
    deadline = time.monotonic() + within_s
    while not await asyncio.to_thread(predicate):
        assert time.monotonic() < deadline, saying() or "waited in vain"
        await asyncio.sleep(every_s)


async def reached(
    api: "Api",
    kind: Kind,
    namespace: str,
    name: str,
    claim: Callable[[dict[str, Any]], bool],
    *,
    within_s: float = 120.0,
) -> dict[str, Any]:
    """Wait until ``claim`` holds of the stored status; return the resource, or fail the test with where it stands."""
    deadline = time.monotonic() + within_s
    while True:
        stored = await api.get(kind, namespace, name) or {}
        if claim(stored.get("status") or {}):
            return stored
        assert time.monotonic() < deadline, f"{kind.kind} {name} stands at {stored.get('status')}"
        await asyncio.sleep(0.1)


class Api:
    """The API server as a test sees it: admin rights, JSON, through the controller's own client."""

    def __init__(self, server: apiserver.HttpApiServer) -> None:
        self.server = server

    async def create(self, kind: Kind, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Make an object."""
        namespace = manifest["metadata"].get("namespace")
        return await self.server.request("POST", apiserver.collection(kind, namespace), body=dict(manifest))

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object, or None."""
        try:
            return await self._read(apiserver.item(kind, namespace, name))
        except errors.NotFoundError:
            return None

    async def items(self, kind: Kind, namespace: str | None) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        answer = await self._read(apiserver.collection(kind, namespace))
        return list(answer["items"])

    async def _read(self, path: str) -> dict[str, Any]:
        """Ask again where no answer came: a machine that runs everything at once is slow, and that is no finding."""
        for _ in range(_TRIES - 1):
            with contextlib.suppress(errors.UnavailableError):
                return await self.server.request("GET", path)
            await asyncio.sleep(0.5)
        return await self.server.request("GET", path)

    async def merge(
        self, kind: Kind, namespace: str, name: str, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> dict[str, Any]:
        """Merge a patch into an object, or into its status."""
        return await self.server.request(
            "PATCH",
            apiserver.item(kind, namespace, name, subresource=subresource),
            body=dict(patch),
            content_type=apiserver.MERGE_PATCH,
        )

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete an object, if there is one."""
        with contextlib.suppress(errors.NotFoundError):
            await self.server.request(
                "DELETE", apiserver.item(kind, namespace, name), body={"propagationPolicy": "Background"}
            )


@contextlib.asynccontextmanager
async def connect(kubeconfig: Path) -> AsyncIterator[Api]:
    """Open the API server that a kubeconfig names."""
    configuration = client.Configuration()
    await apiserver.config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    server = apiserver.HttpApiServer(
        configuration=configuration, time=clock.SystemClock(), measured=metrics.Metrics(), timeout_s=30.0
    )
    try:
        yield Api(server)
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def scratch_namespace(api: Api) -> AsyncIterator[str]:
    """Make a namespace of one test's own, and let it go afterwards."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    await api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:
        yield name
    finally:
        path = f"/api/v1/namespaces/{name}"
        with contextlib.suppress(errors.NotFoundError):
            await api.server.request("DELETE", path, body={"propagationPolicy": "Background"})


async def install_crds(api: Api) -> None:
    """Apply our CRDs as the tree's models say them, and wait until they are served."""
    for resource in crd.RESOURCES:
        document = crd.definition(resource)
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{document['metadata']['name']}"
        await api.server.request(
            "PATCH",
            path,
            query={"fieldManager": "tests", "force": "true"},
            body=document,
            content_type=apiserver.APPLY_PATCH,
        )
        async with asyncio.timeout(30):
            while not _is_established(await api.server.request("GET", path)):
                await asyncio.sleep(0.1)


def _is_established(document: Mapping[str, Any]) -> bool:
    told = {one["type"]: one["status"] for one in (document.get("status") or {}).get("conditions") or ()}
    return told.get("Established") == "True"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith("PACELINE_")}
