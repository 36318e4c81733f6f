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
REFERENCE_TOKENS_PER_SECOND: Final = 120.0
# Training costs about so many forward passes a token as generation at CONCURRENCY does.
_TRAIN_RATIO: Final = 7.0
_FEWEST_PROMPTS: Final = 160
_MOST_EPOCHS: Final = 6


def first_guess() -> Recipe:
    """Return the reference machine's recipe."""
    return Recipe(
        train_prompts=400,
        probe_prompts=48,
        answer_tokens=96,
        epochs=_MOST_EPOCHS,
        vocabulary_size=4096,
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
    """Return about how long training and both measurements will take."""
    training = recipe.train_tokens * (1 / speed + recipe.epochs / (_TRAIN_RATIO * speed))
    answers = sum(recipe.requests_per_slot * band for band in recipe.concurrencies) * recipe.answer_tokens
    one_round = answers * 4 / (speed / 2)
    starts = 6 * 75.0
    return training + 2 * recipe.rounds[0] * one_round + starts


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
