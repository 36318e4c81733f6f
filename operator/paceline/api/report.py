"""The termination message: at most 4 KiB from a pod that is not trusted, so both ends are bounded here.

A report that is too long as JSON travels deflated; what inflates to more than MAX_REPORT_BYTES is refused unread.
"""

import base64
import binascii
import zlib
from typing import Final, TypeVar

import pydantic

from paceline.api.stages import TERMINATION_LIMIT_BYTES

MAX_REPORT_BYTES: Final = 64 * 1024
_DEFLATED: Final = "z:"

ReportT = TypeVar("ReportT", bound=pydantic.BaseModel)


class UnreadableReportError(ValueError):
    """The termination message is no report: the container was killed, or is not ours."""


def encode(report: pydantic.BaseModel) -> str:
    """Return ``report`` as a termination message.

    Raises:
        ValueError: when it does not fit even deflated.
    """
    document = report.model_dump_json(by_alias=True, exclude_none=True)
    if len(document.encode()) <= TERMINATION_LIMIT_BYTES:
        return document
    packed = _DEFLATED + base64.b85encode(zlib.compress(document.encode(), 9)).decode()
    if len(packed) > TERMINATION_LIMIT_BYTES:
        raise ValueError(f"report of {len(document)} bytes does not fit a termination message of 4 KiB; report less")
    return packed


def decode(message: str, model: type[ReportT]) -> ReportT:
    """Return the report in a termination message.

    Raises:
        UnreadableReportError: when the text is no such report.
    """
    try:
        return model.model_validate_json(_inflate(message) if message.startswith(_DEFLATED) else message.encode())
    except (pydantic.ValidationError, zlib.error, binascii.Error, ValueError) as error:
        raise UnreadableReportError(f"termination message is no {model.__name__}: {message[:200]!r}") from error


def _inflate(message: str) -> bytes:
    """Return the inflated document, refusing one that is larger than we would ever send."""
    inflater = zlib.decompressobj()
    document = inflater.decompress(base64.b85decode(message.removeprefix(_DEFLATED)), MAX_REPORT_BYTES)
    if inflater.unconsumed_tail:
        raise ValueError("inflates to more than MAX_REPORT_BYTES")
    return document
