"""What of a scrape is worth keeping, so that a thousand engines can be watched.

A scrape of vLLM is 50 kB, nine tenths of it buckets of histograms, and reading all of it takes 20 ms; what any reader
here uses is thirty lines. What is left out is not checked either: a damaged line that nobody reads does no harm.
"""

import dataclasses
import re
from typing import Final

from paceline.engines import answers, series

_HISTOGRAMS: Final = ("ttft", "itl")


def slim(text: str) -> str:
    """Return ``text`` without the series that no reader uses.

    ``metrics.read`` and ``answers.read`` say the same of the answer as of ``text``. A text without a series of an
    engine, such as a proxy's error page, is returned as it is, and so is the end of one that was cut off.
    """
    whole, newline, rest = text.rpartition("\n")
    lines = [found.group() for found in _WANTED.finditer(whole)]
    if not any(line.startswith(series.PREFIXES) for line in lines):
        return text
    return "\n".join(lines) + newline + rest


def _samples(names: series.Names) -> list[str]:
    """Return the names of all samples that one engine's reading is made of."""
    found: list[str] = []
    for field in dataclasses.fields(names):
        value = getattr(names, field.name)
        if isinstance(value, tuple) and field.name != "model_labels":
            suffixes = ("_sum", "_count") if field.name in _HISTOGRAMS else ("",)
            found += [name + suffix for name in value for suffix in suffixes]
    return found


def _pattern() -> re.Pattern[str]:
    samples = [name for names in series.ENGINES for name in _samples(names)]
    wanted = {*samples, series.PROCESS_START, answers.SERIES}
    # A counter may come without its suffix: the type that is declared for it then says that it is one.
    families = {name.removesuffix(suffix) for name in wanted for suffix in ("_total", "_sum", "_count")}
    names = "|".join(map(re.escape, sorted(wanted | families, key=len, reverse=True)))
    return re.compile(rf"^(?:# TYPE )?(?:{names})(?=[ \t{{]).*$", re.MULTILINE)


_WANTED: Final = _pattern()
