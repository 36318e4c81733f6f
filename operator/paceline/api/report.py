"""The termination message: at most 4 KiB from a pod that is not trusted, so both ends are bounded here.

A report that is too long as JSON travels deflated, and one that is still too long has its lists of objects turned into
columns first, which deflate better: like stands by like, and no key is said twice. What inflates to more than
MAX_REPORT_BYTES is refused unread.
"""

import base64
import binascii
import json
import zlib
from typing import Any, Final, TypeVar

import pydantic

from paceline.api.stages import TERMINATION_LIMIT_BYTES

MAX_REPORT_BYTES: Final = 64 * 1024
_DEFLATED: Final = "z:"
_COLUMNS: Final = "c:"

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
    for packed in (_deflated(document), _columns(document)):
        if len(packed) <= TERMINATION_LIMIT_BYTES:
            return packed
    raise ValueError(f"report of {len(document)} bytes does not fit a termination message of 4 KiB; report less")


def _deflated(document: str, mark: str = _DEFLATED) -> str:
    return mark + base64.b85encode(zlib.compress(document.encode(), 9)).decode()


def _columns(document: str) -> str:
    """Return the report with every list of objects as an object of lists; null stands where an object lacks a key."""
    fields: dict[str, Any] = json.loads(document)
    turned = {
        key: {
            column: [row.get(column) for row in value]
            for column in dict.fromkeys(name for row in value for name in row)
        }
        for key, value in fields.items()
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value)
    }
    rest = {key: value for key, value in fields.items() if key not in turned}
    return _deflated(json.dumps({"columns": turned, "rest": rest}, separators=(",", ":")), _COLUMNS)


def _rows(document: bytes) -> str:
    """Return the document that :func:`_columns` turned."""
    told = json.loads(document)
    turned = {
        key: [
            {column: value for column, value in zip(columns, row, strict=True) if value is not None}
            for row in zip(*columns.values(), strict=True)
        ]
        for key, columns in told["columns"].items()
    }
    return json.dumps({**told["rest"], **turned})


def decode(message: str, model: type[ReportT]) -> ReportT:
    """Return the report in a termination message.

    Raises:
        UnreadableReportError: when the text is no such report.
    """
    try:
        if message.startswith(_COLUMNS):
            return model.model_validate_json(_rows(_inflate(message, _COLUMNS)))
        return model.model_validate_json(_inflate(message) if message.startswith(_DEFLATED) else message.encode())
    except (zlib.error, binascii.Error, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableReportError(f"termination message is no {model.__name__}: {message[:200]!r}") from error


def _inflate(message: str, mark: str = _DEFLATED) -> bytes:
    """Return the inflated document, refusing one that is larger than we would ever send."""
    inflater = zlib.decompressobj()
    document = inflater.decompress(base64.b85decode(message.removeprefix(mark)), MAX_REPORT_BYTES)
    if inflater.unconsumed_tail:
        raise ValueError("inflates to more than MAX_REPORT_BYTES")
    return document
