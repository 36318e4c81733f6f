"""How requests reach a server, and the ways in which they do not."""

from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol, Self

import aiohttp

_READ_BUFFER_BYTES: Final = 256 * 1024
_BODY_IN_MESSAGE: Final = 300
_KEEP_ALIVE_S: Final = 2.0
"""Idle connections are closed before a server closes them (uvicorn, and so vLLM, after 5 s): a request that met a close
on its way was lost on an H200, and looked like the server's fault."""
_SCRAPE_TIMEOUT_S: Final = 20.0
_SCRAPE_LIMIT_BYTES: Final = 8 * 1024 * 1024


class TransportError(Exception):
    """No usable answer; the text says what was seen."""


class RefusedError(TransportError):
    """The server answered with an error of its own."""


class LostError(TransportError):
    """There is no connection, or it broke."""


class Transport(Protocol):
    """Two kinds of requests are all a probe makes."""

    def stream(self, url: str, document: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """POST JSON and yield the body as it arrives; raises TransportError."""
        ...

    async def fetch(self, url: str) -> str:
        """GET a text; raises TransportError."""
        ...


class HttpTransport:
    """aiohttp, one connection a request in flight; enter it as a context manager."""

    def __init__(self, *, request_timeout_s: float) -> None:
        """Bound every request by ``request_timeout_s``; silence inside a stream is the caller's to bound."""
        self._timeout = aiohttp.ClientTimeout(total=request_timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the session. Concurrency is the closed loop's matter, so connections are not limited."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S),
            timeout=self._timeout,
            read_bufsize=_READ_BUFFER_BYTES,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the session."""
        if self._session:
            await self._session.close()

    async def stream(self, url: str, document: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """POST JSON and yield the body as it arrives."""
        try:
            async with self._opened().post(url, json=document) as response:
                if response.status != HTTPStatus.OK:
                    body = (await response.content.read(_BODY_IN_MESSAGE)).decode(errors="replace")
                    raise RefusedError(f"status {response.status}: {body}")
                async for piece in response.content.iter_any():
                    yield piece
        except TimeoutError as error:
            raise LostError(f"no end within {self._timeout.total:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise LostError(str(error) or type(error).__name__) from error

    async def fetch(self, url: str) -> str:
        """GET a text of bounded size."""
        try:
            async with self._opened().get(url, timeout=aiohttp.ClientTimeout(total=_SCRAPE_TIMEOUT_S)) as response:
                body = await response.content.read(_SCRAPE_LIMIT_BYTES) if response.status == HTTPStatus.OK else b""
                while body and not response.content.at_eof() and len(body) < _SCRAPE_LIMIT_BYTES:
                    body += await response.content.read(_SCRAPE_LIMIT_BYTES)
        except TimeoutError as error:
            raise LostError(f"no answer within {_SCRAPE_TIMEOUT_S:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise LostError(str(error) or type(error).__name__) from error
        if response.status != HTTPStatus.OK:
            raise RefusedError(f"status {response.status}")
        return body.decode(errors="replace")

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("HttpTransport is used outside its context; enter it first")
        return self._session
