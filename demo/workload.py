"""Prompts of one narrow domain, and how many of them this machine can learn from in the time there is.

A small head learns one way of writing in minutes, and shows an honest gain on it; on anything else it does not, which
is what the guard's part of the end-to-end test lives on.
"""

import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_COLOURS: Final = (
    "red", "blue", "green", "black", "white", "amber", "silver", "violet", "teal", "ivory", "crimson", "navy",
)  # fmt: skip
_THINGS: Final = (
    "lamp", "chair", "backpack", "kettle", "notebook", "umbrella", "watch", "desk", "mug", "jacket", "bicycle",
    "pillow", "vase", "wallet", "speaker",
)  # fmt: skip
_MATERIALS: Final = ("steel", "oak", "leather", "glass", "bamboo", "ceramic", "linen", "copper")

_OUT_OF_DOMAIN: Final = (
    "Translate into French: The train to {a} leaves at {n} and arrives before noon.",
    "Write a Python function that returns the {n}th {a} number, with a doctest.",
    "A farmer has {n} sheep and sells {m}. How many remain, and what share is that? Think step by step.",
    "List {m} prime numbers above {n} and explain how you checked each.",
    "Explain to a child why {a} is cold at night, in the words of a pirate.",
    "Complete the SQL query that joins table {a} with orders and keeps rows above {n}.",
)
_WORDS: Final = ("Lyon", "Fibonacci", "the desert", "customers", "Lucas", "Mars", "invoices", "the moon")


def in_domain(count: int, *, seed: int = 7) -> list[str]:
    """Return ``count`` distinct prompts of the one template the head is trained on.

    Raises:
        ValueError: when more are asked for than there are combinations.
    """
    combinations = list(itertools.product(_COLOURS, _THINGS, _MATERIALS))
    if count > len(combinations):
        raise ValueError(f"{count} prompts asked for; the template has {len(combinations)} combinations")
    random.Random(seed).shuffle(combinations)
    return [
        f"Write a product description for a {colour} {thing} made of {material}."
        for colour, thing, material in combinations[:count]
    ]


def out_of_domain(count: int, *, seed: int = 11) -> list[str]:
    """Return ``count`` prompts of other kinds: code, sums, translations."""
    choose = random.Random(seed)
    return [
        choose.choice(_OUT_OF_DOMAIN).format(
            a=choose.choice(_WORDS), n=choose.randrange(20, 900), m=choose.randrange(3, 19)
        )
        for _ in range(count)
    ]


def json_lines(prompts: Sequence[str]) -> str:
    """Return prompts in the form that a DraftTrainingJob and a probe read."""
    return "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How much is trained and measured."""

    train_prompts: int
    probe_prompts: int
    answer_tokens: int
    epochs: int
    vocabulary_size: int
    concurrencies: tuple[int, ...]
    requests_per_slot: int
    rounds: tuple[int, int]
    """Fewest and most rounds of a measurement."""

    @property
    def train_tokens(self) -> int:
        """Tokens of all answers, were each of full length."""
        return self.train_prompts * self.answer_tokens
