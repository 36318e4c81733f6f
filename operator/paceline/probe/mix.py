"""Prompts that need no file: questions, tasks on a page of text, long documents and conversations, our own words.

They stand in where nobody has prompts of their traffic at hand. Half are shorter than 200 characters, a third are a
page, the rest is long; so a draft that gains on short prompts only is seen when lengths are bands of their own. No two
long ones begin alike, since a shared beginning would lie in the prefix cache.
"""

import random
from typing import Final

from paceline.probe.prompts import Message, Prompt

_SEED: Final = 20
_COUNT: Final = 240
_SHORT_SHARE: Final = 0.5
_PAGE_SHARE: Final = 0.33
_LONG_SHARE: Final = 0.12
"""The rest are conversations."""

_QUESTIONS: Final = (
    "What makes {a} hard to learn, and what would you teach first?",
    "Write four lines of verse about {a}.",
    "Give {n} reasons to prefer {a} to {b}.",
    "How would you explain {a} to a child of {n}?",
    "Compare {a} and {b} in one paragraph.",
    "Write a short mail that puts off a talk on {a} by {n} days.",
    "Name {n} mistakes that beginners make with {a}, one a line.",
    "Write a Python function that counts how often {a} is named in a text, with a doctest.",
    "Plan a visit of {n} hours to an exhibition on {a}.",
    "If {a} cost {n} coins and {b} three times as much, what do two of each cost? Show the steps.",
)
_TASKS: Final = (
    "Sum up the notes below in three sentences.",
    "List every fact about {a} that the notes below state.",
    "Rewrite the notes below for a newspaper.",
    "Which of the notes below contradict each other, and why?",
    "Answer from the notes below alone: what should be done about {a} first?",
)
_THINGS: Final = (
    "beekeeping", "tidal power", "sourdough", "chess openings", "map projections", "bridge repair", "the violin",
    "night trains", "crop rotation", "type design", "glacier walks", "tax forms", "harbour cranes", "public libraries",
    "bird migration", "clock making", "city trams", "rain gardens", "lighthouses", "old radios",
)  # fmt: skip
_SENTENCES: Final = (
    "Most of what is known about {a} comes from people who kept a diary for years.",
    "In the spring of year {n} a small group began to meet every week, and {a} was all they spoke of.",
    "The costs were higher than planned: {n} thousand in the first season, and half as much again in the second.",
    "Nobody had asked how {a} and {b} would get along in the same building.",
    "A visitor who came for {b} stayed for {a}, and wrote a long letter home about it.",
    "The committee found that repairs had been put off {n} times, always for good reasons.",
    "Where the river bends, {a} has been part of the town for as long as anyone remembers.",
    "Two engineers measured it again and got {n} where the old table said something else.",
    "It takes patience: the first tries fail, the next ones nearly work, and then it looks easy.",
    "A school in the next valley gave lessons in {a}, and later in {b} too, until the roof leaked.",
    "What changed was not the tools but the order in which they were used.",
    "By autumn there were {n} members, three of whom had done {b} for a living.",
    "The archive holds {n} letters on the matter; the last one asks for a warmer room.",
    "Critics said that {a} was a fashion, and were still saying so when they had grown old.",
    "If the weather holds, the work on {a} can be finished before the fair.",
    "Someone has to decide which of the two goes first, and so far everyone has been polite.",
)


def prompts() -> tuple[Prompt, ...]:
    """Return the mix, the same ones every time."""
    draw = random.Random(_SEED)  # noqa: S311 - drawn again alike, not kept secret
    return tuple(_prompt(draw, number / _COUNT) for number in draw.sample(range(_COUNT), _COUNT))


def _prompt(draw: random.Random, share: float) -> Prompt:
    """Return a prompt of the kind that has this share of the mix below it."""
    if share < _SHORT_SHARE:
        return (_user(_filled(draw, draw.choice(_QUESTIONS))),)
    if share < _SHORT_SHARE + _PAGE_SHARE:
        return (_user(_notes(draw, draw.randrange(8, 25))),)
    if share < _SHORT_SHARE + _PAGE_SHARE + _LONG_SHARE:
        return (_user(_notes(draw, draw.randrange(80, 160))),)
    asked, answered = _filled(draw, draw.choice(_QUESTIONS)), " ".join(_told(draw, 6))
    return (
        _user(asked),
        Message(role="assistant", content=answered),
        _user("Go on, and be more exact about " + _thing(draw)),
    )


def _notes(draw: random.Random, sentences: int) -> str:
    """Return a task on so many sentences; the number in front keeps beginnings apart."""
    task = f"Case {draw.randrange(10_000, 100_000)}. {_filled(draw, draw.choice(_TASKS))}"
    told = _told(draw, sentences)
    pages = [" ".join(told[at : at + 6]) for at in range(0, len(told), 6)]
    return "\n\n".join([task, *pages])


def _told(draw: random.Random, sentences: int) -> list[str]:
    return [_filled(draw, draw.choice(_SENTENCES)) for _ in range(sentences)]


def _filled(draw: random.Random, text: str) -> str:
    first, second = draw.sample(_THINGS, 2)
    return text.format(a=first, b=second, n=draw.randrange(3, 90))


def _thing(draw: random.Random) -> str:
    return f"{draw.choice(_THINGS)}."


def _user(text: str) -> Message:
    return Message(role="user", content=text)
