"""A lookout at the front Service: asks all along, whatever a rollout does, and accounts for every request.

It has two questions. Which models there are costs an engine nothing, and can be asked of a server that is just being
measured, where a user's request would spoil the block. A completion is what users want; it is asked for while users are
said to be there, and whenever there is no service, until one is answered.
"""

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

_CONNECT_S = 5.0
_PATIENCE_S = 120.0
_TOKENS = 8


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request, by the wall clock."""

    at_s: float
    ended_s: float
    is_completion: bool
    fault: str
    """What its user saw instead of an answer; empty when there was one."""


@dataclass(frozen=True, kw_only=True)
class Outage:
    """A time without service: from the last answer before it to the first one after it."""

    began_s: float
    ended_s: float
    refused: tuple[Asked, ...]

    @property
    def lasted_s(self) -> float:
        """How long users went without, at most."""
        return self.ended_s - self.began_s


class Lookout:
    """Asks in a thread, for the length of a ``with`` block."""

    def __init__(self, url: str, *, model: str, every_s: float = 0.25) -> None:
        """Ask ``url``, the front Service's address without a path, for ``model``."""
        self._host = url.removeprefix("http://")
        self._model = model
        self._every_s = every_s
        self._users = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.asked: list[Asked] = []

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the last answer."""
        self._stop.set()
        self._thread.join(timeout=2 * _PATIENCE_S)

    def users_come(self) -> None:
        """Ask for completions from now on."""
        self._users.set()

    def users_go(self) -> None:
        """Ask for no completion while there is service; return when none is in flight."""
        self._users.clear()
        seen, deadline = len(self.asked), time.monotonic() + _PATIENCE_S
        while len(self.asked) == seen and time.monotonic() < deadline:
            time.sleep(self._every_s)

    @property
    def completions(self) -> int:
        """How many completions were answered."""
        return sum(one.is_completion and not one.fault for one in self.asked)

    def outages(self) -> list[Outage]:
        """Return the times without service that are over, oldest first."""
        return list(self._outages())

    def _outages(self) -> Iterator[Outage]:
        last_s, refused = 0.0, list[Asked]()
        for one in list(self.asked):
            if one.fault:
                refused.append(one)
                continue
            if refused:
                yield Outage(began_s=last_s or refused[0].at_s, ended_s=one.ended_s, refused=tuple(refused))
                refused = []
            last_s = one.ended_s

    def _watch(self) -> None:
        while not self._stop.wait(self._every_s):
            without = bool(self.asked and self.asked[-1].fault)
            self.asked.append(self._ask(is_completion=without or self._users.is_set()))

    def _ask(self, *, is_completion: bool) -> Asked:
        at_s, fault = time.time(), ""
        try:
            said = self._answer(is_completion=is_completion)
            if not (said["usage"]["completion_tokens"] if is_completion else said["data"]):
                fault = f"an answer of nothing: {said}"
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            fault = repr(error)
        return Asked(at_s=at_s, ended_s=time.time(), is_completion=is_completion, fault=fault)

    def _answer(self, *, is_completion: bool) -> dict[str, Any]:
        """Return what the server says; a server that is gone is waited for no longer than a connection takes."""
        connection = http.client.HTTPConnection(self._host, timeout=_CONNECT_S)
        with contextlib.closing(connection):
            connection.connect()
            connection.sock.settimeout(_PATIENCE_S)
            if is_completion:
                said = {
                    "model": self._model,
                    "messages": [{"role": "user", "content": "Say something."}],
                    "max_tokens": _TOKENS,
                    "temperature": 0,
                    "user": "crowd",
                }
                headers = {"Content-Type": "application/json"}
                connection.request("POST", "/v1/chat/completions", json.dumps(said), headers)
            else:
                connection.request("GET", "/v1/models")
            answer: dict[str, Any] = json.load(connection.getresponse())
            return answer
