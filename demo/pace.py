"""How fast this machine is, and what it can therefore learn in the time there is."""

import concurrent.futures
import json
import time
from dataclasses import replace
from typing import Any, Final

from demo import manifests
from demo.flow import Flow
from demo.workload import Recipe

CONCURRENCY: Final = 8
_TOKENS: Final = 48
_REQUESTS: Final = 16
# Tokens a second of the reference machine (2 cores with AVX-512) at CONCURRENCY, for which the recipe below was chosen.
REFERENCE_TOKENS_PER_SECOND: Final = 140.0
# Tokens trained in the time in which one is generated at CONCURRENCY: 820 a second against 140 on that machine.
_TRAIN_RATIO: Final = 6.0
# From a pod's start until its engine answers, there.
_START_S: Final = 40.0
# Regeneration, extraction and evaluation; then the candidate, and for the second candidate its control too.
_STARTS: Final = 6
_FEWEST_PROMPTS: Final = 160
_EPOCHS: Final = 5


def first_guess() -> Recipe:
    """Return the reference machine's recipe."""
    return Recipe(
        train_prompts=320,
        probe_prompts=48,
        answer_tokens=64,
        epochs=_EPOCHS,
        vocabulary_size=1536,
        concurrencies=(1, 4),
        requests_per_slot=4,
        rounds=(2, 4),
    )


def measure(flow: Flow) -> float:
    """Return tokens a second at CONCURRENCY, through the API server's proxy: that works from outside any cluster."""
    prompts = [f"Write a product description for a {word} radio." for word in ("red", "blue", "teal", "black")]
    _complete(flow, prompts[0])
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(max_workers=CONCURRENCY) as pool:
        tokens = sum(pool.map(lambda at: _complete(flow, prompts[at % len(prompts)]), range(_REQUESTS)))
    return tokens / (time.monotonic() - started)


def fit(recipe: Recipe, speed: float) -> Recipe:
    """Return the recipe for a machine of this speed: a slower one learns from fewer prompts."""
    share = min(1.0, speed / REFERENCE_TOKENS_PER_SECOND)
    prompts = max(_FEWEST_PROMPTS, round(recipe.train_prompts * share))
    return replace(recipe, train_prompts=min(recipe.train_prompts, prompts))


def expected_s(recipe: Recipe, speed: float) -> float:
    """Return about how long training and both measurements will take, from what this machine was seen to do."""
    training = recipe.train_tokens * (1 / speed + recipe.epochs / (_TRAIN_RATIO * speed))
    # A band's throughput is about proportional to its concurrency up to CONCURRENCY.
    blocks = sum(recipe.requests_per_slot * recipe.answer_tokens * CONCURRENCY / speed for _ in recipe.concurrencies)
    measuring = recipe.rounds[0] * blocks * (4 + 6)
    return training + measuring + _STARTS * _START_S * max(1.0, REFERENCE_TOKENS_PER_SECOND / speed)


def _complete(flow: Flow, prompt: str) -> int:
    """Return how many tokens the server answered with."""
    body: dict[str, Any] = {
        "model": flow.model_name(),
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": _TOKENS,
        "temperature": 0,
    }
    answer = flow.cluster.post_to_service(f"{manifests.NAME}:8000", "v1/chat/completions", json.dumps(body))
    return int(answer["usage"]["completion_tokens"])
