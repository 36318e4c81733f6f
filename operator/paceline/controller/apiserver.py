"""The one way to the API server: JSON in, JSON out, a timeout on every call, errors sorted by who must act.

Credentials, TLS and connections are those of ``kubernetes.aio``; its typed models are not used, since a manifest is
JSON everywhere in the operator.
"""

import contextlib
import json
import os
import urllib.parse
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final, Protocol

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client import rest

import paceline
from paceline.controller import clock, errors, metrics
from paceline.planning.kinds import Kind

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_CONNECT_TIMEOUT_S: Final = 10.0
Query = Mapping[str, str]


class ApiServer(Protocol):
    """What the controller asks of the API server."""

    async def request(
        self,
        verb: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Return the answer's document.

        Raises:
            ControllerError: sorted by who must act.
        """
        ...

    def stream(self, path: str, *, query: Query) -> AsyncIterator[dict[str, Any]]:
        """Yield the documents of a watch until the server ends it.

        Raises:
            ControllerError: sorted by who must act.
        """
        ...


def collection(kind: Kind, namespace: str | None) -> str:
    """Return the path of all objects of ``kind``, in one namespace or everywhere."""
    scope = f"/namespaces/{_quoted(namespace)}" if namespace else ""
    return f"{kind.path}{scope}/{kind.plural}"


def item(kind: Kind, namespace: str, name: str, *, subresource: str = "") -> str:
    """Return the path of one object, or of its status."""
    return f"{collection(kind, namespace)}/{_quoted(name)}" + (f"/{subresource}" if subresource else "")


def _quoted(segment: str) -> str:
    return urllib.parse.quote(segment, safe="")


async def load_configuration(kubeconfig: str | None = None) -> client.Configuration:
    """Return the address and credentials: of the pod's service account, else of KUBECONFIG.

    An explicit KUBECONFIG wins, so that an operator started by hand inside a pod goes where it was told to.
    """
    found = client.Configuration()
    chosen = kubeconfig or os.environ.get("KUBECONFIG")
    if chosen or not os.environ.get("KUBERNETES_SERVICE_HOST"):
        await config.load_kube_config(config_file=chosen, client_configuration=found)  # type: ignore[no-untyped-call]  # ships no types
    else:
        config.load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]  # ships no types
    return found


async def authorization(configuration: client.Configuration) -> str | None:
    """Return the current ``Authorization`` header; a service account's token is read again when it ages."""
    bearer: str | None = await configuration.get_api_key_with_prefix("BearerToken")
    if bearer:
        return bearer
    if configuration.username:
        basic: str | None = configuration.get_basic_auth_token()
        return basic
    return None


class HttpApiServer:
    """The API server over HTTP."""

    def __init__(
        self,
        *,
        configuration: client.Configuration,
        time: clock.Clock,
        measured: metrics.Metrics,
        timeout_s: float,
        silence_s: float = 75.0,
    ) -> None:
        """Prepare; the connections open with the first call.

        Args:
            configuration: address and credentials.
            time: for the length of calls.
            measured: counts calls.
            timeout_s: bound on a call that does not say its own.
            silence_s: a watch that says nothing for so long is broken off.
        """
        self._configuration = configuration
        self._rest = rest.RESTClientObject(configuration)
        self._clock = time
        self._metrics = measured
        self._timeout_s = timeout_s
        self._silence_s = silence_s

    async def close(self) -> None:
        """Close the connections."""
        await self._rest.close()

    async def request(
        self,
        verb: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Return the answer's document."""
        timeout = aiohttp.ClientTimeout(total=timeout_s or self._timeout_s, sock_connect=_CONNECT_TIMEOUT_S)
        began = self._clock.monotonic()
        code = "none"
        try:
            with _network_errors(f"{verb} {path}"):
                response = await self._send(
                    verb, path, query=query, body=body, content_type=content_type, timeout=timeout
                )
                code = str(response.status)
                raw = await response.read()
            return _document(response, raw)
        finally:
            self._metrics.requests.labels(verb=verb, code=code).inc()
            self._metrics.request_seconds.labels(verb=verb).observe(self._clock.monotonic() - began)

    async def text(self, url: str, *, limit_bytes: int) -> bytes:
        """Return the body of an answer that is no document, such as a log, up to a limit.

        Raises:
            ControllerError: sorted by who must act.
        """
        timeout = aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=_CONNECT_TIMEOUT_S)
        with _network_errors(f"GET {url}"):
            response = await self._send("GET", url, query=None, body=None, content_type=JSON, timeout=timeout)
            self._metrics.requests.labels(verb="GET", code=str(response.status)).inc()
            raw = b""
            while len(raw) < limit_bytes and not response.content.at_eof():
                raw += await response.content.read(limit_bytes - len(raw))
            response.close()
        if not response.ok:
            _document(response, raw)
        return raw

    async def stream(self, path: str, *, query: Query) -> AsyncIterator[dict[str, Any]]:
        """Yield the documents of a watch until the server ends it."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=self._silence_s)
        with _network_errors(f"WATCH {path}"):
            response = await self._send("GET", path, query=query, body=None, content_type=JSON, timeout=timeout)
        self._metrics.requests.labels(verb="WATCH", code=str(response.status)).inc()
        try:
            if not response.ok:
                _document(response, await response.read())
            while True:
                with _network_errors(f"WATCH {path}"):
                    line = await response.content.readline()
                    event = json.loads(line) if line else None
                if event is None:
                    return
                yield event
        finally:
            # Not release(): a watch has no end to read up to, the connection itself must go.
            response.close()

    async def _send(
        self,
        verb: str,
        path: str,
        *,
        query: Query | None,
        body: object,
        content_type: str,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own, by phase
    ) -> aiohttp.ClientResponse:
        headers = {"Content-Type": content_type, "Accept": JSON, "User-Agent": f"paceline/{paceline.__version__}"}
        authorized = await authorization(self._configuration)
        if authorized:
            headers["Authorization"] = authorized
        url = self._configuration.host + path + (f"?{urllib.parse.urlencode(query)}" if query else "")
        answer = await self._rest.request(  # type: ignore[no-untyped-call]  # ships no types
            verb, url, headers=headers, body=body, _request_timeout=timeout
        )
        response: aiohttp.ClientResponse = answer.response
        return response


@contextlib.contextmanager
def _network_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        # ValueError: a watch line beyond aiohttp's buffer, or cut off with its connection; a new list gets past both.
        raise errors.UnavailableError(f"{what}: {type(error).__name__} {error}") from error


def _document(response: aiohttp.ClientResponse, raw: bytes) -> dict[str, Any]:
    try:
        document = json.loads(raw)
    except ValueError:
        document = {"message": raw[:200].decode(errors="replace")}
    if not isinstance(document, dict):
        document = {"message": str(document)[:200]}
    if response.ok:
        return document
    raise errors.from_status(response.status, document, retry_after=response.headers.get("Retry-After"))
