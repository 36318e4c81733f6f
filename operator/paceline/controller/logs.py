"""Logs as events with values: one JSON object a line, snake_case events, keys said once here."""

import logging
import sys
from typing import Any, Final

import structlog

from paceline.planning.plan import Key

# Keys that more than one module uses; a query over all logs relies on their spelling.
KIND: Final = "kind"
NAMESPACE: Final = "namespace"
NAME: Final = "name"
UID: Final = "uid"
GENERATION: Final = "generation"
REVISION: Final = "resource_version"
DURATION_MS: Final = "duration_ms"
OUTCOME: Final = "outcome"
ERROR: Final = "error"
COUNT: Final = "count"
RETRY_S: Final = "retry_s"
URL: Final = "url"
IDENTITY: Final = "identity"

_SHARED: Final[tuple[structlog.typing.Processor, ...]] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
)


def configure(level: str) -> None:
    """Send our events, and what libraries log, to stderr as JSON lines."""
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_SHARED],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # kopf tells of every event that it hands over; what we make of it is told by the pass.
    logging.getLogger("kopf").setLevel(logging.WARNING)


def get() -> Any:
    """Return the controller's logger; untyped, as structlog's own loggers are."""
    return structlog.get_logger("paceline.controller")


def bind(key: Key) -> Any:
    """Return the logger of one pass."""
    return get().bind(**{KIND: key.kind.kind, NAMESPACE: key.namespace, NAME: key.name})
