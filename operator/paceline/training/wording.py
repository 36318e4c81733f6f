"""How numbers and long texts read in messages and in status."""

from typing import Final

from paceline.api import base

# Below the API's 1,024, since messages are put together from parts.
_LONGEST: Final = 1000
_BYTE_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_STEP: Final = 1000.0


def clip(text: str) -> str:
    """Return ``text`` short enough for a message."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def size(count: int) -> str:
    """Return bytes in a unit that reads well, such as ``1.8 GB``."""
    value = float(count)
    for unit in _BYTE_UNITS:
        if value < _STEP or unit == _BYTE_UNITS[-1]:
            break
        value /= _STEP
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def duration(seconds: float) -> str:
    """Return a span as the API writes it, such as ``1h5m`` or ``45s``; never empty."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else "", f"{left}s" if left else ""]
    return "".join(parts) or "0s"


def seconds(span: str) -> float:
    """Return the seconds of a span as the API writes it."""
    return base.parse_duration(span).total_seconds()
