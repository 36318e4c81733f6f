"""Users, played by threads: real requests through the front Service, at a steady concurrency, until told to stop."""

import json
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from demo import manifests
from demo.flow import Flow


class Traffic:
    """A closed loop of ``concurrency`` users who work through ``prompts`` again and again."""

    def __init__(self, flow: Flow, prompts: Sequence[str], *, concurrency: int, max_tokens: int) -> None:
        self._flow = flow
        self._prompts = prompts
        self._max_tokens = max_tokens
        self._stop = threading.Event()
        self._users = [threading.Thread(target=self._use, args=(at,), daemon=True) for at in range(concurrency)]
        self.answered = 0
        self.failed: list[str] = []

    def __enter__(self) -> Self:
        for user in self._users:
            user.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for user in self._users:
            user.join(timeout=120)

    def _use(self, at: int) -> None:
        while not self._stop.is_set():
            prompt = self._prompts[at % len(self._prompts)]
            at += len(self._users)
            body = {
                "model": self._flow.model_name(),
                "messages": [{"role": "user", "content": prompt}],
                "max_tokens": self._max_tokens,
                "temperature": 0,
            }
            try:
                self._flow.cluster.post_to_service(f"{manifests.NAME}:8000", "v1/chat/completions", json.dumps(body))
                self.answered += 1
            except Exception as error:  # noqa: BLE001 - whatever a user would see is counted, and the test asserts on it
                self.failed.append(str(error))
