"""The engine beside us: waiting for it, asking it, and reading its counters.

The transport comes in by the constructor, so that tests answer in its place. A server counts as ready only after it has
completed something: an engine can answer 200 on ``/health`` and die on its first token.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol, Self, TypeVar

import aiohttp
import pydantic

from paceline.podside import clock as clocks
from paceline.stages.failures import PermanentError, TransientError

READY_DEADLINE_S: Final = 7200.0
"""A trillion parameters from a network volume take the better part of an hour; a Job has a deadline of its own."""
_POLL_S: Final = 2.0
_RETRY_FIRST_S: Final = 0.5
_RETRY_LAST_S: Final = 15.0
_RETRIES: Final = 8
"""About a minute and a half: longer than a server that restarts a worker, shorter than one that loads a model again."""
_REQUEST_TIMEOUT_S: Final = 1800.0
_BODY_IN_MESSAGE: Final = 300

Message = dict[str, str]
ModelT = TypeVar("ModelT", bound=pydantic.BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One HTTP answer."""

    status: int
    body: str


class Transport(Protocol):
    """How requests reach the server."""

    async def get(self, path: str) -> Reply:
        """Return the answer to a GET; raises ``OSError`` or ``TimeoutError`` when there is none."""
        ...

    async def post(self, path: str, document: dict[str, Any]) -> Reply:
        """Return the answer to a POST of JSON; raises ``OSError`` or ``TimeoutError`` when there is none."""
        ...


class HttpTransport:
    """aiohttp against ``base_url``."""

    def __init__(self, base_url: str) -> None:
        """Connect lazily; enter as a context manager to have a session."""
        self._base_url = base_url.rstrip("/").removesuffix("/v1")
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the session; concurrency is bounded by the callers, so connections are not."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=_REQUEST_TIMEOUT_S)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the session."""
        if self._session:
            await self._session.close()

    async def get(self, path: str) -> Reply:
        """Return the answer to a GET."""
        return await self._request("GET", path, None)

    async def post(self, path: str, document: dict[str, Any]) -> Reply:
        """Return the answer to a POST of JSON."""
        return await self._request("POST", path, document)

    async def _request(self, method: str, path: str, document: dict[str, Any] | None) -> Reply:
        if self._session is None:
            raise RuntimeError("HttpTransport is used outside its context; enter it first")
        try:
            async with self._session.request(method, self._base_url + path, json=document) as response:
                return Reply(status=response.status, body=await response.text())
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error) or type(error).__name__) from error


class _Choice(pydantic.BaseModel):
    token_ids: list[int]
    finish_reason: str | None = None


class _Usage(pydantic.BaseModel):
    completion_tokens: int


class _ChatCompletion(pydantic.BaseModel):
    """The part of the engine's answer that is used."""

    prompt_token_ids: list[int]
    choices: list[_Choice]
    usage: _Usage


class _Model(pydantic.BaseModel):
    id: str


class _Models(pydantic.BaseModel):
    data: list[_Model]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the target said, in its own tokens."""

    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    """Includes the end token when the answer ended by itself."""
    finished: bool
    """False when the token limit cut it."""


class RefusedError(Exception):
    """The server will not take this request, however often it is sent."""


class EngineServer:
    """An OpenAI-compatible vLLM server."""

    def __init__(self, transport: Transport, clock: clocks.Clock) -> None:
        """Talk over ``transport``; ``clock`` bounds the waits."""
        self._transport = transport
        self._clock = clock
        self._model = ""

    async def wait_until_it_answers(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Return once the server has completed a request.

        Raises:
            TransientError: after ``deadline_s``, with what was seen last.
        """
        end_s = self._clock.monotonic() + deadline_s
        seen = "no answer yet"
        while self._clock.monotonic() < end_s:
            try:
                self._model = await self._served_model()
                await self._complete_one_token()
            except (OSError, TimeoutError, RefusedError) as error:
                seen = str(error) or type(error).__name__
                await asyncio.sleep(_POLL_S)
            else:
                return
        raise TransientError(
            f"the engine completed no request within {deadline_s:.0f} s; last seen: {seen[:_BODY_IN_MESSAGE]}. "
            "Read the engine container's log."
        )

    @property
    def model(self) -> str:
        """The served model's first name; empty before the server has answered."""
        return self._model

    async def chat(self, messages: Sequence[Message], *, max_tokens: int) -> Answer:
        """Return the target's greedy answer.

        Raises:
            RefusedError: when the request itself is at fault, such as a prompt longer than the model's context.
            TransientError: when the server stays away.
        """
        reply = await self._post_with_retries(
            "/v1/chat/completions",
            {
                "model": self._model,
                "messages": list(messages),
                "max_tokens": max_tokens,
                "temperature": 0,
                "return_token_ids": True,
            },
        )
        completion = _parse(_ChatCompletion, reply)
        choice = completion.choices[0]
        return Answer(
            prompt_ids=tuple(completion.prompt_token_ids),
            answer_ids=tuple(choice.token_ids),
            finished=choice.finish_reason != "length",
        )

    async def scrape(self) -> str:
        """Return the text of ``/metrics``.

        Raises:
            TransientError: when it cannot be had.
        """
        try:
            reply = await self._transport.get("/metrics")
        except (OSError, TimeoutError) as error:
            raise TransientError(f"/metrics of the engine cannot be read: {error}") from error
        if reply.status != HTTPStatus.OK:
            raise TransientError(f"/metrics of the engine answered {reply.status}")
        return reply.body

    async def _served_model(self) -> str:
        models = _parse(_Models, _accepted(await self._transport.get("/v1/models")))
        if not models.data:
            raise RefusedError("/v1/models names no model")
        return models.data[0].id

    async def _complete_one_token(self) -> None:
        document = {"model": self._model, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
        _accepted(await self._transport.post("/v1/completions", document))

    async def _post_with_retries(self, path: str, document: dict[str, Any]) -> Reply:
        """Return an accepted answer; a server that is away is waited for, a refusal is not."""
        pause_s = _RETRY_FIRST_S
        seen = ""
        for _ in range(_RETRIES):
            try:
                reply = await self._transport.post(path, document)
            except (OSError, TimeoutError) as error:
                seen = str(error) or type(error).__name__
            else:
                if reply.status < HTTPStatus.INTERNAL_SERVER_ERROR and reply.status != HTTPStatus.TOO_MANY_REQUESTS:
                    return _accepted(reply)
                seen = f"status {reply.status}: {reply.body[:_BODY_IN_MESSAGE]}"
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _RETRY_LAST_S)
        raise TransientError(
            f"the engine stopped answering {path}; last seen: {seen}. Read the engine container's log."
        )


def _accepted(reply: Reply) -> Reply:
    if reply.status != HTTPStatus.OK:
        raise RefusedError(f"status {reply.status}: {reply.body[:_BODY_IN_MESSAGE]}")
    return reply


def _parse(kind: type[ModelT], reply: Reply) -> ModelT:
    try:
        return kind.model_validate_json(reply.body)
    except pydantic.ValidationError as error:
        raise PermanentError(
            "the engine's answer lacks what training needs (token ids); use vLLM 0.18 or newer as spec.engine"
            f" [{error.error_count()} fields missing in {reply.body[:120]!r}]"
        ) from error
