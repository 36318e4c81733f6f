"""Reads the few engine arguments that decide whether a head fits."""

import re
from collections.abc import Sequence
from typing import Final

_UNITS: Final = {"": 1, "k": 1000, "m": 1_000_000, "g": 1_000_000_000, "K": 1024, "M": 1024**2, "G": 1024**3}


def value(args: Sequence[str], flag: str) -> str:
    """Return what ``flag`` is set to, as ``--flag=value`` or ``--flag value``; the last one wins, empty when unset."""
    said = ""
    for position, argument in enumerate(args):
        name, equals, rest = argument.partition("=")
        if name.replace("_", "-") != flag:
            continue
        if equals:
            said = rest
        elif position + 1 < len(args):
            said = args[position + 1]
    return said


def length(args: Sequence[str], flag: str = "--max-model-len") -> int | None:
    """Return a number of tokens; ``32k`` is 32,000 and ``32K`` is 32,768, as vLLM reads them. None when unset."""
    found = re.fullmatch(r"([0-9]{1,12})([kKmMgG]?)", value(args, flag).strip())
    return int(found[1]) * _UNITS[found[2]] if found else None
