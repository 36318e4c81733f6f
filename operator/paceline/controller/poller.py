"""Asks pods how far they are and what their engines count; what they answer is untrusted and bounded.

Rooms say after each pass which pods are worth asking. Progress that moved makes its resource due; scrapes do not, since
a room that wants to look at them asks to be woken.
"""

import asyncio
import json
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import aiohttp
import pydantic

from paceline.api import stages
from paceline.controller import clock, errors, logs, metrics, settings
from paceline.engines import scrapes
from paceline.planning.plan import Key
from paceline.planning.view import PodPoll, Warned

_PROGRESS_LIMIT_BYTES: Final = 16 * 1024
_METRICS_LIMIT_BYTES: Final = 2 * 1024 * 1024
_LOG_LIMIT_BYTES: Final = 256 * 1024
_MOST_WARNINGS: Final = 10
_LIMITS_BYTES: Final = {
    "progress": _PROGRESS_LIMIT_BYTES,
    "metrics": _METRICS_LIMIT_BYTES,
    "log": _LOG_LIMIT_BYTES,
    "events": _METRICS_LIMIT_BYTES,
}
_TICK_S: Final = 0.5


class AnswerTooLongError(Exception):
    """A pod sent more than it may."""


class Fetch(Protocol):
    """How a pod is asked."""

    async def __call__(self, url: str, *, limit_bytes: int) -> bytes:
        """Return the body of a 200 answer.

        Raises:
            aiohttp.ClientError, TimeoutError, OSError, AnswerTooLongError, ControllerError: there is no such answer.
        """
        ...


class HttpFetch:
    """Asks pods over HTTP: no redirects, no proxies, no cookies, one time-out for everything."""

    def __init__(self, *, timeout_s: float) -> None:
        """Prepare; needs a running event loop."""
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            trust_env=False,
        )

    async def __call__(self, url: str, *, limit_bytes: int) -> bytes:
        """Return the body of a 200 answer."""
        async with self._session.get(url, allow_redirects=False) as response:
            if response.status != 200:  # noqa: PLR2004 - 200 is what it is
                raise aiohttp.ClientResponseError(response.request_info, (), status=response.status)
            body = await response.content.read(limit_bytes + 1)
            while len(body) <= limit_bytes and not response.content.at_eof():
                body += await response.content.read(limit_bytes + 1 - len(body))
        if len(body) > limit_bytes:
            raise AnswerTooLongError(f"{url} sent more than {limit_bytes} bytes")
        return body

    async def close(self) -> None:
        """Close the session."""
        await self._session.close()


class Fetches:
    """Asks pods for what they say themselves, and the API server for their logs: a URL that is a path is its."""

    def __init__(self, *, pods: Fetch, server: Fetch) -> None:
        """Prepare."""
        self._pods = pods
        self._server = server

    async def __call__(self, url: str, *, limit_bytes: int) -> bytes:
        """Return the body of a 200 answer."""
        return await (self._server if url.startswith("/") else self._pods)(url, limit_bytes=limit_bytes)


class Heard:
    """What pods said, by pod UID; read by passes in threads, so values are replaced and never changed."""

    def __init__(self, *, window_s: float) -> None:
        """Start with silence."""
        self._window_s = window_s
        self._progress: dict[str, stages.LiveProgress] = {}
        # Slimmed and deflated: a scrape is 50 kB of text, kept 40 times, and there may be 1,000 engines.
        self._scrapes: dict[str, tuple[tuple[float, bytes], ...]] = {}
        self._logs: dict[str, bytes] = {}
        self._warnings: dict[str, tuple[Warned, ...]] = {}

    def progress(self, pod_uid: str) -> stages.LiveProgress | None:
        """Return the last progress."""
        return self._progress.get(pod_uid)

    def metrics_text(self, pod_uid: str) -> tuple[tuple[float, str], ...]:
        """Return the scrapes within the window, oldest first."""
        kept = self._scrapes.get(pod_uid, ())
        return tuple((at, zlib.decompress(packed).decode()) for at, packed in kept)

    def keep_progress(self, pod_uid: str, said: stages.LiveProgress) -> bool:
        """Keep what a pod said; return whether it is news."""
        is_news = self._progress.get(pod_uid) != said
        self._progress[pod_uid] = said
        return is_news

    def keep_scrape(self, pod_uid: str, at: float, body: bytes) -> None:
        """Keep of one scrape what any room reads, and drop those older than the window."""
        kept = tuple(one for one in self._scrapes.get(pod_uid, ()) if one[0] > at - self._window_s)
        text = scrapes.slim(body.decode(errors="replace"))
        self._scrapes[pod_uid] = (*kept, (at, zlib.compress(text.encode(), 3)))

    def warnings(self, pod_uid: str) -> tuple[Warned, ...]:
        """Return the warning events about a pod, newest first."""
        return self._warnings.get(pod_uid, ())

    def keep_warnings(self, pod_uid: str, told: tuple[Warned, ...]) -> bool:
        """Keep what the API server tells of a pod; return whether it is news."""
        is_news = self.warnings(pod_uid) != told
        self._warnings[pod_uid] = told
        return is_news

    def log(self, run: str) -> str:
        """Return the end of a run's log."""
        packed = self._logs.get(run)
        return zlib.decompress(packed).decode(errors="replace") if packed else ""

    def keep_log(self, run: str, body: bytes) -> None:
        """Keep the end of a log that grows no more."""
        self._logs[run] = zlib.compress(body, 3)

    def forget(self, pod_uid: str) -> None:
        """Drop everything a pod said."""
        self._logs.pop(pod_uid, None)
        self._warnings.pop(pod_uid, None)
        self._progress.pop(pod_uid, None)
        self._scrapes.pop(pod_uid, None)


@dataclass(slots=True, kw_only=True)
class _Target:
    key: Key
    poll: PodPoll
    due: float
    is_busy: bool = False


class Poller:
    """Who is asked, and when."""

    def __init__(
        self,
        *,
        fetch: Fetch,
        heard: Heard,
        news: Callable[[Key], None],
        configured: settings.Settings,
        time: clock.Clock,
        measured: metrics.Metrics,
    ) -> None:
        """Start with nobody to ask."""
        self._fetch = fetch
        self._heard = heard
        self._news = news
        self._interval_s = {
            "progress": configured.poll_interval,
            "metrics": configured.scrape_interval,
            "log": configured.scrape_interval,
            "events": configured.scrape_interval,
        }
        self._slots = asyncio.Semaphore(configured.poll_concurrency)
        self._clock = time
        self._metrics = measured
        self._targets: dict[tuple[Key, str, str], _Target] = {}
        self._by_key: dict[Key, set[tuple[Key, str, str]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def want(self, key: Key, polls: Sequence[PodPoll]) -> None:
        """Make ``polls`` all that is asked on behalf of ``key``."""
        wanted = {(key, poll.pod_uid, poll.wants): poll for poll in polls}
        for gone in self._by_key.get(key, set()) - wanted.keys():
            del self._targets[gone]
            self._heard.forget(gone[1])
        for entry, poll in wanted.items():
            target = self._targets.setdefault(entry, _Target(key=key, poll=poll, due=self._clock.monotonic()))
            target.poll = poll
        if wanted:
            self._by_key[key] = set(wanted)
        else:
            self._by_key.pop(key, None)

    async def run(self) -> None:
        """Ask whoever is due, for ever."""
        try:
            while True:
                self.start_due()
                await self._clock.sleep(_TICK_S)
        finally:
            for task in self._tasks:
                task.cancel()

    def start_due(self) -> None:
        """Start asking all that are due and not being asked."""
        now = self._clock.monotonic()
        for target in self._targets.values():
            if target.due <= now and not target.is_busy:
                target.is_busy = True
                target.due = now + self._interval_s[target.poll.wants]
                task = asyncio.create_task(self._ask(target))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _ask(self, target: _Target) -> None:
        outcome = "ok"
        try:
            async with self._slots:
                await self._take(target)
        except (
            aiohttp.ClientError, TimeoutError, OSError, ValueError, AnswerTooLongError, errors.ControllerError,
        ) as error:  # fmt: skip
            # A pod that just started, or just ended, does not answer: normal, so it is counted and not logged aloud.
            outcome = type(error).__name__
            logs.get().debug("poll_failed", **{logs.URL: target.poll.url, logs.ERROR: str(error)[:200]})
        finally:
            target.is_busy = False
            self._metrics.polls.labels(wants=target.poll.wants, outcome=outcome).inc()

    async def _take(self, target: _Target) -> None:
        poll = target.poll
        body = await self._fetch(poll.url, limit_bytes=_LIMITS_BYTES[poll.wants])
        if (target.key, poll.pod_uid, poll.wants) not in self._targets:
            return
        match poll.wants:
            case "metrics":
                self._heard.keep_scrape(poll.pod_uid, self._clock.wall(), body)
            case "progress":
                if self._heard.keep_progress(poll.pod_uid, _progress(body)):
                    self._news(target.key)
            case "events":
                if self._heard.keep_warnings(poll.pod_uid, _warnings(body)):
                    self._news(target.key)
            case "log":
                self._heard.keep_log(poll.pod_uid, body)
                target.due = math.inf  # a run that has ended says no more
                self._news(target.key)


def _warnings(body: bytes) -> tuple[Warned, ...]:
    """Return the warnings in an event list, newest first; the same one told again is one."""
    try:
        listed = [one for one in json.loads(body)["items"] if one["type"] == "Warning"]
        listed.sort(key=lambda one: str(one.get("lastTimestamp") or one["metadata"]["creationTimestamp"]), reverse=True)
        told = [Warned(reason=str(one.get("reason", "")), message=str(one.get("message", ""))) for one in listed]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no list of events: {body[:100]!r}") from error
    return tuple(dict.fromkeys(told))[:_MOST_WARNINGS]


def _progress(body: bytes) -> stages.LiveProgress:
    try:
        return stages.LiveProgress.model_validate_json(body)
    except pydantic.ValidationError as error:
        raise ValueError(f"no progress: {body[:100]!r}") from error
