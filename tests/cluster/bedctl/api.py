"""A few calls to the bed's API server, with the standard library alone."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bedctl.errors import BedError
from bedctl.record import Bed

CALL_TIMEOUT_S = 5.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The administrator's connection to one bed."""

    server: str
    context: ssl.SSLContext

    def get(self, path: str) -> Any:
        """Return the object or list at a path."""
        return self._call("GET", path, None, "")

    def create(self, path: str, document: dict[str, Any]) -> Any:
        """Create an object in a collection."""
        return self._call("POST", path, document, "application/json")

    def patch(self, path: str, document: dict[str, Any]) -> Any:
        """Merge a document into the object at a path."""
        return self._call("PATCH", path, document, "application/merge-patch+json")

    def ready(self) -> bool:
        """Say whether the server answers /readyz with 200, now."""
        try:
            with self._open(urllib.request.Request(f"{self.server}/readyz")) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _call(self, method: str, path: str, document: dict[str, Any] | None, kind: str) -> Any:
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.server + path, data=body, method=method)
        if kind:
            request.add_header("Content-Type", kind)
        try:
            with self._open(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            raise BedError(f"The API server refused {method} {path} with {error.code}: {said}") from error

    def _open(self, request: urllib.request.Request) -> Any:
        return urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S, context=self.context)


def connect(bed: Bed) -> Client:
    """Return a client with the administrator's certificate; it makes no call yet."""
    pki = bed.layout.pki
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    return Client(server=bed.server, context=context)


def wait_until(claim: Callable[[], bool], *, what: str, timeout_s: float, look_at: Path) -> None:
    """Ask until the claim is true.

    Raises:
        BedError: It was not within the time; the message ends with the last lines of the log to look at.
    """
    deadline = time.monotonic() + timeout_s
    while not claim():
        if time.monotonic() > deadline:
            tail = look_at.read_text(errors="replace")[-1500:] if look_at.exists() else "(no log)"
            raise BedError(f"{what} did not happen within {timeout_s:.0f} s. The end of {look_at}:\n{tail}")
        time.sleep(POLL_S)
