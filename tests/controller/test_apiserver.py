"""The HTTP client against a real server on this machine."""

import asyncio
import json

import pytest
from aiohttp import web
from kubernetes.aio import client

from controller import builders
from paceline.controller import apiserver, errors, metrics
from paceline.planning import kinds


class Server:
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self):
        self.answer = web.json_response({})
        self.asked = []
        self.lines = []

    async def handle(self, request):
        """Answer one request."""
        self.asked.append((request.method, request.path_qs, dict(request.headers), await request.text()))
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            for line in self.lines:
                await response.write(line)
            return response
        if isinstance(self.answer, float):
            await asyncio.sleep(self.answer)
            return web.json_response({})
        return self.answer


@pytest.fixture
async def server():
    """Return a server that listens."""
    found = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.port = runner.addresses[0][1]
    yield found
    await runner.cleanup()


@pytest.fixture
async def api(server):
    """Return the client of that server."""
    configuration = client.Configuration()
    configuration.host = f"http://127.0.0.1:{server.port}"
    configuration.api_key["BearerToken"] = "bearer secret"
    made = apiserver.HttpApiServer(
        configuration=configuration, time=builders.FakeClock(), measured=metrics.Metrics(), timeout_s=5.0
    )
    yield made
    await made.close()


async def test_request_carries_token_type_and_query(server, api):
    """What the API server needs to know is in the request."""
    server.answer = web.json_response({"kind": "ConfigMap"})
    found = await api.request(
        "PATCH", "/api/v1/x", query={"force": "true"}, body={"a": 1}, content_type=apiserver.APPLY_PATCH
    )
    method, path, headers, body = server.asked[0]
    assert found == {"kind": "ConfigMap"}
    assert (method, path, json.loads(body)) == ("PATCH", "/api/v1/x?force=true", {"a": 1})
    assert headers["Authorization"] == "bearer secret"
    assert headers["Content-Type"] == apiserver.APPLY_PATCH


async def test_status_document_becomes_an_error_with_its_message(server, api):
    """The API server's own words reach the user."""
    server.answer = web.json_response({"reason": "Invalid", "message": "spec.x: too long"}, status=422)
    with pytest.raises(errors.RefusedError, match=r"spec\.x: too long"):
        await api.request("POST", "/api/v1/x", body={})


async def test_answer_that_is_no_json_is_an_outage(server, api):
    """A proxy's error page says nothing about the object."""
    server.answer = web.Response(text="<html>bad gateway", status=502)
    with pytest.raises(errors.UnavailableError, match="bad gateway"):
        await api.request("GET", "/api/v1/x")


async def test_retry_after_is_read(server, api):
    """From the header, in seconds."""
    server.answer = web.json_response({}, status=429, headers={"Retry-After": "3"})
    with pytest.raises(errors.UnavailableError) as caught:
        await api.request("GET", "/api/v1/x")
    assert caught.value.retry_after_s == 3.0


async def test_slow_answer_is_a_transient_error(server, api):
    """No call waits for ever."""
    server.answer = 30.0
    with pytest.raises(errors.UnavailableError, match="Timeout"):
        await api.request("GET", "/api/v1/x", timeout_s=0.2)


async def test_refused_connection_is_a_transient_error(api):
    """So is a server that is not there."""
    api._configuration.host = "http://127.0.0.1:1"
    with pytest.raises(errors.UnavailableError):
        await api.request("GET", "/api/v1/x")


async def test_watch_yields_documents_over_chunk_borders(server, api):
    """A line may arrive in pieces, or be longer than any buffer of a socket."""
    long = {"type": "ADDED", "object": {"data": "x" * 300_000}}
    raw = json.dumps(long).encode()
    server.lines = [raw[:1000], raw[1000:] + b"\n" + b'{"type": "BOOKMARK"', b', "object": {}}\n']
    found = [event async for event in api.stream("/api/v1/x", query={"watch": "1"})]
    assert found == [long, {"type": "BOOKMARK", "object": {}}]


async def test_watch_cut_off_within_a_line_is_a_transient_error(server, api):
    """The API server was restarted: half a document is no event and no crash."""
    server.lines = [b'{"type": "ADDED", "obj']
    with pytest.raises(errors.UnavailableError):
        _ = [event async for event in api.stream("/api/v1/x", query={"watch": "1"})]


def test_paths_follow_group_namespace_and_name():
    """The core group has its own root."""
    assert apiserver.collection(kinds.POD, None) == "/api/v1/pods"
    assert apiserver.collection(kinds.JOB, "shop") == "/apis/batch/v1/namespaces/shop/jobs"
    assert apiserver.item(kinds.JOB, "shop", "a", subresource="status").endswith("/jobs/a/status")


async def test_kubeconfig_wins_over_the_service_account(monkeypatch, tmp_path):
    """An operator started by hand goes where it was told to."""
    path = tmp_path / "config"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert (await apiserver.load_configuration()).host == "http://127.0.0.1:9"


async def test_text_is_read_up_to_its_limit(api, server):
    """A log is no document, and may be longer than anybody wants."""
    server.answer = web.Response(body=b"x" * 100)
    assert await api.text("/api/v1/namespaces/n/pods/p/log?container=engine", limit_bytes=40) == b"x" * 40
    method, path, headers, _ = server.asked[0]
    assert (method, path) == ("GET", "/api/v1/namespaces/n/pods/p/log?container=engine")
    assert headers["Authorization"] == "bearer secret"


async def test_text_that_is_refused_is_an_error(api, server):
    """The API server's reasons come as a document all the same."""
    server.answer = web.json_response({"message": "previous terminated container not found"}, status=400)
    with pytest.raises(errors.ControllerError, match="previous terminated container"):
        await api.text("/api/v1/namespaces/n/pods/p/log", limit_bytes=4000)
