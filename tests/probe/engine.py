"""A trivial engine: streams chat completions and counts them as vLLM does, with one misbehaviour at a time."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any


class Misbehaviour(Enum):
    """What a server can do to a request."""

    STATUS_500 = auto()
    ERROR_IN_STREAM = auto()
    DROP = auto()
    STALL = auto()
    NO_TOKENS = auto()
    NO_USAGE = auto()
    GARBAGE = auto()


@dataclass(kw_only=True)
class Engine:
    """The state of one server."""

    model: str = "m"
    answer_tokens: int = 12
    tokens_per_chunk: int = 1
    """More than one: it speculates, and all drafts of so many tokens less one are accepted."""
    chunk_s: float = 0.0
    misbehave: dict[int, Misbehaviour] = field(default_factory=dict)
    """By number of the request, from 0."""
    usage_in_every_chunk: bool = True
    texts: Mapping[str, str] = field(default_factory=dict)
    """Another answer than the usual one, by the prompt's text."""
    started_at: float = 1000.0
    foreign_tokens: int = 0
    broken_metrics: str | None = None
    stuck_running: int = 0
    requests: int = 0
    finished: int = 0
    running: int = 0
    generated: int = 0
    drafts: int = 0
    prompt_tokens: int = 3
    """Of every prompt."""
    cached_tokens: int | None = None
    """Of every prompt, found in the prefix cache; None: it has no such counters."""
    most_running: int = 0

    def metrics(self) -> str:
        """Return the scrape."""
        if self.broken_metrics is not None:
            return self.broken_metrics
        labels = f'{{engine="0",model_name="{self.model}"}}'
        drafted = self.drafts * (self.tokens_per_chunk - 1)
        lines = {
            f"vllm:generation_tokens_total{labels}": self.generated + self.foreign_tokens,
            f"vllm:request_success_total{labels}": self.finished,
            f"vllm:num_requests_running{labels}": self.running + self.stuck_running,
            f"vllm:num_requests_waiting{labels}": 0,
            "process_start_time_seconds": self.started_at,
        }
        if self.cached_tokens is not None:
            lines |= {
                f"vllm:prefix_cache_queries_total{labels}": self.finished * self.prompt_tokens,
                f"vllm:prefix_cache_hits_total{labels}": self.finished * self.cached_tokens,
            }
        if self.tokens_per_chunk > 1:
            lines |= {
                f"vllm:spec_decode_num_drafts_total{labels}": self.drafts,
                f"vllm:spec_decode_num_draft_tokens_total{labels}": drafted,
                f"vllm:spec_decode_num_accepted_tokens_total{labels}": drafted,
            }
        return "".join(f"{name} {float(value)}\n" for name, value in lines.items())

    def restart(self) -> None:
        """Be another process, that counts from zero."""
        self.started_at += 500
        self.generated = self.finished = self.drafts = 0

    async def events(self, document: Mapping[str, Any], number: int) -> AsyncGenerator[bytes, None]:
        """Yield the events of an answer."""
        wrong = self.misbehave.get(number)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            async with aclosing(self._answer(document, wrong)) as events:
                async for event in events:
                    yield event
        finally:
            self.running -= 1
            self.finished += 1

    async def _answer(self, document: Mapping[str, Any], wrong: Misbehaviour | None) -> AsyncGenerator[bytes, None]:
        total = min(self.answer_tokens, document["max_tokens"])
        if wrong is Misbehaviour.NO_TOKENS:
            total = 0
        if wrong is Misbehaviour.GARBAGE:
            yield b"data: <html>\n\n"
        yield _event({"choices": [{"delta": {"role": "assistant", "content": ""}}], **self._usage(0, wrong)})
        sent = 0
        while sent < total:
            await asyncio.sleep(self.chunk_s)
            if sent and wrong is Misbehaviour.STALL:
                await asyncio.sleep(3600)
            if sent and wrong is Misbehaviour.DROP:
                return
            if sent and wrong is Misbehaviour.ERROR_IN_STREAM:
                yield _event({"error": {"message": "engine dead", "code": 500}})
                return
            step = min(self.tokens_per_chunk, total - sent)
            sent += step
            self.generated += step
            self.drafts += self.tokens_per_chunk > 1
            text = self.texts.get(document["messages"][-1]["content"], "w ") * step
            yield _event({"choices": [{"delta": {"content": text}}], **self._usage(sent, wrong)})
        yield _event({"choices": [{"delta": {}, "finish_reason": "length"}], **self._usage(sent, wrong)})
        if wrong is not Misbehaviour.NO_USAGE:
            yield _event({"choices": [], "usage": {"completion_tokens": sent}})
        yield b"data: [DONE]\n\n"

    def _usage(self, sent: int, wrong: Misbehaviour | None) -> dict[str, Any]:
        if wrong is Misbehaviour.NO_USAGE or not self.usage_in_every_chunk:
            return {}
        return {"usage": {"prompt_tokens": self.prompt_tokens, "completion_tokens": sent}}


def _event(document: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"
