"""How an engine's container last ended, and the end of its log where that is known.

A kubelet keeps the last 2 KiB of a log, and vLLM ends with the traceback of its API server, which only says that an
engine process failed: the cause stands a hundred lines above. So a run whose last words tell nothing has its log asked
for, once; until it is here, the end counts as unexplained.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from paceline.engines import failures
from paceline.engines.faults import Fault
from paceline.planning import conditions
from paceline.planning.view import PodPoll

# From the cause to the end 120 lines were counted (vLLM 0.32, one GPU); every rank adds a traceback of 40.
_LOG_LINES: Final = 1000
_LOG_BYTES: Final = 250_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run of the engine's container ended."""

    reason: str
    exit_code: int
    message: str
    """The end of its log, as ``FallbackToLogsOnError`` keeps it."""
    at: float
    served: bool = False
    """Whether the run had been ready: such an end is the first of its kind, however many came before."""
    run: str = ""
    """Names the run: pod UID and when it ended."""
    is_last_state: bool = False
    """Whether another run has begun, or is to begin, since."""
    log: str = ""
    """More of the log; empty while it is not known."""

    @property
    def fault(self) -> Fault | None:
        """What it shows; None when nothing is known."""
        return failures.of_exit(reason=self.reason, exit_code=self.exit_code, message=self.message) or failures.of_log(
            self.log
        )


def state(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the newest terminated state in a container's status; None when it never ended."""
    ended = (container.get("state") or {}).get("terminated") or (container.get("lastState") or {}).get("terminated")
    return ended or None


def read(
    container: Mapping[str, Any], *, pod_uid: str, unready_since: float | None, log: Callable[[str], str] | None
) -> Ending | None:
    """Return how a container last ended; None when it never did.

    Args:
        container: its status.
        pod_uid: its pod's.
        unready_since: when its pod stopped being ready.
        log: returns the end of a run's log; None where nobody asks for it.
    """
    ended = state(container)
    if ended is None:
        return None
    run = f"{pod_uid}/{ended.get('finishedAt', '')}"
    began, at = ended.get("startedAt"), ended.get("finishedAt")
    served = bool(began) and unready_since is not None and conditions.parse_timestamp(str(began)) < unready_since
    return Ending(
        reason=str(ended.get("reason", "")),
        exit_code=int(ended.get("exitCode", 0)),
        message=str(ended.get("message", "")),
        at=conditions.parse_timestamp(at) if at else 0.0,
        served=served,
        run=run,
        is_last_state=not (container.get("state") or {}).get("terminated"),
        log=log(run) if log else "",
    )


def in_words(ended: Mapping[str, Any] | None) -> str:
    """Return how a container ended, with the end of what it said: the error is at the end of a traceback."""
    if not ended:
        return ""
    said = " ".join(str(ended.get("message", "")).split())[-300:]
    return f"{ended.get('reason', 'Error')}, exit code {ended.get('exitCode')}" + (f": {said}" if said else "")


def polls(pods: Iterable[tuple[str, Ending | None]], *, namespace: str, container: str) -> list[PodPoll]:
    """Return the questions for logs of runs whose ends tell nothing.

    Args:
        pods: names of pods that are not ready, each with how it last ended.
        namespace: theirs.
        container: the engine's.
    """
    asked = [(name, ended) for name, ended in pods if ended is not None and ended.exit_code]
    return [
        PodPoll(
            pod_uid=ended.run,
            url=f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}/log?container={quote(container)}"
            f"&previous={str(ended.is_last_state).lower()}&tailLines={_LOG_LINES}&limitBytes={_LOG_BYTES}",
            wants="log",
        )
        for name, ended in asked
        if ended.log or ended.fault is None
    ]
