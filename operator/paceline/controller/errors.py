"""Errors by who must act: the user (permanent), or nobody, since a retry helps (transient).

ControllerError
├── PermanentError
│   ├── RefusedError           the API server will not have this object: 400, 403, 413, 422
│   └── ForeignObjectError     an object with our name belongs to another
└── TransientError
├── NotFoundError          404
├── ConflictError          409: what we decided on has moved
│   ├── AlreadyExistsError
│   └── RetakenError       what we decided on was moved by ourselves, for a reason of its own
├── GoneError              410: the watch must start from a new list
└── UnavailableError       401, 429, 5xx, time-outs, broken connections
"""

from collections.abc import Mapping
from typing import Any, Final

_MAX_MESSAGE: Final = 900


class ControllerError(Exception):
    """Root of what can go wrong between a decision and its effect."""


class PermanentError(ControllerError):
    """Repeating it changes nothing; the message says what to change."""


class RefusedError(PermanentError):
    """The API server refuses the object itself."""


class ForeignObjectError(PermanentError):
    """A name we need is taken by an object that is not ours, which is never touched."""


class TransientError(ControllerError):
    """Worth another try."""

    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        """Keep what the server asked for: no try before ``retry_after_s`` seconds have passed."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotFoundError(TransientError):
    """There is no such object, or no such kind yet."""


class ConflictError(TransientError):
    """A precondition did not hold; the next pass decides on newer facts."""


class AlreadyExistsError(ConflictError):
    """A create met an object of the same name."""


class RetakenError(ConflictError):
    """A write that changed nothing of what was decided on made another version of it; the next pass decides on that."""


class GoneError(TransientError):
    """The resource version is too old to watch from."""


class UnavailableError(TransientError):
    """The API server did not do its work: overload, outage, network, or a token that just expired."""


class LeaseLostError(ControllerError):
    """Another instance may be the leader now; nothing may be written any more."""


_BY_STATUS: Final[Mapping[int, type[TransientError]]] = {404: NotFoundError, 409: ConflictError, 410: GoneError}
_REFUSED: Final = frozenset({400, 403, 405, 413, 415, 422})


def from_status(status: int, body: Mapping[str, Any], *, retry_after: str | None = None) -> ControllerError:
    """Return the error that an answer of the API server stands for.

    Args:
        status: HTTP status, or the ``code`` of a watch's ERROR event.
        body: the ``Status`` document.
        retry_after: the header of that name, in seconds.
    """
    message = f"{status} {body.get('reason', '')}: {body.get('message', '')}"[:_MAX_MESSAGE]
    if status == 409 and body.get("reason") == "AlreadyExists":  # noqa: PLR2004 - 409 is what it is
        return AlreadyExistsError(message)
    if status in _BY_STATUS:
        return _BY_STATUS[status](message)
    # A namespace on its way out answers 403; our owner is about to go with it, so there is nothing to tell anybody.
    if status in _REFUSED and not _namespace_ends(body):
        return RefusedError(str(body.get("message") or message)[:_MAX_MESSAGE])
    return UnavailableError(message, retry_after_s=_seconds(retry_after))


def _namespace_ends(body: Mapping[str, Any]) -> bool:
    causes = (body.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _seconds(retry_after: str | None) -> float:
    # An HTTP date is legal too, but the API server never sends one.
    return float(retry_after) if retry_after and retry_after.isdigit() else 0.0
