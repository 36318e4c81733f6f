"""Asking pods: what is kept, when a resource becomes due, and what may not come in."""

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web

from controller import builders
from paceline.api import stages
from paceline.controller import errors, metrics, poller
from paceline.planning.view import PodPoll, Warned

PROGRESS = PodPoll(pod_uid="pod", url="http://10.0.0.1:8765/progress", wants="progress")
LOG = PodPoll(pod_uid="pod/then", url="/api/v1/namespaces/n/pods/p/log?container=engine", wants="log")
EVENTS = PodPoll(pod_uid="pod", url="/api/v1/namespaces/n/events?fieldSelector=x", wants="events")
SCRAPE = PodPoll(pod_uid="pod", url="http://10.0.0.1:8000/metrics", wants="metrics")


class Pods:
    """What pods would answer."""

    def __init__(self):
        self.answers = {PROGRESS.url: b'{"stage": "Train", "percent": 10}', SCRAPE.url: b"up 1\n", LOG.url: b"boom\n"}
        self.asked = []

    async def __call__(self, url, *, limit_bytes):
        """Answer one question."""
        assert limit_bytes > 0
        self.asked.append(url)
        answer = self.answers[url]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Asking:
    """A poller with all that it works with."""

    def __init__(self):
        self.pods, self.time, self.news = Pods(), builders.FakeClock(), []
        self.heard = poller.Heard(window_s=600.0)
        self.poller = poller.Poller(
            fetch=self.pods,
            heard=self.heard,
            news=self.news.append,
            configured=builders.settings_for(),
            time=self.time,
            measured=metrics.Metrics(),
        )

    async def round(self, after_s=0.0):
        """Let time pass, and ask whoever is due."""
        self.time.now += after_s
        self.poller.start_due()
        await asyncio.gather(*self.poller._tasks)


async def test_progress_that_moved_makes_the_resource_due():
    """And the same progress again does not."""
    asking = Asking()
    asking.poller.want(builders.KEY, [PROGRESS])
    await asking.round()
    assert asking.heard.progress("pod") == stages.LiveProgress(stage="Train", percent=10)
    assert asking.news == [builders.KEY]
    await asking.round(after_s=5.0)
    assert asking.news == [builders.KEY]


async def test_pod_is_asked_once_an_interval():
    """However often a pass wants it."""
    asking = Asking()
    for _ in range(5):
        asking.poller.want(builders.KEY, [PROGRESS])
        await asking.round(after_s=1.0)
    assert len(asking.pods.asked) == 1


async def test_scrapes_are_kept_for_the_window():
    """Oldest first, and no longer than asked."""
    asking = Asking()
    asking.poller.want(builders.KEY, [SCRAPE])
    for number in range(50):
        asking.pods.answers[SCRAPE.url] = f"up {number}\n".encode()
        await asking.round(after_s=15.0)
    kept = asking.heard.metrics_text("pod")
    assert len(kept) == 40
    assert kept[-1][1] == "up 49\n"
    assert asking.news == []


async def test_pod_no_longer_wanted_is_forgotten():
    """Memory follows the resources."""
    asking = Asking()
    asking.poller.want(builders.KEY, [PROGRESS, SCRAPE])
    await asking.round()
    asking.poller.want(builders.KEY, [])
    assert asking.heard.progress("pod") is None
    assert asking.heard.metrics_text("pod") == ()
    await asking.round(after_s=100.0)
    assert len(asking.pods.asked) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b'{"stage": "Train", "percent": 1000}',
        b"{}",
        aiohttp.ClientError("refused"),
        TimeoutError(),
        OSError(),
    ],
)
async def test_wrong_answer_is_no_progress(answer):
    """What a pod says is untrusted: it changes nothing and ends nothing."""
    asking = Asking()
    asking.pods.answers[PROGRESS.url] = answer
    asking.poller.want(builders.KEY, [PROGRESS])
    await asking.round()
    assert asking.heard.progress("pod") is None
    assert asking.news == []


@pytest.fixture
async def pod():
    """A pod over real HTTP that answers by path."""

    async def answer(request):
        if request.path == "/redirect":
            raise web.HTTPFound("/small")
        return web.Response(body=b"x" * int(request.query.get("bytes", "5")))

    app = web.Application()
    app.router.add_get("/{path}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_http_fetch_bounds_size_and_follows_no_redirect(pod):
    """A pod can neither fill our memory nor send us elsewhere."""
    fetch = poller.HttpFetch(timeout_s=5.0)
    try:
        assert await fetch(f"{pod}/small", limit_bytes=10) == b"xxxxx"
        assert len(await fetch(f"{pod}/exact?bytes=200000", limit_bytes=200_000)) == 200_000
        with pytest.raises(poller.AnswerTooLongError):
            await fetch(f"{pod}/long?bytes=200001", limit_bytes=200_000)
        with pytest.raises(aiohttp.ClientResponseError):
            await fetch(f"{pod}/redirect", limit_bytes=10)
    finally:
        await fetch.close()


async def test_log_of_a_run_is_read_once():
    """A run that has ended says no more; what it said makes the resource due."""
    asking = Asking()
    for _ in range(3):
        asking.poller.want(builders.KEY, [LOG])
        await asking.round(after_s=60.0)
    assert asking.pods.asked == [LOG.url]
    assert asking.news == [builders.KEY]
    assert asking.heard.log("pod/then") == "boom\n"
    asking.poller.want(builders.KEY, [])
    assert asking.heard.log("pod/then") == ""


async def test_log_that_is_refused_is_asked_for_again():
    """A kubelet may not have it yet, and an older role may not allow it."""
    asking = Asking()
    asking.pods.answers[LOG.url] = errors.UnavailableError("no log")
    asking.poller.want(builders.KEY, [LOG])
    await asking.round()
    asking.pods.answers[LOG.url] = b"boom"
    await asking.round(after_s=60.0)
    assert asking.heard.log("pod/then") == "boom"


async def test_paths_go_to_the_api_server_and_addresses_to_pods():
    """A pod's own answer can never be taken for the API server's."""

    async def from_pod(url, *, limit_bytes):
        return f"pod {url} {limit_bytes}".encode()

    async def from_server(url, *, limit_bytes):
        return f"server {url} {limit_bytes}".encode()

    fetch = poller.Fetches(pods=from_pod, server=from_server)
    assert await fetch("/api/v1/log", limit_bytes=1) == b"server /api/v1/log 1"
    assert await fetch("http://10.0.0.1/api", limit_bytes=1) == b"pod http://10.0.0.1/api 1"


def event(reason, message, at, kind="Warning"):
    """Return an event as the API server lists it."""
    return {"type": kind, "reason": reason, "message": message, "lastTimestamp": at, "metadata": {}}


async def test_warnings_about_a_pod_are_asked_for_until_nobody_wants_them():
    """Newest first, each once; what is new makes the resource due, and what is not does not."""
    asking = Asking()
    items = [
        event("FailedMount", "old", "2026-01-01T00:00:00Z"),
        event("FailedAttachVolume", "Multi-Attach error", "2026-01-01T00:02:00Z"),
        event("FailedAttachVolume", "Multi-Attach error", "2026-01-01T00:01:00Z"),
        event("Scheduled", "fine", "2026-01-01T00:03:00Z", kind="Normal"),
    ]
    asking.pods.answers[EVENTS.url] = json.dumps({"items": items}).encode()
    for _ in range(3):
        asking.poller.want(builders.KEY, [EVENTS])
        await asking.round(after_s=60.0)
    assert asking.heard.warnings("pod") == (
        Warned(reason="FailedAttachVolume", message="Multi-Attach error"),
        Warned(reason="FailedMount", message="old"),
    )
    assert asking.pods.asked == [EVENTS.url] * 3
    assert asking.news == [builders.KEY]
    asking.poller.want(builders.KEY, [])
    assert asking.heard.warnings("pod") == ()


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"items": [1]}', b'{"items": [{"type": "Warning"}]}'])
async def test_answer_that_lists_no_events_changes_nothing(answer):
    """An API server between two versions may say anything."""
    asking = Asking()
    asking.pods.answers[EVENTS.url] = answer
    asking.poller.want(builders.KEY, [EVENTS])
    await asking.round()
    assert asking.heard.warnings("pod") == ()
