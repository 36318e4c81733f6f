"""Where a probe's prompts come from: a file, or the bundled mix."""

from collections.abc import Sequence
from pathlib import Path

from paceline.api.measurement import BUNDLED_PROMPTS
from paceline.probe import mix, prompts


def load(source: str, *, max_prompts: int | None = None) -> Sequence[prompts.Prompt]:
    """Return the prompts of a file, or the bundled ones where ``source`` says so.

    Raises:
        PromptsError: when there are none, or a line is no prompt.
    """
    if source == BUNDLED_PROMPTS:
        return prompts.chosen(mix.prompts(), max_prompts)
    return prompts.read(Path(source), max_prompts=max_prompts)
