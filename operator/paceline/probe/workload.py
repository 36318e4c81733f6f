"""What every arm is asked, and which part of it a block asks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paceline.probe.prompts import ALL, Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What every arm is asked."""

    model: str
    prompts: Sequence[Prompt]
    max_tokens: int

    def document(self, prompt: int, *, max_tokens: int | None = None) -> dict[str, Any]:
        """Return the request for a prompt.

        Greedy, so that both arms are asked for the same answers, and usage in every chunk, since a speculating server
        sends several tokens in one.
        """
        messages = self.prompts[prompt % len(self.prompts)]
        return {
            "model": self.model,
            "messages": [one.model_dump() for one in messages],
            "max_tokens": max_tokens or self.max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which block of a round this is."""

    round: int
    position: int
    concurrency: int
    """Slots of a closed loop."""
    requests: int
    """Requests of the block, over all slots."""
    first_prompt: int
    prompt_band: str = ALL
    rate_per_minute: int = 0
    """Requests that an open loop starts a minute; 0: the loop is closed."""
