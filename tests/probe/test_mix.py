"""The bundled mix."""

from itertools import pairwise

from paceline.api.measurement import BUNDLED_PROMPTS
from paceline.probe import corpus, mix, prompts


def test_mix_is_the_same_every_time() -> None:
    """Rounds of one rollout, and rollouts of one deployment, are measured on the same prompts."""
    assert mix.prompts() == mix.prompts()
    assert corpus.load(BUNDLED_PROMPTS) == mix.prompts()


def test_mix_has_short_prompts_pages_and_long_ones() -> None:
    """In the shares that it promises, so that bands of length hold something."""
    bands = prompts.by_length(mix.prompts(), [200, 4000])
    shares = {name: len(inside) / len(mix.prompts()) for name, inside in bands.items()}
    assert shares["0-200"] >= 0.5
    assert shares["201-4000"] > 0.3
    assert shares["4001-"] > 0.1


def test_no_two_prompts_begin_alike_for_long() -> None:
    """A cache would answer for the server. Blocks of caches hold 16 tokens and more, some 64 characters."""
    texts = sorted(
        "\n".join(turn.content for turn in one) for one in mix.prompts() if sum(len(t.content) for t in one) > 200
    )
    assert [first for first, second in pairwise(texts) if first[:80] == second[:80]] == []


def test_conversations_end_with_the_user() -> None:
    """An answer is what is asked for."""
    assert {one[-1].role for one in mix.prompts()} == {"user"}
    assert any(len(one) > 1 for one in mix.prompts())


def test_few_are_chosen_by_a_hash_as_from_a_file() -> None:
    """The same ones, in the mix's order."""
    few = corpus.load(BUNDLED_PROMPTS, max_prompts=7)
    assert len(few) == 7
    assert few == corpus.load(BUNDLED_PROMPTS, max_prompts=7)
