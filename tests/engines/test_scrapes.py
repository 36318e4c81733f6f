"""What is kept of a scrape: less, and it reads the same."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engines import answers, memory, metrics, scrapes

TEXTS = {path.name: path.read_text() for path in sorted((Path(__file__).parent / "metrics").glob("*.txt"))}
REAL = TEXTS["vllm-0.32-eagle3-real-scrape.txt"]


@pytest.mark.parametrize("name", TEXTS)
def test_slimmed_scrape_reads_as_the_whole_one(name: str) -> None:
    """Readings, and the reasons and messages of those that are none, for every recorded answer."""
    kept = scrapes.slim(TEXTS[name])
    assert metrics.read(kept) == metrics.read(TEXTS[name])
    assert answers.read(kept) == answers.read(TEXTS[name])
    assert scrapes.slim(kept) == kept


def test_real_scrape_keeps_a_twentieth() -> None:
    """Buckets go, and with them nine tenths of what a thousand engines would take of memory and time."""
    assert len(scrapes.slim(REAL)) < len(REAL) / 15
    assert "_bucket" not in scrapes.slim(REAL)


@given(st.sampled_from(sorted(TEXTS)), st.integers(min_value=0, max_value=60_000))
def test_scrape_that_breaks_off_is_as_unreadable_when_slimmed(name: str, length: int) -> None:
    """Whole lines are a shorter scrape, half ones are damage, wherever it was cut."""
    cut = TEXTS[name][:length]
    whole, slimmed = metrics.read(cut), metrics.read(scrapes.slim(cut))
    if isinstance(whole, metrics.Reading):
        assert slimmed == whole
    else:
        assert isinstance(slimmed, metrics.Unreadable)
        assert slimmed.reason is whole.reason


def test_counter_without_its_suffix_is_kept_with_its_type() -> None:
    """The declared type is what makes it a counter."""
    text = REAL.replace("vllm:generation_tokens_total", "vllm:generation_tokens")
    assert metrics.read(scrapes.slim(text)) == metrics.read(text) == metrics.read(REAL)


def test_text_that_was_read_is_not_read_again() -> None:
    """And of too many, what was asked for longest ago is."""
    asked: list[str] = []

    def read(text: str, times: int) -> str:
        asked.append(text)
        return text * times

    known = memory.Memory(read, most=2)
    told = [known.of(text, times) for text, times in (("a", 1), ("a", 2), ("a", 1), ("b", 1), ("a", 1), ("a", 2))]
    assert told == ["a", "aa", "a", "b", "a", "aa"]
    assert asked == ["a", "a", "b", "a"]
    assert len(known) == 2
