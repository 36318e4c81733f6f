"""How many HTTP answers a server gave, and how many of them were its own errors, by its own metrics.

vLLM counts them by prometheus-fastapi-instrumentator: ``http_requests_total{handler, method, status="2xx"}``. Only
handlers that complete something count: health checks and scrapes would drown the errors.
"""

from dataclasses import dataclass
from typing import Final

from prometheus_client import parser

SERIES: Final = "http_requests_total"
_HANDLERS: Final = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
_OWN_FAULTS: Final = ("5xx", "5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Counts since the server started."""

    total: int
    errors: int
    """Answers of the 500s: a request that was wrong itself is not the server's fault."""


def read(text: str) -> Answers | None:
    """Return what a scrape says; None when it is none, or has no such series."""
    total = errors = 0.0
    found = False
    try:
        for family in parser.text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name != SERIES or sample.labels.get("handler") not in _HANDLERS or not sample.value >= 0:
                    continue
                found = True
                total += sample.value
                errors += sample.value if sample.labels.get("status", "").startswith(_OWN_FAULTS) else 0.0
        return Answers(total=round(total), errors=round(errors)) if found else None
    except (ValueError, KeyError, IndexError, OverflowError):
        return None
